"""``lprime verify``: names and texts that mean more than they say, source that hides something, forged check reports."""

import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from submissions import NAME, SOURCE, SUITE, edit_each, edit_report, edit_runs, reseal, told, verified

from bench.check import words
from leaderboard import markdown, names
from leaderboard.submission import CHECK, CHECK_PAGE
from leaderboard.verify import STATIC, verify

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
def test_hostile_words_are_told_wherever_they_stand(folder, text):
    def submission(content: dict) -> None:
        content["title"], content["authors"], content["note"] = text, ["Ada", text], text

    reseal(folder, submission)
    found = told(folder, "names")
    assert found.startswith("title ") and "; author " in found and "; note " in found
    assert found.count(HOSTILE[text]) == 3


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_in_results_are_told(folder, text):
    edit_each(folder, lambda run: run["encoding"].update(title=text, family=text))
    found = told(folder, "names")
    assert found.startswith("family of copying seed 0 ") and "; title of copying seed 0 " in found
    assert HOSTILE[text] in found


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_of_hostile_words_is_one_page_of_plain_ones(folder, text):
    reseal(folder, lambda content: content.update(title=text, name=text))
    report = verify(folder, SUITE)
    shown = "\n".join(line for f in report.findings for line in f.lines())
    assert not any(ord(c) < 32 and c != "\n" for c in shown) and "\u202e" not in shown
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(report.markdown())
    inside = {child.type for token in tokens if token.type == "inline" for child in token.children}
    assert inside <= {"text", "text_special", "softbreak", "code_inline"}
    assert sum(token.type == "tr_open" for token in tokens) == 1 + len(STATIC)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paper": "javascript:alert(1)"}, "paper is no https link"),
        ({"paper": "https://a.org/x)](javascript:y"}, "paper is no https link"),
        ({"paper": "http://a.org"}, "paper is no https link"),
        ({"licence": "MIT/../x"}, "licence is no SPDX identifier"),
        ({"versions": {"torch": "<b>"}}, "versions are no versions"),
        ({"versions": {"../x": "1"}}, "versions are no versions"),
        ({"made": "yesterday"}, "made is no date in UTC"),
        ({"made": "2999-01-01T00:00:00+00:00"}, "made lies in the future"),
    ],
)
def test_what_is_not_words_has_a_form(folder, change, message):
    reseal(folder, lambda content: content.update(change))
    assert message in told(folder, "names")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cpu `x`"}, "device of copying seed 0 is no device"),
        ({"device": "/dev/null"}, "device of copying seed 0 is no device"),
        ({"versions": {"torch": "a b"}}, "versions of copying seed 0 are no versions"),
        ({"commit": "<b>"}, "commit of copying seed 0 is no commit"),
        ({"started": "2026-01-01T00:00:00Z"}, "started of copying seed 0 is no date"),
        ({"finished": "2999-01-01T00:00:00+00:00"}, "finished of copying seed 0 lies in the future"),
    ],
)
def test_what_results_say_has_a_form_too(folder, change, message):
    edit_each(folder, lambda run: run.update(change))
    assert message in told(folder, "names")


@pytest.mark.parametrize(
    "change",
    [
        {"link": "javascript:x"},
        {"year": 0},
        {"settings": {"a": "<b>"}},
        {"settings": {"a": [1]}},
        {"settings": {"a": 1e999}},
        {"settings": {"a\n": 1}},
        {"settings": {"a": {"b": {"c": {"d": {}}}}}},
    ],
)
def test_what_an_encoding_says_of_itself_has_a_form(folder, change):
    edit_each(folder, lambda run: run["encoding"].update(change))
    (key,) = change
    found = verified(folder)
    assert found["names"].found.startswith(f"{key} of copying") or found["results"].status == "failed"


def test_what_is_shown_escaped_is_what_is_refused():
    """``bench`` may not ask ``leaderboard``, so the rule of words stands in both."""
    assert (words.STRUCTURAL.pattern, words.INVISIBLE) == (markdown.STRUCTURAL.pattern, names.INVISIBLE)


def test_devices_of_this_world_have_that_form():
    from leaderboard.verify.text import DEVICE

    for name in (
        "cpu (Intel(R) Xeon(R) CPU @ 2.20GHz)",
        "cpu (AMD EPYC 7B13)",
        "NVIDIA A100-SXM4-80GB",
        "cpu (aarch64)",
        "Apple M1",
    ):
        assert DEVICE.fullmatch(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../evil", "holds more than letters"),
        ("my_encoding<b>", "holds more than letters"),
        ("a\x1bb", "holds more than letters"),
        ("rope", "is not made of 'my_encoding', once, and of built-in ones"),
        ("randomised(other)", "is not made of 'my_encoding', once"),
        ("my_encoding(my_encoding)", "is not made of 'my_encoding', once"),
        ("my_encoding.x", "not a name"),
        ("my_encoding(", "not a name"),
        ("my_encoding(rate=2.0)", "the folder is named 'my_encoding'; expected 'my_encoding~rate=2.0'"),
        ("", "holds more than letters"),
    ],
)
def test_the_name_is_one(folder, name, message):
    reseal(folder, lambda content: content.update(name=name))
    assert message in told(folder, "names")


