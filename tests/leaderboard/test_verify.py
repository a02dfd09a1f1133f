"""``lprime verify``, the part that runs nothing: an honest submission passes, and each way to cheat with data is told."""

import json
import os
import pickle
import re
import shutil
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from submissions import NAME, edit_each, edit_report, edit_runs, made, reseal, results, suite

from bench import plugins
from bench.check.report import Finding
from leaderboard.submission import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.verify import STATIC, Verification, verify
from leaderboard.verify import reading as reading_module
from tasks import InputError

SUITE = suite()
SOURCE = f"source/{NAME}.py"


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "loaded", plugins.Loaded())
        return made(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def folder(honest, tmp_path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / NAME))


def verified(folder: Path, **more) -> dict[str, Finding]:
    report = verify(folder, SUITE, **more)
    return {f.check: f for f in report.findings}


def told(folder: Path, check: str, **more) -> str:
    """What one check found; that it passed is the test's failure. Nothing was loaded meanwhile."""
    before = dict(plugins.loaded.files)
    found = verified(folder, **more)
    assert plugins.loaded.files == before
    assert found[check].status == "failed", {name: (f.status, f.found) for name, f in found.items()}
    assert found[check].expected and found[check].advice
    return found[check].found


def test_an_honest_submission_passes(honest):
    report = verify(honest, SUITE)
    assert {f.check: f.found for f in report.findings if f.status != "passed"} == {}
    assert [f.check for f in report.findings] == [c.name for c in STATIC]
    assert (report.encoding, report.ranking, report.passed) == (NAME, "standard", True)
    assert report.markdown().startswith("# Verification of my\\_encoding\n")


def test_every_check_is_seen_to_fail():
    """By a test of this file, whose calls name it."""
    text = Path(__file__).read_text()
    assert [c.name for c in STATIC if f'"{c.name}"' not in text] == []


# --- files


def test_a_result_edited_alone_is_told_by_its_hash(folder):
    text = (folder / RESULTS).read_text()
    (folder / RESULTS).write_text(text.replace('"exact":0.0', '"exact":1.0', 1))
    assert told(folder, "hashes") == "results.jsonl is not what submission.json says of it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop(), f"{SOURCE} is there but not named"),
        (lambda files: files.append({**files[-1], "path": "source/other.py"}), "source/other.py is named but not there"),
        (lambda files: files.append(files[-1]), "a file is named twice"),
    ],
)
def test_files_are_those_that_are_named(folder, change, message):
    reseal(folder, lambda content: change(content["files"]))
    assert told(folder, "hashes") == message


def test_a_gigabyte_of_results_is_refused_unread(folder):
    with open(folder / RESULTS, "r+b") as file:
        file.truncate(2**30)  # sparse
    tracemalloc.start()
    try:
        assert told(folder, "files") == "results.jsonl: 1,073,741,824 bytes, more than 8,388,608, and not read"
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert verified(folder)["scores"].status == "not run"


@pytest.mark.parametrize("path", [SUBMISSION, CHECK, CHECK_PAGE, SOURCE])
def test_each_file_has_a_size(folder, path):
    with open(folder / path, "r+b") as file:
        file.truncate(2**18 + 1)
    assert told(folder, "files").startswith(f"{path}: 262,145 bytes, more than 262,144, and not read")


def test_a_line_without_end_is_refused(folder):
    (folder / RESULTS).write_text(" " * 2**17 + (folder / RESULTS).read_text())
    assert "line 1 has" in told(folder, "results")


def test_lines_without_end_are_refused(folder):
    (folder / RESULTS).write_text("{}\n" * 100_000)
    assert told(folder, "results") == "100,000 lines, more than 500"


