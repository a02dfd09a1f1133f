"""``lprime submit``: all that a row hangs on, or one line that says what is lacking, and nothing written."""

import json
import shutil
from pathlib import Path

import pytest
from submissions import ABOUT, NAME, made, report, results, run, starter, suite

from bench import encodings, plugins
from bench.check import Finding, Report
from bench.runs import plan
from leaderboard import submit as module
from leaderboard.submission import Submission, chain, source_hash
from leaderboard.submit import About, submit
from leaderboard.verify import verify
from tasks import InputError

SUITE = suite(seeds=[0, 1])


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads plugins anew, as a new process would."""
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> Path:
    """An encoding with all its runs, and its check report."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "loaded", plugins.Loaded())
        run(starter(folder), folder / "runs", SUITE)
        report(f"{folder}/{NAME}.py", folder / "check.json")
    return folder


@pytest.fixture
def here(once, tmp_path, monkeypatch) -> Path:
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submitted(**changes) -> Path:
    arguments = {"reference": f"{NAME}.py", "suite": SUITE, "out": Path("runs"), "to": Path("board/submissions")}
    return submit(**arguments | {"about": ABOUT, "report": Path("check.json")} | changes)


def refused(**changes) -> str:
    with pytest.raises(InputError) as caught:
        submitted(**changes)
    assert not list(Path("board").rglob("*.*")) if Path("board").exists() else True, "nothing is left"
    return str(caught.value)


def passes(folder: Path, of=SUITE) -> bool:
    return verify(folder, of).passed


def test_everything_is_there(here):
    folder = submitted()
    assert folder == Path("board/submissions") / NAME
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert files == ["check.json", "check.md", "results.jsonl", f"source/{NAME}.py", "submission.json"]
    assert (folder / f"source/{NAME}.py").read_bytes() == (here / f"{NAME}.py").read_bytes()
    of = Submission.model_validate_json((folder / "submission.json").read_text())
    assert (of.title, of.authors, of.paper, of.licence) == (ABOUT.title, ABOUT.authors, ABOUT.paper, "Apache-2.0")
    assert (of.suite.fingerprint, of.ranking, of.training.longest) == (
        SUITE.fingerprint,
        "standard",
        {"copying": 4, "parity": 4},
    )
    written = [r for one in plan(SUITE, [NAME]) if (r := one.result(here / "runs"))]
    assert sorted(results(folder), key=str) == sorted(written, key=str)
    assert passes(folder)


def test_what_is_not_said_is_taken_from_the_encoding(here):
    of = Submission.model_validate_json((submitted(about=None) / "submission.json").read_text())
    assert (of.title, of.authors, of.paper, of.note) == ("My encoding", ["Your Name"], "https://example.org", "")


def test_a_submission_is_replaced_on_demand_only(here):
    folder = submitted()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is there already; replace it with --replace, or choose another --to"):
        submitted()
    assert (folder / "mine.txt").exists()
    assert submitted(replace=True) == folder and not (folder / "mine.txt").exists() and passes(folder)


def test_what_is_missing_is_named(here):
    shutil.rmtree("runs/tiny/parity/my_encoding/seed-1")
    shutil.rmtree("runs/tiny/copying")
    assert refused() == (
        "my_encoding lacks 3 of 4 runs of suite tiny under runs/tiny: copying seeds 0, 1; parity seed 1; `lprime run` the "
        "suite with --encoding (and --retry-failed), all seeds count"
    )


def test_what_failed_is_named(here):
    shutil.rmtree("runs/tiny/parity/my_encoding/seed-1")
    plan(SUITE, [NAME], ["parity"], [1])[0].fail(here / "runs", "out of memory")
    assert "parity seed 1 (failed)" in refused()


def test_other_source_is_told(here):
    (here / f"{NAME}.py").write_text((here / f"{NAME}.py").read_text() + "\n# changed")
    said = refused()
    assert "4 of 4 runs of my_encoding were made from other source than it has now" in said
    assert "such as runs/tiny/copying/my_encoding/seed-0; delete them and run again" in said


def test_another_version_of_the_suite_is_told(here):
    assert "was made by suite tiny with fingerprint" in refused(suite=suite(seeds=[0, 1], version=2))


def test_a_seed_more_is_asked_for(here):
    assert "lacks 2 of 6 runs" in refused(suite=suite(seeds=[0, 1, 2]))


def test_a_seed_more_than_asked_for_stays_behind(here):
    folder = submitted(suite=suite(seeds=[1]))
    assert {r.seed for r in results(folder)} == {1} and passes(folder, suite(seeds=[1]))


@pytest.mark.parametrize("name", ["rope", "randomised(rope)", "rope(base=2.0)"])
def test_built_ins_are_not_submitted(here, name):
    assert refused(reference=name).endswith("(`lprime publish` is for those that are here)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_sha256": "0" * 64}, "is of 'my_encoding', source 000000000000; expected my_encoding, source"),
        ({"encoding": "rope"}, "is of 'rope', source"),
        ({"extra": 1}, "is not what `lprime check --json` prints: extra"),
        ({"findings": "none"}, "is not what `lprime check --json` prints: findings"),
    ],
)
def test_a_report_of_something_else_is_refused(here, change, message):
    content = json.loads(Path("check.json").read_text())
    Path("check.json").write_text(json.dumps(content | change))
    assert message in refused()


def test_a_report_is_one(here):
    Path("check.json").write_text("")
    assert "check.json is not what `lprime check --json` prints: not JSON" in refused()
    assert "cannot read absent.json: No such file" in refused(report=Path("absent.json"))


