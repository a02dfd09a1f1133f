"""``lprime submit``: writes everything that a row needs, or reports in one line what is missing and writes nothing."""

import json
import shutil
from pathlib import Path

import pytest
from submissions import (
    ABOUT,
    NAME,
    copy_template,
    execute_all,
    make_suite,
    publish_as,
    read_results,
    write_passed_report,
)
from support import ROOT, new_registry

from bench.check import CheckOutcome, Report
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.run import plan_runs
from leaderboard.submission import submit
from leaderboard.submission.manifest import Submission, submitted_source_hash
from leaderboard.submission.submit import About, write_submission
from leaderboard.submission.verify import verify_submission
from tasks import InputError

SUITE = make_suite(seeds=[0, 1])


pytestmark = pytest.mark.usefixtures("fresh_registry")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder with an encoding, all its runs and its check report."""
    folder = tmp_path_factory.mktemp("finished")
    with new_registry():
        execute_all(copy_template(folder), folder / "runs", SUITE)
        write_passed_report(f"{folder}/{NAME}.py", folder / "check.json")
    return folder


@pytest.fixture
def here(finished, tmp_path, monkeypatch) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submitted(**changes) -> Path:
    arguments = {"reference": f"{NAME}.py", "suite": SUITE, "out": Path("runs"), "to": Path("board/submissions")}
    return write_submission(**arguments | {"about": ABOUT, "report": Path("check.json")} | changes)


def refusal(**changes) -> str:
    with pytest.raises(InputError) as caught:
        submitted(**changes)
    assert not list(Path("board").rglob("*.*")), "nothing is written"
    return str(caught.value)


def submit_new(reference: str) -> Path:
    """Run an encoding, check it and submit it."""
    execute_all(reference, Path("runs"), SUITE)
    return submitted(reference=reference, report=write_passed_report(reference, Path("its.json")))


def read_submission(folder: Path) -> Submission:
    return Submission.model_validate_json((folder / "submission.json").read_text())


def passes(folder: Path, suite=SUITE) -> bool:
    return verify_submission(folder, suite).passed


def test_a_submission_is_complete(here):
    folder = submitted()
    assert folder == Path("board/submissions") / NAME
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert files == ["check.json", "check.md", "results.jsonl", f"source/{NAME}.py", "submission.json"]
    assert (folder / f"source/{NAME}.py").read_bytes() == (here / f"{NAME}.py").read_bytes()
    submission = read_submission(folder)
    texts = (submission.title, submission.authors, submission.paper, submission.licence)
    assert texts == (ABOUT.title, ABOUT.authors, ABOUT.paper, "Apache-2.0")
    assert (submission.suite.fingerprint, submission.ranking) == (SUITE.fingerprint, "standard")
    assert submission.training.longest == {"copying": 4, "parity": 4}
    runs = [result for run in plan_runs(SUITE, [NAME]) if (result := run.result(here / "runs"))]
    assert sorted(read_results(folder), key=str) == sorted(runs, key=str)
    assert passes(folder)


def test_texts_default_to_the_encodings_info(here):
    submission = read_submission(submitted(about=None))
    texts = (submission.title, submission.authors, submission.paper, submission.note)
    assert texts == ("Fading", ["Ada"], "https://example.org/fading", "")


def test_a_submission_is_replaced_only_with_replace(here):
    folder = submitted()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"exists already; replace it with --replace, or choose another --to"):
        submitted()
    assert (folder / "mine.txt").exists()
    assert submitted(replace=True) == folder and not (folder / "mine.txt").exists() and passes(folder)


def test_missing_and_failed_runs_are_listed(here):
    shutil.rmtree("runs/tiny/parity/my_encoding/seed-1")
    shutil.rmtree("runs/tiny/copying")
    plan_runs(SUITE, [NAME], ["parity"], [1])[0].fail(here / "runs", "out of memory")
    assert refusal() == (
        "3 of 4 runs of my_encoding in suite tiny are missing under runs/tiny: copying seeds 0, 1; parity seed 1 (failed); "
        "run `lprime run tiny.yaml --encoding my_encoding.py --retry-failed` first"
    )


def test_runs_of_other_source_are_refused(here):
    (here / f"{NAME}.py").write_text((here / f"{NAME}.py").read_text() + "\n# changed")
    message = refusal()
    assert "4 of 4 runs of my_encoding do not have the current source" in message
    assert "such as runs/tiny/copying/my_encoding/seed-0; delete them and run again" in message


def test_runs_of_another_suite_version_are_refused(here):
    assert "was made by suite tiny with fingerprint" in refusal(suite=make_suite(seeds=[0, 1], version=2))


def test_exactly_the_seeds_of_the_suite_are_submitted(here):
    assert "2 of 6 runs of my_encoding" in refusal(suite=make_suite(seeds=[0, 1, 2]))
    fewer = make_suite(seeds=[1])
    folder = submitted(suite=fewer)
    assert {r.seed for r in read_results(folder)} == {1} and passes(folder, fewer)


@pytest.mark.parametrize("name", ["rope", "randomised(rope)", "rope(base=2.0)"])
def test_built_in_encodings_are_refused(here, name):
    assert refusal(reference=name).endswith("(`lprime publish` is for built-in ones)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_sha256": "0" * 64}, "is of 'my_encoding', source 000000000000; expected my_encoding, source"),
        ({"encoding": "rope"}, "is of 'rope', source"),
        ({"extra": 1}, "is not a report of `lprime check --json`: extra"),
        ({"findings": "none"}, "is not a report of `lprime check --json`: findings"),
    ],
)
def test_a_report_of_something_else_is_refused(here, change, message):
    content = json.loads(Path("check.json").read_text())
    Path("check.json").write_text(json.dumps(content | change))
    assert message in refusal()


def test_an_unreadable_report_is_refused(here):
    Path("check.json").write_text("")
    assert "check.json is not a report of `lprime check --json`: not JSON" in refusal()
    assert "cannot read absent.json: No such file" in refusal(report=Path("absent.json"))


def test_a_report_with_a_failed_check_is_refused(here):
    content = json.loads(Path("check.json").read_text())
    content["findings"][1]["status"] = "failed"
    Path("check.json").write_text(json.dumps(content))
    assert "checks passed in 1 s; failed: interface; expected all to pass" in refusal()


def test_without_a_report_the_checks_run(here, monkeypatch):
    report = Report.model_validate_json(Path("check.json").read_text())
    failed = CheckOutcome(check="causality", status="failed", expected="e", found="peeks", advice="do not", seconds=1)
    monkeypatch.setattr(submit, "check_encoding", lambda reference: report.model_copy(update={"findings": [failed]}))
    assert refusal(report=None) == "my_encoding does not pass `lprime check my_encoding.py`: causality: peeks; do not"
    monkeypatch.setattr(submit, "check_encoding", lambda reference: report)
    assert passes(submitted(report=None))


def test_nothing_is_written_that_would_not_pass_verify(here):
    assert refusal(about=About(title="<b>Mine")).startswith("my_encoding cannot be submitted: names: title contains markdown")
    assert "link" in refusal(about=About(paper="javascript:x"))
    assert refusal(about=About(note="x" * 2001)).startswith("my_encoding cannot be submitted: note: ")


def test_copies_of_published_runs_are_refused(here):
    runs, board = [r for run in plan_runs(SUITE, [NAME]) if (r := run.result(Path("runs")))], Path("leaderboard/published")
    publish_as(runs, NAME, board)
    assert passes(submitted()), "the encoding's own published runs are not copies"
    for folder in ("board", board):
        shutil.rmtree(folder)
    publish_as(runs, "theirs", board)
    copied = "my_encoding cannot be submitted: copies: copying seed 0 is a copy of the published copying seed 0 of theirs"
    assert refusal().startswith(copied)


def test_imported_files_are_included(here):
    (here / "helper.py").write_text("RATE = 1.0")
    (here / "other.py").write_text("import helper\n" + (here / f"{NAME}.py").read_text().replace(NAME, "other"))
    folder = submit_new("other.py")
    assert sorted(p.name for p in (folder / "source").iterdir()) == ["helper.py", "other.py"] and passes(folder)


def test_imports_from_other_folders_are_refused(here, monkeypatch):
    (here / "elsewhere").mkdir()
    (here / "elsewhere/tables_of_mine.py").write_text("RATE = 1.0")
    monkeypatch.syspath_prepend(here / "elsewhere")
    (here / "other.py").write_text("import tables_of_mine\n" + (here / f"{NAME}.py").read_text().replace(NAME, "other"))
    message = "other cannot be submitted: source: other.py, line 1: imports tables_of_mine, which is not allowed"
    with pytest.raises(InputError, match=message):
        submit_new("other.py")


def test_a_package_is_included_completely(here, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/plugins/lprime_recency"))
    folder = submit_new("lprime_recency.encoding:Recency")
    files = sorted(p.relative_to(folder / "source").as_posix() for p in folder.rglob("*.py"))
    assert files == ["lprime_recency/__init__.py", "lprime_recency/curve.py", "lprime_recency/encoding.py"]
    assert passes(folder)


OF_ROPE = """
from dataclasses import replace
from bench.encodings.rope import RoPE
class Mine(RoPE):
    info = replace(RoPE.info, name="mine")