class Bomb:
    """Unpickling it leaves a file."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_neither_taken_nor_opened(folder, tmp_path):
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    (folder / "weights.pkl").write_bytes(bomb)
    (folder / "source/table.pt").write_bytes(bomb)
    assert told(folder, "files") == "source/table.pt was not expected; weights.pkl was not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_bytes(bomb)
        assert "not UTF-8 text, so no JSON" in told(folder, check)
        (folder / path).write_bytes(whole)
    (folder / SOURCE).write_bytes(bomb)
    assert f"{NAME}.py is not UTF-8 text" in told(folder, "source")
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists(), "it would have gone off"


def test_yaml_is_not_taken_and_its_tags_do_nothing(folder, tmp_path):
    tag = f"!!python/object/apply:os.mkdir ['{tmp_path}/exploded']\n"
    (folder / "submission.yaml").write_text(tag)
    assert told(folder, "files") == "submission.yaml was not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        for text in (tag, f"a: {tag}", "format: 1\nname: x\n", "{format: 1}"):
            (folder / path).write_text(text)
            assert "not JSON" in told(folder, check)
        (folder / path).write_bytes(whole)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("depth", [13, 10_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(folder, depth, opening):
    for path, check in ((SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_text(opening * min(depth, 2**17 // len(opening)))
        assert "nested more than 12 deep" in told(folder, check)
        (folder / path).write_bytes(whole)
    (folder / RESULTS).write_text(opening * min(depth, 10_000) + "\n")
    assert "line 1: nested more than 12 deep" in told(folder, "results")


def test_brackets_in_strings_nest_nothing(folder):
    assert reading_module.strict_json(b'{"a": "' + b'[{\\"' * 100 + b'"}')
    with pytest.raises(InputError, match="nested"):
        reading_module.strict_json(b'["\\\\",' + b"[" * 100)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"format": 1, "format": 1}', "the key 'format' stands twice"),
        ('{"seed": NaN}', "NaN is no number"),
        ('{"seed": -Infinity}', "-Infinity is no number"),
        ('{"seed": ' + "9" * 5000 + "}", "not JSON"),
        ("{}", "suite: Field required"),
        ("\ufeff{}", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_says_one_thing(folder, line, message):
    (folder / RESULTS).write_text(line + "\n" + (folder / RESULTS).read_text())
    assert message in told(folder, "results")


@pytest.mark.parametrize(
    "change", [{"seed": "0"}, {"seed": 0.5}, {"steps": True}, {"more": 1}, {"scores": []}, {"threads": None}, {"format": 2}]
)
def test_values_are_not_bent_into_shape(folder, change):
    edit_runs(folder, lambda runs: runs[0].update(change))
    assert told(folder, "results").startswith("line 1: ")


def test_links_pipes_and_strangers_are_not_followed(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (folder / CHECK_PAGE).unlink()
    (folder / CHECK_PAGE).symlink_to(tmp_path / "secret")
    (folder / RESULTS).unlink()
    os.mkfifo(folder / RESULTS)  # to open it would be to wait for ever
    (folder / "source/deep").symlink_to(tmp_path)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    found = reading_module.read_folder(folder)
    assert sorted(found.files) == [CHECK, SOURCE, SUBMISSION]
    assert found.faults == [
        ".git/ was not expected", "check.md is a link", "results.jsonl: not a plain file", "source/deep is a link"
    ]  # fmt: skip
    assert "secret" not in json.dumps(verify(folder, SUITE).model_dump())


def test_names_of_files_are_shown_as_text(folder):
    for name in (b"a\x1b[31m.txt", b"\xff.py", b"<b>|`.md", "\u202etxt".encode()):
        open(os.path.join(os.fsencode(folder), name), "w").close()
    report = verify(folder, SUITE)
    assert report.findings[0].found.count("was not expected") == 4
    shown = report.markdown() + "\n".join(report.findings[0].lines())
    assert shown.encode() and not any(ord(c) < 32 and c != "\n" for c in shown) and "\u202e" not in shown
    assert Verification.model_validate_json(report.model_dump_json()) == report


def test_a_folder_without_end_is_given_up(folder):
    for n in range(300):
        (folder / f"source/m{n}.py").touch()
    assert told(folder, "files") == "source/ has more than 200 entries"


def test_a_folder_that_is_none_is_bad_input(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "nowhere", tmp_path / "link", folder / SUBMISSION):
        with pytest.raises(InputError, match="is no folder; expected a submission such as"):
            verify(path, SUITE)
    (folder / SUBMISSION).unlink()
    with pytest.raises(InputError, match=r"holds no submission.json; expected a folder that `lprime submit` wrote"):
        verify(folder, SUITE)


# --- names and texts

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


# --- suite and grid


def test_results_of_another_suite_version_are_told(folder):
    def older(content: dict) -> None:
        content["suite"].update(version=2, fingerprint="0123456789abcdef")

    reseal(folder, older)
    assert "submission.json says tiny 2 0123456789abcdef; here it is tiny 1 " in told(folder, "suite")
    edit_each(folder, lambda run: run.update(suite_version=2, fingerprint="0123456789abcdef"))
    assert "and 3 more" in told(folder, "suite"), "all agree with each other, and with the submission"
    assert verified(folder)["scores"].status == "not run"


def test_one_run_of_another_version_is_told(folder):
    edit_runs(folder, lambda runs: runs[1].update(fingerprint="0123456789abcdef"))
    assert told(folder, "suite").startswith("copying seed 1 says tiny 1 0123456789abcdef")


def test_a_suite_that_is_not_shipped_is_told(folder):
    found = {f.check: f for f in verify(folder).findings}
    assert found["suite"].status == "failed" and found["suite"].found.startswith("unknown suite 'tiny'")


def test_the_encoding_is_one(folder):
    edit_runs(folder, lambda runs: runs[4]["encoding"].update(settings={"rate": 2.0}))
    assert told(folder, "encoding") == "parity seed 1 says other things of its encoding than copying seed 0"
    edit_each(folder, lambda run: run["encoding"].update(name="rope", settings={"rate": 1.0}))
    assert told(folder, "encoding").startswith("copying seed 0 is of 'rope'")


def test_a_bad_seed_left_out_is_told(folder):
    edit_runs(folder, lambda runs: [run for run in runs if run["seed"] != 1])
    assert told(folder, "complete") == "copying seed 1 is missing; parity seed 1 is missing"


def test_a_bad_run_left_out_is_told(folder):
    edit_runs(folder, lambda runs: runs[:-1])
    assert told(folder, "complete") == "parity seed 2 is missing"


def test_seeds_of_ones_own_choice_are_told(folder):
    def chosen(runs: list[dict]) -> None:
        for run in runs:
            run["seed"] = {2: 7}.get(run["seed"], run["seed"])
        runs[-1]["seed"] = 8

    edit_runs(folder, chosen)
    found = told(folder, "complete")
    assert "copying seed 2 is missing; parity seed 2 is missing; seed 7 is none of the suite's, on copying alone" in found


def test_a_task_or_a_run_more_is_told(folder):
    edit_runs(folder, lambda runs: [*runs, runs[-1]])
    assert told(folder, "complete") == "parity seed 2 stands 2 times"
    edit_runs(folder, lambda runs: [*runs[:-1], runs[-1] | {"task": "sorting", "seed": 0}])
    assert told(folder, "complete") == "'sorting' is no task of the suite"


def test_lines_stand_in_order(folder):
    edit_runs(folder, lambda runs: runs[::-1])
    assert told(folder, "results") == "lines do not stand by task and seed"


def test_who_saw_longer_lengths_is_ranked_so(folder):
    def longer(run: dict) -> None:
        run["longest_seen"] = 8

    edit_each(folder, longer)
    assert "trained at length 8, past L = 4, but is ranked standard" in told(folder, "ranking")
    reseal(folder, lambda content: content.update(ranking="longer"))
    edit_each(folder, lambda run: run["encoding"].update(ranking="longer"))
    assert "the submission says that it met {'copying': 4, 'parity': 4}" in told(folder, "ranking")
    training = {"longest": {"copying": 8, "parity": 8}, "extra_stage": True, "task_aware": False}
    reseal(folder, lambda content: content.update(training=training))
    assert verified(folder)["ranking"].status == "passed"


def test_one_ranking_is_said_throughout(folder):
    reseal(folder, lambda content: content["training"].update(task_aware=True))
    assert "task_aware=True, and is ranked standard" in told(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0]["encoding"].update(ranking="task-aware"))
    assert "copying seed 0 is ranked 'task-aware', the submission standard" in told(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0].update(longest_seen=5))
    assert "copying seed 0 saw length 5; expected L = 4, or 8 after a stage" in told(folder, "ranking")


# --- numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.update(data_hash="0" * 64), "data_hash"),
        (lambda run: run.update(variant="another"), "variant"),
        (lambda run: run.update(train_length=3), "train_length"),
        (lambda run: run["scores"].pop(), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][0].update(count=17), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][0].update(tokens=1), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][-1].update(chance=0.4), "chance"),
    ],
)
def test_data_is_the_suites_own(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[-1]))
    assert f"parity seed 2: {message} of other data" in told(folder, "data")


def test_shares_are_of_whole_examples_and_tokens(folder):
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.7))
    assert "copying seed 0, length 8: exact match 0.7 is no whole number of 16 examples" in told(folder, "scores")
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.0, token=0.5001))
    assert "token accuracy 0.5001 is no whole number of 144 tokens" in told(folder, "scores")


def test_right_examples_have_right_tokens(folder):
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=1.0))
    assert "16 right examples have 144 to 144 right tokens" in told(folder, "scores")
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.5, token=1.0))
    assert "8 right examples have 72 to 136 right tokens, not 144" in told(folder, "scores")


def perfect(run: dict) -> None:
    for score in run["scores"]:
        score.update(exact=1.0, token=1.0)


def test_scores_without_learning_are_told(folder):
    edit_each(folder, perfect)
    assert "copying seed 0: right in 100% at l ≤ L, but its loss never fell under" in told(folder, "training")


def test_a_diverged_run_has_no_scores(folder):
    edit_runs(folder, lambda runs: runs[0].update(status="diverged", steps=12, loss=runs[0]["loss"][:6]) or perfect(runs[0]))
    assert "the run diverged, but has scores" in told(folder, "scores")
    assert verified(folder)["training"].status == "passed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.update(steps=39), "done after 39 steps; the recipe has 40"),
        (lambda run: run.update(steps=400), "done after 400 steps; the recipe has 40"),
        (lambda run: run.update(status="diverged"), "diverged after 40 steps"),
        (lambda run: run["loss"].pop(), "losses stand at 19 steps; expected every 2, and the last"),
        (lambda run: run["loss"].insert(0, [1, 2.0]), "losses stand at 21 steps"),
        (lambda run: run["loss"].__setitem__(3, [8, -0.1]), "a loss is negative, or beyond all measure"),
        (lambda run: run["loss"].__setitem__(3, [8, 1e9]), "a loss is negative, or beyond all measure"),
        (lambda run: run["loss"].__setitem__(0, [2, 0.01]), "a first loss of 0.01 is less than the very first step alone"),
    ],
)
def test_training_took_the_course_that_it_takes(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[0]) and None)
    assert f"copying seed 0: {message}" in told(folder, "training")


def test_parameters_add_up(folder):
    edit_runs(folder, lambda runs: runs[0]["parameters"].update(encoding=10**6))
    found = told(folder, "parameters")
    assert "copying seed 0: a model of" in found and "the seeds of copying have models of different sizes" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ms": -1.0}, "a time is negative"),
        ({"total_s": 0.0}, "a time is negative, or nothing"),
        ({"step_ms": 1e-6}, "1e-06 ms a step is faster than any machine"),
        ({"train_s": 1e6}, "in"),
        ({"step_ms": 1e6}, "40 steps of 1000000.0 ms in"),
        ({"total_s": 1e6}, "1000000.0 s of work between"),
        ({"cpu_share": 7.0}, "a share of 7.0 of a core"),
    ],
)
def test_times_are_possible(folder, change, message):
    edit_runs(folder, lambda runs: runs[0]["timings"].update(change))
    assert "copying seed 0: " in told(folder, "timings") and message in told(folder, "timings")


def test_dates_stand_in_order(folder):
    edit_runs(folder, lambda runs: runs[0].update(started="2026-01-02T00:00:00+00:00", finished="2026-01-01T00:00:00+00:00"))
    assert "copying seed 0: finished 2026-01-01T00:00:00+00:00, before it started" in told(folder, "timings")
    reseal(folder, lambda content: content.update(made="2026-01-01T00:00:00+00:00"))
    assert "finished after the submission was made: copying seed 1" in told(folder, "timings")


# --- copies


def again_as(seed: int, **changes: object):
    def copy(runs: list[dict]) -> list[dict]:
        return [run if run["seed"] != seed else next(r for r in runs if (r["task"], r["seed"]) == (run["task"], 0)) | {
            "seed": seed, "started": run["started"], "finished": run["finished"], "timings": run["timings"], **changes
        } for run in runs]  # fmt: skip

    return copy


def test_a_good_seed_under_two_names_is_told(folder):
    edit_runs(folder, again_as(1))
    assert told(folder, "copies") == "copying seed 1 is copying seed 0 once more; parity seed 1 is parity seed 0 once more"


@pytest.mark.parametrize(
    "disguise",
    [
        lambda step, loss: loss * 1.01,
        lambda step, loss: loss + 0.01,
        lambda step, loss: loss if step < 10 else loss * (1 + step / 1000),
    ],
    ids=["scaled", "moved", "changed from a fifth on"],
)
def test_a_disguised_seed_is_told(folder, disguise):
    edit_runs(folder, again_as(1))

    def disguised(run: dict) -> None:
        if run["seed"] == 1:
            run["loss"] = [[step, disguise(step, loss)] for step, loss in run["loss"]]

    edit_each(folder, disguised)
    assert "copying seed 1 is copying seed 0 once more" in told(folder, "copies")


def published(folder: Path, name: str, board: Path) -> Path:
    """The submission's runs, on the board under another name."""
    place = board / "results/tiny"
    place.mkdir(parents=True)
    runs = [r.model_copy(update={"encoding": r.encoding.model_copy(update={"name": name})}) for r in results(folder)]
    (place / f"{name}.jsonl").write_text("".join(r.model_dump_json() + "\n" for r in runs))
    return board