def test_a_report_of_a_failed_check_is_refused(here):
    content = json.loads(Path("check.json").read_text())
    content["findings"][1]["status"] = "failed"
    Path("check.json").write_text(json.dumps(content))
    assert "checks passed in 1 s; expected all to pass" in refused()


def test_the_checks_are_made_where_no_report_is_given(here, monkeypatch):
    whole = Report.model_validate_json(Path("check.json").read_text())
    broken = Finding(check="causality", status="failed", expected="e", found="peeks", advice="do not", seconds=1)
    monkeypatch.setattr(module, "run_checks", lambda reference: whole.model_copy(update={"findings": [broken]}))
    assert refused(report=None) == "my_encoding does not pass `lprime check my_encoding.py`: causality: peeks; do not"
    monkeypatch.setattr(module, "run_checks", lambda reference: whole)
    assert passes(submitted(report=None))


def test_nothing_is_written_that_would_not_pass(here):
    assert refused(about=About(title="<b>Mine")).startswith("my_encoding cannot be submitted: names: title holds markdown")
    assert "link" in refused(about=About(paper="javascript:x"))


def on_the_board(board: Path, name: str) -> Path:
    """The very runs, as published under another name."""
    (board / "results/tiny").mkdir(parents=True)
    runs = [r for one in plan(SUITE, [NAME]) if (r := one.result(Path("runs")))]
    renamed = [r.model_copy(update={"encoding": r.encoding.model_copy(update={"name": name})}) for r in runs]
    (board / f"results/tiny/{name}.jsonl").write_text("".join(r.model_dump_json() + "\n" for r in renamed))
    return board


COPIES = "my_encoding cannot be submitted: copies: copying seed 0 is copying seed 0 of theirs, as published"


def test_a_copy_of_the_board_is_refused(here):
    board = on_the_board(here / "elsewhere", "theirs")
    assert refused(published=board).startswith(COPIES)
    assert passes(submitted())  # nobody said that there is a board


def test_the_board_is_where_verify_looks_for_it(here):
    on_the_board(Path("leaderboard"), "theirs")
    assert refused().startswith(COPIES)


def test_ones_own_row_is_no_copy(here):
    assert passes(submitted(published=on_the_board(here / "elsewhere", NAME)))


def test_what_it_imports_comes_along(here):
    (here / "helper.py").write_text("RATE = 1.0")
    (here / "other.py").write_text("import helper\n" + (here / f"{NAME}.py").read_text().replace(NAME, "other"))
    folder = made_of("other.py")
    assert sorted(p.name for p in (folder / "source").iterdir()) == ["helper.py", "other.py"] and passes(folder)


def made_of(reference: str) -> Path:
    """Runs of it, its report, and the submission."""
    run(reference, Path("runs"), SUITE)
    return submitted(reference=reference, report=report(reference, Path("its.json")))


def test_what_cannot_come_along_is_refused(here, monkeypatch):
    (here / "elsewhere").mkdir()
    (here / "elsewhere/tables_of_mine.py").write_text("RATE = 1.0")
    monkeypatch.syspath_prepend(here / "elsewhere")
    (here / "other.py").write_text("import tables_of_mine\n" + (here / f"{NAME}.py").read_text().replace(NAME, "other"))
    with pytest.raises(
        InputError, match="other cannot be submitted: source: imports tables_of_mine, which it does not bring along"
    ):
        made_of("other.py")


RECENT = Path(__file__).resolve().parents[1] / "plugins/lprime_recency"


def test_a_package_is_submitted_whole(here, monkeypatch):
    monkeypatch.syspath_prepend(str(RECENT))
    folder = made_of("lprime_recency.encoding:Recency")
    there = sorted(p.relative_to(folder / "source").as_posix() for p in folder.rglob("*.py"))
    assert there == ["lprime_recency/__init__.py", "lprime_recency/curve.py", "lprime_recency/encoding.py"]
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
def test_settings_and_wrappers_are_submitted_and_their_hash_is_told_without_running_them(here, reference, folder):
    (here / "mine.py").write_text(OF_ROPE)
    (here / "wraps.py").write_text(WRAPS)
    place = made_of(reference)
    assert place.name == folder and passes(place)
    of = Submission.model_validate_json((place / "submission.json").read_text())
    sources = {p.name: p.read_bytes() for p in (place / "source").iterdir()}
    assert source_hash(of, sources) == encodings.source_hash(encodings.get(reference))


def test_two_plugins_are_two_submissions(here):
    (here / "mine.py").write_text(OF_ROPE)
    (here / "wraps.py").write_text(WRAPS)
    assert "is made of 2 plugins" in refused(reference="wraps.py(mine.py)")


def test_who_trains_on_at_longer_lengths_says_so(here):
    source = WRAPS.replace("Wraps(Wrapper):", "Wraps(Wrapper):\n    stage = Stage()").replace("Info, ", "Info, Stage, ")
    (here / "wraps.py").write_text(source.replace("shift_invariant=True", "ranking='longer', shift_invariant=True"))
    of = Submission.model_validate_json((made_of("wraps.py(rope)") / "submission.json").read_text())
    assert (of.ranking, of.training.extra_stage, of.training.longest) == ("longer", True, {"copying": 8, "parity": 8})


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a(1)", "a(b, c)", "f(x)(y)", "(" * 5000, "-" * 5000 + "a", "a[0]"])
def test_what_is_no_name_is_none(name):
    with pytest.raises(ValueError, match="not a name"):
        chain(name)


def test_names_fall_into_their_parts():
    assert chain("a(b(c(x=1.0),y='z'))") == ["a", "b", "c"] and chain("a") == ["a"] and chain("a(x=1)") == ["a"]


def test_the_example_is_one(tmp_path):
    assert passes(made(tmp_path, SUITE))