def test_a_built_in_name_is_not_taken(folder):
    reseal(folder, lambda content: content["plugin"].update(name="rope") or content.update(name="rope"))
    assert "the name 'rope' is that of a built-in encoding" in told(folder, "names")


def test_the_folder_has_its_name(folder):
    assert "the folder is named 'other'; expected 'my_encoding'" in told(folder.rename(folder.parent / "other"), "names")


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
def test_submission_has_a_strict_form(folder, change):
    reseal(folder, lambda content: content.update(change))
    (key,) = change
    assert key in told(folder, "submission")


# --- source


def source_is(folder: Path, text: str | bytes, path: str = SOURCE) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(text.encode() if isinstance(text, str) else text)
    reseal(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class MyEncoding(:\n", "is not Python: SyntaxError"),
        ("x = " + "-" * 100_000 + "1", "is not Python: "),
        ("x = " + "(" * 1000, "is not Python: SyntaxError"),
        ("x = 1" + "+1" * 100_000, "is not Python: RecursionError"),
        ("x = '\0'", "holds an invisible character (U+0000)"),
        ("# \u202e reversed", "holds an invisible character (U+202E)"),
        ("x = 1\u200b", "holds an invisible character (U+200B)"),
        ("# coding: utf-7\nx = 1", "declares the encoding 'utf-7'; expected UTF-8"),
        ("#!/bin/sh\n# -*- coding: unicode_escape -*-\n", "declares the encoding 'unicode_escape'"),
        (b"\xff\xfe", "is not UTF-8 text"),
        ("x = 1", f"{NAME}.py has no class MyEncoding"),
        ("import os\nclass MyEncoding: pass", "but submission.json says"),
        ("import requests\nclass MyEncoding: pass", "imports requests, which it does not bring along"),
        ("def f():\n    from helper import x\nclass MyEncoding: pass", "imports helper, which it does not bring along"),
    ],
)  # fmt: skip
def test_source_is_read_and_not_run(folder, text, message):
    source_is(folder, text)
    assert message in told(folder, "source")


def test_source_may_say_that_it_is_utf8(folder):
    source_is(folder, "# -*- coding: utf-8 -*-\nclass MyEncoding: pass")
    assert "hash" in told(folder, "source")


def test_no_import_happens(folder, tmp_path):
    source_is(folder, f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n" + (folder / SOURCE).read_text())
    assert "hash" in told(folder, "source")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["source/torch.py", "source/bench/encodings/rope.py", "source/random.py"])
def test_source_hides_no_module(folder, path):
    source_is(folder, "x = 1", path)
    assert "which it would hide" in told(folder, "source")


def test_a_file_more_is_another_hash(folder):
    source_is(folder, "x = 1", "source/helper.py")
    assert "but submission.json says" in told(folder, "source")


def test_results_of_other_source_are_told(folder):
    edit_runs(folder, lambda runs: runs[2]["encoding"].update(source_sha256="0" * 64))
    assert "other source made copying seed 2" in told(folder, "source")


def test_a_built_in_file_that_is_not_there_is_told(folder):
    reseal(folder, lambda content: content.update(takes_from=["roope"]))
    assert "bench/encodings has no roope.py" in told(folder, "source")


# --- the check report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda report: report["findings"][3].update(status="failed"), "check 'memory' failed"),
        (lambda report: report["findings"].pop(2), "is missing"),
        (lambda report: report["findings"].append(report["findings"][0]), "stands twice"),
        (lambda report: report.update(source_sha256="0" * 64), "source_sha256 is '000"),
        (lambda report: report.update(encoding="rope"), "encoding is 'rope', not 'my_encoding'"),
        (lambda report: report.update(ranking="longer"), "ranking is 'longer', not 'standard'"),
        (lambda report: report["findings"][0].update(found="a\x1b[31m"), "an invisible character"),
        (lambda report: report.update(device="<b>"), "is no device"),
    ],
)
def test_the_check_report_is_whole_and_of_this_source(folder, change, message):
    def renamed(report: dict) -> None:
        report["findings"][3]["check"], report["findings"][3]["expected"] = names[3], "x"
        change(report)

    names = [f["check"] for f in json.loads((folder / CHECK).read_text())["findings"]]
    edit_report(folder, renamed)
    assert message.replace("memory", names[3]) in told(folder, "check report")


def test_the_check_page_says_what_the_report_says(folder):
    (folder / CHECK_PAGE).write_text((folder / CHECK_PAGE).read_text().replace("passed", "passed, brilliantly", 1))
    reseal(folder)
    assert told(folder, "check report") == "check.md is not what check.json gives"