def test_runs_of_the_board_are_not_submitted_again(folder, tmp_path):
    board = published(folder, "theirs", tmp_path / "board")
    assert "copying seed 0 is copying seed 0 of theirs, as published" in told(folder, "copies", published=board)
    assert verified(folder)["copies"].status == "passed"


def test_who_trains_as_another_but_scores_otherwise_is_no_copy(folder, tmp_path):
    board = published(folder, "theirs", tmp_path / "board")
    edit_each(folder, lambda run: run["scores"][-1].update(exact=0.0, token=1 / run["scores"][-1]["tokens"]))
    found = verified(folder, published=board)["copies"]
    assert (found.status, found.found) == ("passed", "none, nor of 6 runs on the board; same losses, other scores than theirs")


def test_ones_own_published_runs_are_no_copies(folder, tmp_path):
    board = published(folder, NAME, tmp_path / "board")
    assert verified(folder, published=board)["copies"].status == "passed"


# --- whatever stands there

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def leaves(content: object, path: tuple = ()) -> list[tuple]:
    """Where everything in a JSON value stands."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path] * bool(path) + [leaf for key, value in parts for leaf in leaves(value, (*path, key))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=st.sampled_from([SUBMISSION, RESULTS, CHECK]), value=JSON)
def test_any_value_anywhere_is_told_or_harmless_and_breaks_nothing(honest, data, path, value):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        lines = [json.loads(line) for line in (folder / path).read_text().splitlines()] if path == RESULTS else [
            json.loads((folder / path).read_text())
        ]  # fmt: skip
        *steps, last = data.draw(st.sampled_from(leaves(lines[0])))
        place = lines[0]
        for step in steps:
            place = place[step]
        place[last] = value
        (folder / path).write_text("".join(json.dumps(line) + "\n" for line in lines))
        if path != SUBMISSION:
            reseal(folder)
        report = verify(folder, SUITE)
        defects = [f.found for f in report.findings if re.match(r"[A-Z]\w+(Error|Exception):", f.found)]
        assert not defects
        assert Verification.model_validate_json(report.model_dump_json()) == report


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([SUBMISSION, RESULTS, CHECK, CHECK_PAGE, SOURCE]),
    content=st.binary(max_size=200) | st.text().map(str.encode),
)
def test_any_bytes_anywhere_are_told(honest, path, content):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        (folder / path).write_bytes(content)
        assert not verify(folder, SUITE).passed


def test_the_report_survives_as_json(honest):
    report = verify(honest, SUITE)
    assert Verification.model_validate_json(report.model_dump_json()) == report
