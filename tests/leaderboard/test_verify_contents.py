"""``lprime verify``: hostile names and texts, source that hides something, forged check reports."""

import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from submissions import NAME, SOURCE, SUITE, edit_each, edit_report, edit_runs, fault_of, reseal

from leaderboard.submission.manifest import CHECK, CHECK_PAGE
from leaderboard.submission.verify import STATIC, verify_submission
from leaderboard.submission.verify.text_fields import DEVICE

HOSTILE = {
    "**bold**": "markdown or HTML (*)",
    "`code`": "markdown or HTML (`)",
    "[text](https:evil)": "markdown or HTML ([)",
    "# heading": "markdown or HTML (#)",
    "a | b": "markdown or HTML (|)",
    "<img src=x onerror=alert(1)>": "markdown or HTML (<)",
    "&lt;b&gt;": "markdown or HTML (&)",
    "an @mention": "markdown or HTML (@)",
    "../../etc": "a path separator",
    "a\\b": "a path separator",
    "a\x1b[31mred": "a control or invisible character",
    "a\x00b": "a control or invisible character",
    "\u202etxt.exe": "a control or invisible character",
    "zero\u200bwidth": "a control or invisible character",
    "two\nlines": "not one line of words",
    "  ": "not one line of words",
    "a" * 2000: "characters, more than",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_fail_and_are_escaped_in_the_report(folder, text):
    reseal(folder, lambda content: content.update(title=text, authors=["Ada", text], note=text))
    found = fault_of(folder, "names")
    assert found.startswith("title ") and "; author " in found and "; note " in found
    assert found.count(HOSTILE[text]) == 3
    reseal(folder, lambda content: content.update(title="A title", authors=["Ada"], note=""))
    edit_each(folder, lambda run: run["encoding"].update(title=text, family=text))
    found = fault_of(folder, "names")
    assert found.startswith("family of copying seed 0 ") and "; title of copying seed 0 " in found
    assert HOSTILE[text] in found
    reseal(folder, lambda content: content.update(title=text, name=text))
    report = verify_submission(folder, SUITE)
    shown = "\n".join(line for f in report.findings for line in f.lines())
    assert not any(ord(c) < 32 and c != "\n" for c in shown) and "\u202e" not in shown
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(report.markdown())
    inside = {child.type for token in tokens if token.type == "inline" for child in token.children}
    assert inside <= {"text", "text_special", "softbreak", "code_inline"}
    assert sum(token.type == "tr_open" for token in tokens) == 1 + len(STATIC)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": "My encoding", "authors": ["Your Name"]}, "title is still that of the template; author is still that of"),
        ({"paper": "javascript:alert(1)"}, "paper is not an https link"),
        ({"paper": "https://a.org/x)](javascript:y"}, "paper is not an https link"),
        ({"paper": "http://a.org"}, "paper is not an https link"),
        ({"licence": "MIT/../x"}, "licence is not an SPDX identifier"),
        ({"versions": {"torch": "<b>"}}, "versions are not versions"),
        ({"versions": {"../x": "1"}}, "versions are not versions"),
        ({"made": "yesterday"}, "made is not a date in UTC"),
        ({"made": "2999-01-01T00:00:00+00:00"}, "made is in the future"),
    ],
)
def test_invalid_fields_of_a_submission(folder, change, message):
    reseal(folder, lambda content: content.update(change))
    assert message in fault_of(folder, "names")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cpu `x`"}, "device of copying seed 0 is not the name of a device"),
        ({"device": "/dev/null"}, "device of copying seed 0 is not the name of a device"),
        ({"versions": {"torch": "a b"}}, "versions of copying seed 0 are not versions"),
        ({"commit": "<b>"}, "commit of copying seed 0 is not a commit"),
        ({"started": "2026-01-01T00:00:00Z"}, "started of copying seed 0 is not a date"),
        ({"finished": "2999-01-01T00:00:00+00:00"}, "finished of copying seed 0 is in the future"),
        (
            {"weights": "../x"},
            "weights of copying seed 0 is '../x'; expected 'tiny/copying/my_encoding/seed-0/weights.safetensors'",
        ),
        ({"trained_as": "<b>"}, "trained_as of copying seed 0 is not the name of an encoding"),
    ],
)
def test_invalid_fields_of_results(folder, change, message):
    edit_each(folder, lambda run: run.update(change))
    assert message in fault_of(folder, "names")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": "javascript:x"}, "link of copying seed 0 is not an https link"),
        ({"year": 0}, "year of copying seed 0 is not a year: 0"),
        ({"source": "official"}, "source of copying seed 0 is none of official code, port"),
        ({"lengths": "k = 16, **as published**"}, "lengths of copying seed 0 contains markdown or HTML (*)"),
        ({"lengths": "two\nlines"}, "lengths of copying seed 0 is not one line of words"),
        ({"stage_share": 0.011}, "stage_share of copying seed 0 is 0.011; expected at most 0.01"),
        ({"stage_share": 0}, "stage_share of copying seed 0 is 0.0"),
        *(
            ({"settings": settings}, "settings of copying seed 0 are not all numbers, True, False or words")
            for settings in ({"a": "<b>"}, {"a": [1]}, {"a\n": 1}, {"a": {"b": {"c": {"d": {}}}}})
        ),
    ],
)
def test_invalid_fields_of_an_encoding(folder, change, message):
    edit_each(folder, lambda run: run["encoding"].update(change))
    assert fault_of(folder, "names").startswith(message)


