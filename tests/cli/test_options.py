"""Options that many commands share: environment variables, groups of encodings, quiet and JSON output, colours, completion."""

import json
import re
from pathlib import Path

import pytest
import yaml
from commands import printed, refused, run_command
from support import suite_dict
from synthetic_results import full, store, suite

from bench.encodings import catalogue, classes
from bench.result import read_result
from bench.runs.run import Run, plan_runs
from bench.suites.suite import load_suite, shipped
from leaderboard.results.store import publish as publish_runs
from lprime.cli import completion, run_report
from lprime.cli.selection import expand
from tasks import catalogue as tasks_catalogue

LOCAL, THEIRS = (1, 1, 0.75, 0.5), (1, 1, 0.5, 0.25)


def test_version_and_short_help():
    assert re.fullmatch(r"lprime \d+\.\d+\.\d+\n", printed("--version"))
    assert printed("run", "-h") == printed("run", "--help")
    assert all(name in re.sub(r"\s", "", printed("run", "-h")) for name in shipped())


def test_completion_knows_what_exists():
    names, groups = set(classes()), {"all"} | {f"family:{cls.info.family}" for cls in catalogue().values()}
    assert names | groups <= set(completion.complete_encodings(""))
    assert names <= set(found := completion.complete_encoding("")) and groups.isdisjoint(found)
    assert completion.complete_encoding("rope_s") == ["rope_scaled"]
    assert set(completion.complete_suite("")) >= set(shipped())
    assert completion.complete_task("") == sorted(tasks_catalogue())


def test_groups_of_encodings():
    assert expand(["rope", "x.py"]) == ["rope", "x.py"]
    assert expand(["all"]) == list(catalogue())
    rotary = expand(["family:rotary", "nope"])
    assert {"rope", "hope"} < set(rotary) and rotary[-1] == "nope"
    assert {catalogue()[name].info.family for name in rotary[:-1]} == {"rotary"}
    assert expand(["family:score bias"]) == expand(["family:bias"]), "the board's title"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    return tmp_path


def test_environment_variables_are_defaults(here, monkeypatch):
    monkeypatch.setenv("LPRIME_OUT", "a b")
    monkeypatch.setenv("LPRIME_WORKERS", "3")
    assert "results under a b/tiny" in (shown := printed("run", "tiny.yaml", "--dry-run")) and "with 3 at a time" in shown
    assert "results under c/tiny" in printed("run", "tiny.yaml", "--dry-run", "--out", "c")
    assert "no results of suite tiny under a b/tiny" in refused("compare", "nope", "rope", "--suite", "tiny.yaml")
    # A cluster file decides instead of LPRIME_WORKERS, but not instead of --workers.
    (here / "c.yaml").write_text("{partition: x, time_minutes: 60}")
    assert "#SBATCH --partition=x" in printed("run", "tiny.yaml", "--dry-run", "--on", "c.yaml")
    assert "--workers applies" in refused("run", "tiny.yaml", "--dry-run", "--on", "c.yaml", "--workers", 3)
    assert not (here / "a b").exists()


def test_a_dry_run_as_json(here):
    shown = json.loads(printed("run", "tiny.yaml", "--dry-run", "--json", "--task", "parity"))
    assert (shown["runs"], shown["done"], len(shown["preview"])) == (2, 0, 3)


def test_a_dry_run_names_runs_that_only_evaluate_apart(here):
    """``ntk`` loads the weights of ``rope``; ``drope`` trains one more stage."""

    def shown(*names):
        encodings = [word for name in names for word in ("--encoding", name)]
        return printed("run", "quick", "--dry-run", "--task", "parity", *encodings).splitlines()[1]

    time = r"takes \d+ s"
    assert re.fullmatch(rf"a run {time} \(guessed.*", shown("rope"))
    assert re.fullmatch(rf"a run {time}, a run that only evaluates {time} \(guessed.*", shown("rope", "ntk"))
    assert re.fullmatch(rf"a run {time} to \d+ s \(guessed.*", shown("rope", "drope"))