"""
WRAPS = """
from bench.encodings import Info, Wrapper
class Wraps(Wrapper):
    info = Info("wraps", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
"""


@pytest.mark.parametrize(
    ("reference", "folder"),
    [
        ("mine.py", "mine"),
        ("mine.py(base=5000.0)", "mine~base=5000.0"),
        ("randomised(mine.py)", "randomised~mine"),
        ("wraps.py(alibi)", "wraps~alibi"),
        ("randomised(wraps.py(rope))", "randomised~wraps~rope"),
    ],
)
def test_source_hash_of_settings_and_wrappers_without_running_them(here, reference, folder):
    (here / "mine.py").write_text(OF_ROPE)
    (here / "wraps.py").write_text(WRAPS)
    place = submit_new(reference)
    assert place.name == folder and passes(place)
    sources = {p.name: p.read_bytes() for p in (place / "source").iterdir()}
    assert submitted_source_hash(read_submission(place), sources) == source_hash(get_encoding(reference))


def test_an_encoding_of_two_plugins_is_refused(here):
    (here / "mine.py").write_text(OF_ROPE)
    (here / "wraps.py").write_text(WRAPS)
    assert "contains 2 plugins" in refusal(reference="wraps.py(mine.py)")


def test_a_further_stage_is_declared(here):
    source = WRAPS.replace("Wraps(Wrapper):", "Wraps(Wrapper):\n    stage = Stage()").replace("Info, ", "Info, Stage, ")
    (here / "wraps.py").write_text(source.replace("shift_invariant=True", "ranking='longer', shift_invariant=True"))
    submission = read_submission(submit_new("wraps.py(rope)"))
    assert (submission.ranking, submission.training.extra_stage) == ("longer", True)
    assert submission.training.longest == {"copying": 8, "parity": 8}