@pytest.mark.parametrize(
    "name",
    [
        "cpu (Intel(R) Xeon(R) CPU @ 2.20GHz)",
        "cpu (AMD EPYC 7B13)",
        "NVIDIA A100-SXM4-80GB",
        "cpu (aarch64)",
        "Apple M1",
    ],
)
def test_real_devices_are_valid(name):
    assert DEVICE.fullmatch(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../evil", "contains more than letters"),
        ("my_encoding<b>", "contains more than letters"),
        ("a\x1bb", "contains more than letters"),
        ("", "contains more than letters"),
        ("rope", "must contain 'my_encoding' once, and otherwise built-in encodings only"),
        ("randomised(other)", "must contain 'my_encoding' once"),
        ("my_encoding(my_encoding)", "must contain 'my_encoding' once"),
        ("my_encoding.x", "not a name"),
        ("my_encoding(", "not a name"),
        ("my_encoding(rate=2.0)", "the folder is named 'my_encoding'; expected 'my_encoding~rate=2.0'"),
    ],
)
def test_invalid_encoding_names(folder, name, message):
    reseal(folder, lambda content: content.update(name=name))
    assert message in fault_of(folder, "names")


def test_names_of_built_in_encodings_are_taken(folder):
    reseal(folder, lambda content: content["plugin"].update(name="rope") or content.update(name="rope"))
    assert "the name 'rope' is that of a built-in encoding" in fault_of(folder, "names")


def test_the_folder_has_the_encodings_name(folder):
    assert "the folder is named 'other'; expected 'my_encoding'" in fault_of(folder.rename(folder.parent / "other"), "names")


# --- submission.json


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"format": 2},
        {"authors": []},
        {"ranking": "best"},
        {"takes_from": ["../../etc/passwd"]},
        {"plugin": {"name": NAME, "file": "../../x.py", "cls": "X"}},
        {"plugin": {"name": NAME, "file": "/etc/x.py", "cls": "X"}},
        {"plugin": {"name": NAME, "file": "x.py", "cls": "X; import os"}},
        {"suite": {"name": "../tiny", "version": 1, "fingerprint": "0" * 16}},
        {"files": [{"path": "../../x.py", "bytes": 1, "sha256": "0" * 64}]},
        {"source_sha256": "0" * 63},
        {"title": None},
    ],
)
def test_values_outside_the_schema(folder, change):
    reseal(folder, lambda content: content.update(change))
    (key,) = change
    assert key in fault_of(folder, "submission")