def test_quiet_and_json_of_finished_runs(here):
    """Nothing runs; the diverged run is named even in a quiet command, and its exit code is 0: it is a result."""
    of = load_suite("tiny.yaml")
    for run in plan_runs(of):
        status = "diverged" if run.key[:3] == ("parity", "t5", 0) else "done"
        write_result(here / "runs", run, status)
    said = "caution: 1 of 4 runs diverged (NaN or infinite loss) and count as zero:\n  parity t5 seed 0: at step 3 of 40\n"
    assert printed("run", "tiny.yaml", "--quiet").endswith(said)
    assert printed("run", "tiny.yaml").startswith("nothing to run: 4 of 4 runs are done under runs/tiny\n")
    code, out, _ = run_command("run", "tiny.yaml", "--json")
    shown = json.loads(out)
    assert code == 0 and (shown["done"], shown["failed"]) == (4, [])
    assert shown["diverged"] == [
        {"suite": "tiny", "task": "parity", "encoding": "t5", "seed": 0, "learning_rate": None, "step": 3}
    ]


def write_result(out: Path, run: Run, status: str) -> None:
    from bench.plugins.registry import get_encoding
    from bench.plugins.source_hash import source_hash

    (result,) = (r for r in full(suite(), {run.encoding: (1, 1, 1, 1)}) if (r.task, r.seed) == ("parity", run.seed))
    encoding = result.encoding.model_copy(update={"source_sha256": source_hash(get_encoding(run.encoding))})
    changes = {"task": run.task, "encoding": encoding, "fingerprint": run.suite.fingerprint}
    changes |= {"status": status, "steps": 3 if status == "diverged" else run.steps}
    run.folder(out).mkdir(parents=True)
    (run.folder(out) / "result.json").write_text(result.model_copy(update=changes).model_dump_json())
    assert read_result(run.folder(out) / "result.json").status == status


def test_printed_commands_are_quoted(here):
    outcome = run_report.Outcome("my suite.yaml", Path("a b"), [], [], {}, {}, {})
    assert outcome.command("status") == "lprime status 'my suite.yaml' --out 'a b'"
    assert outcome.command("board") == "lprime board 'my suite.yaml' --out 'a b'"


@pytest.fixture
def two_places(here) -> Path:
    """Local runs of ``mine`` and ``rope``; published ones of ``rope`` and ``nope``."""
    store(here / "theirs", full(suite(), {"nope": THEIRS, "rope": THEIRS}))
    publish_runs("tiny", here / "theirs", here / "board")
    store(here / "runs", full(suite(), {"mine": LOCAL, "rope": LOCAL}))
    return here


@pytest.mark.parametrize(
    ("pair", "more", "names"),
    [
        ("mine rope", [], ["mine", "rope"]),
        ("mine nope", [], ["mine (local)", "nope"]),
        ("nope rope", [], ["nope", "rope (local)"]),
        ("mine rope", ["--published"], ["mine (local)", "rope"]),
        ("nope rope", ["--published"], ["nope", "rope"]),
        ("nope rope", ["--out", "empty"], ["nope", "rope"]),
    ],
)
def test_compare_sets_local_runs_against_published_ones(two_places, pair, more, names):
    where = ["--suite", "tiny.yaml", "--board", "board", *more]
    (two_places / "tiny.yaml").write_text(yaml.safe_dump(suite().model_dump(mode="json", exclude={"vary", "condition"})))
    shown = json.loads(printed("compare", *pair.split(), *where, "--json"))
    assert [shown[side]["encoding"] for side in "ab"] == names
    for name, side in zip(names, "ab", strict=True):
        local = name in ("mine", "mine (local)", "rope (local)") or (name == "rope" and "mine" in names)
        assert (shown[side]["score.parity"] > 0) is local
    text = printed("compare", *pair.split(), *where)
    assert all(name in text for name in names)


def test_export_follows_the_ending(two_places):
    import pandas as pd

    for ending, read in {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}.items():
        printed("export", "--to", f"t.{ending}")
        frame = read(two_places / f"t.{ending}")
        assert sorted(frame.encoding.unique()) == ["mine", "rope"] and frame.exact.mean() == pytest.approx(0.8125), ending


def test_no_color_is_respected(two_places, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = re.compile(r"\x1b\[(?:[\d;]*;)?3[0-7]")
    command = ["compare", "mine", "rope", "--suite", "tiny"]
    assert coloured.search(printed(*command))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(printed(*command))


def test_a_terminal_of_unknown_width(two_places, monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert "mine" in printed("compare", "mine", "rope", "--suite", "tiny")