# --- source


def write_source(folder: Path, text: str | bytes, path: str = SOURCE) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(text.encode() if isinstance(text, str) else text)
    reseal(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class MyEncoding(:\n", "is not Python: SyntaxError"),
        ("x = " + "-" * 100_000 + "1", "has more than 200 characters in line 1"),
        ("x = " + "(\n" * 1000, "is not Python: SyntaxError"),
        ("x = (1" + "\n+1" * 20_000 + ")", "is not Python: RecursionError"),
        ("x = '\0'", "contains an invisible character (U+0000)"),
        ("# \u202e reversed", "contains an invisible character (U+202E)"),
        ("x = 1\u200b", "contains an invisible character (U+200B)"),
        ("# coding: utf-7\nx = 1", "declares the encoding 'utf-7'; expected UTF-8"),
        ("#!/bin/sh\n# -*- coding: unicode_escape -*-\n", "declares the encoding 'unicode_escape'"),
        ("# -*- coding: utf-8 -*-\nclass MyEncoding: pass", "but submission.json has"),
        (b"\xff\xfe", "is not UTF-8 text"),
        ("x = 1", f"{NAME}.py has no class MyEncoding"),
        ("import os\nclass MyEncoding: pass", "line 1: imports os, which is not allowed"),
        ("def f():\n    from helper import x\nclass MyEncoding: pass", "line 2: imports from helper, which is not allowed"),
    ],
)  # fmt: skip
def test_invalid_source(folder, text, message):
    write_source(folder, text)
    assert message in fault_of(folder, "source")


def test_source_is_not_run(folder, tmp_path):
    write_source(folder, f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n" + (folder / SOURCE).read_text())
    assert "imports os, which is not allowed" in fault_of(folder, "source")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["source/torch.py", "source/bench/encodings/rope.py", "source/random.py"])
def test_source_must_not_hide_a_module(folder, path):
    write_source(folder, "x = 1", path)
    assert "and would hide it" in fault_of(folder, "source")


def test_an_added_file_changes_the_hash(folder):
    write_source(folder, "x = 1", "source/helper.py")
    assert "but submission.json has" in fault_of(folder, "source")


def test_results_of_other_source(folder):
    edit_runs(folder, lambda runs: runs[2]["encoding"].update(source_sha256="0" * 64))
    assert "copying seed 2 has source 000000000000, not" in fault_of(folder, "source")


def test_an_unknown_built_in_file(folder):
    reseal(folder, lambda content: content.update(takes_from=["roope"]))
    assert "bench/encodings has no roope.py" in fault_of(folder, "source")


# --- the check report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda report: report["findings"][3].update(status="failed"), "check 'numbers' failed"),
        (lambda report: report["findings"].pop(2), "is missing"),
        (lambda report: report["findings"].append(report["findings"][0]), "unknown or duplicate"),
        (lambda report: report.update(source_sha256="0" * 64), "source_sha256 is '000"),
        (lambda report: report.update(encoding="rope"), "encoding is 'rope', not 'my_encoding'"),
        (lambda report: report.update(ranking="longer"), "ranking is 'longer', not 'standard'"),
        (lambda report: report["findings"][0].update(found="a\x1b[31m"), "an invisible character"),
        (lambda report: report["findings"][0].update(found="a" * 4001), "more than 4,000 characters"),
        (lambda report: report.update(device="<b>"), "is not the name of a device"),
    ],
)
def test_invalid_check_reports(folder, change, message):
    assert json.loads((folder / CHECK).read_text())["findings"][3]["check"] == "numbers"
    edit_report(folder, change)
    assert message in fault_of(folder, "check report")


def test_the_check_page_must_match_the_report(folder):
    (folder / CHECK_PAGE).write_text((folder / CHECK_PAGE).read_text().replace("passed", "passed, brilliantly", 1))
    reseal(folder)
    assert fault_of(folder, "check report") == "check.md is not the page of check.json"
