"""Tasks from files and installed packages: names, fingerprints, runs, boards, and what ``lprime check`` finds in them."""

import json
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import yaml
from commands import printed, refused, run_command
from support import new_registry, suite_dict
from synthetic_results import CURVE, full, store, suite

import lprime
import tasks
from bench.check.checks import load_checks, run_check
from bench.check.run_checks import serve
from bench.check.task_rules import TaskSubject
from bench.plugins import registry
from bench.plugins.new_file import write_new_file
from bench.runs.pool import LocalPool
from bench.runs.run import plan_runs
from bench.runs.worker import RunRequest
from bench.suites.suite import Suite, holding, load_suite, validated
from leaderboard.results.frame import read_local
from leaderboard.stats.rows import Board
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")
CHECKS = {check.name: check for check in load_checks("task")}


@pytest.fixture
def reversal(here) -> Path:
    """The template of a task, in a folder with a tiny suite that uses it."""
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    (here / "own.yaml").write_text(yaml.safe_dump(suite_dict(name="own", tasks=[{"task": "reversal.py", "train_length": 4}])))
    return write_new_file("reversal", "task")


def suite_with(**spec: object) -> Suite:
    return validated(Suite, suite_dict(tasks=[{"train_length": 4} | spec]), "suite")


def test_a_task_is_known_by_its_name_and_takes_settings(reversal):
    for text, letters in {"reversal.py": 8, "reversal.py:ReversalTask(letters=4)": 4, f"{reversal.resolve()}": 8}.items():
        suite = suite_with(task=text)
        assert (suite.tasks[0].task, suite.tasks[0].variant) == ("reversal", "plain")
        assert len(suite.make_task("reversal").vocabulary) == 4 + letters
    assert suite_with(task="reversal.py(letters=4)", settings={"letters": 5}).tasks[0].settings == {"letters": 5}
    text = f"import lprime\n{reversal.read_text()}\nclass Mine(lprime.Encoding):\n    pass\n"
    reversal.with_name("both.py").write_text(text.replace('"letters": 8', '"letters": 8, "kinds": ["a"]'))
    assert registry.is_task("both.py") and not registry.is_task("both.py:Mine")
    with new_registry():
        assert suite_with(task="both.py").make_task("reversal").token_chance(3) == pytest.approx((3 / 8 + 1) / 4, abs=0.02)
    assert suite_with(task="copying(letters=3)").fingerprint == suite_with(task="copying", settings={"letters": 3}).fingerprint
    for text, message in {
        "revrsal.py": "cannot read task revrsal.py: No such file or directory; did you mean 'reversal.py'?",
        "reversl": "unknown task 'reversl'; did you mean 'reversal'?",
        "reversal.py(leters=4)": "unknown setting of reversal 'leters'; did you mean 'letters'?",
        "reversal.py + 1": "is not a task; expected a name or a file",
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            suite_with(task=text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    name =", "    nam =", "reversal.py defines no task; expected a subclass of lprime.Task with its own `name`"),
        ('"reversal"\n', '"copying"\n', "the name 'copying' belongs to a built-in task"),
        ("def widths", "def width", "reversal.py: ReversalTask lacks widths"),
        ("shape = (len(lengths)", "shape = (1 / 0", "reversal raised an error (reversal.py, line 27): ZeroDivisionError"),
    ],
)
def test_a_broken_task_is_refused_in_one_line(reversal, old, new, message):
    reversal.write_text(reversal.read_text().replace(old, new, 1))
    assert message in refused("run", "own.yaml")


def test_its_source_is_part_of_the_fingerprint_and_its_place_is_not(reversal, here):
    before = load_suite("own.yaml")
    (run, *_), events = plan_runs(before, ["nope"]), []
    request = RunRequest.of(run)
    assert validated(Suite, before.model_dump(), "suite").fingerprint == before.fingerprint
    (here / "sub").mkdir()
    for name in ("own.yaml", "reversal.py"):
        (here / "sub" / name).write_text((here / name).read_text())
    with new_registry():
        assert load_suite("sub/own.yaml").fingerprint == before.fingerprint, "paths are relative to the suite"
    reversal.write_text(reversal.read_text().replace('{"letters": 8}', '{"letters": 4}'))
    LocalPool(1, "cpu", request=lambda run: request).execute([run], here, events.append)
    assert "the source of task reversal changed after this run was asked for" in events[-1].text
    assert run.failure(here).error == events[-1].text
    with new_registry():
        assert load_suite("own.yaml").fingerprint != before.fingerprint


def test_a_task_takes_the_place_of_a_suites_own(reversal):
    assert holding("tiny.yaml", ["copying"]) == ("tiny.yaml", ["copying"])
    assert holding("own.yaml", ["reversal.py"]) == ("own.yaml", ["reversal"])
    name, names = holding("tiny.yaml", ["reversal.py(letters=3)", "parity"])
    found = load_suite(name)
    assert (found.name, [spec.task for spec in found.tasks], names) == ("tiny-reversal-parity", names, ["reversal", "parity"])
    assert (found.tasks[0].train_length, found.tasks[0].settings, found.tasks[1].variant) == (4, {"letters": 3}, "answer")


def test_runs_board_data_and_page_take_it(reversal, here):
    assert run_command("run", "tiny.yaml", "--task", "reversal.py", "--encoding", "nope", "--workers", 1)[0] == 0
    (path,) = here.rglob("result.json")
    result = json.loads(path.read_text())
    assert path.parent == here / "runs/tiny-reversal/reversal/nope/seed-0"
    assert result["fingerprint"] == load_suite("tiny.yaml+reversal.py").fingerprint
    assert "nope" in printed("board", "tiny.yaml+reversal.py") and "1 done" in printed("status", "tiny.yaml+reversal.py")
    frame = lprime.evaluate("nope", "tiny.yaml", "reversal.py", quiet=True)
    assert set(frame["task"]) == {"reversal"} and list(frame["exact"]) == [score["exact"] for score in result["scores"]]
    printed("data", "reversal.py", "--suite", "tiny.yaml", "--to", "d")
    assert "Symbols in the order of their ids:\n\n    <pad> <bos> <sep> <eos> a b" in (here / "d/README.md").read_text()
    assert "<bos> g f e c <sep> c e f g <eos>" in printed("show", "reversal.py")
    assert "tiny-reversal" in printed("show", "tiny.yaml+reversal.py")
    path.write_text(path.read_text().replace(result["data_hash"], "0" * 64))  # as if it read a file that has changed
    assert "tested on other examples than task reversal has now" in run_command("board", "tiny.yaml+reversal.py")[2]


def test_boards_do_not_rank_by_it(here):
    store(here, full(suite(), {"nope": CURVE}))
    frame = read_local(here, "tiny")
    frame.loc[frame["task"] == "sorting", "task"] = "reversal"
    assert "reversal" not in Board(frame, None).tasks
    assert Board(frame[frame["task"] == "reversal"], None).tasks == ["reversal"], "shown if there is no other"


def test_an_installed_task_is_found_by_its_name(reversal, here, monkeypatch):
    (here / "site/p-1.dist-info").mkdir(parents=True)
    (here / "site/p-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: p\nVersion: 1\n")
    (here / "site/p-1.dist-info/entry_points.txt").write_text("[lprime.tasks]\nreversal = reversal_module:ReversalTask\n")
    reversal.rename(here / "site/reversal_module.py")
    monkeypatch.syspath_prepend(str(here / "site"))
    registry.entry_points.cache_clear()
    spec = suite_with(task="reversal").tasks[0]
    assert (spec.file, len(spec.source_sha256)) == ("", 64)
    assert load_suite(holding("tiny.yaml", ["reversal"])[0]).name == "tiny-reversal" and registry.is_task("reversal")
    registry.entry_points.cache_clear()


# --- lprime check


@pytest.mark.parametrize("name", sorted(tasks.catalogue().keys() - {"language", "text"}))
def test_built_in_tasks_pass(name):
    for check in CHECKS.values():
        assert check.run(TaskSubject(tasks.find(name), {}))


SHORT = """    def sample(self, length, count, rng):
        return super().sample(np.ones_like(np.broadcast_to(length, count)), count, rng)

"""
"""All examples are of length 1."""


@pytest.mark.parametrize(
    ("check", "old", "new", "message"),
    [
        ("streams", "rng.integers", "np.random.default_rng().integers", "plain: the same seed gives other examples"),
        ("streams", "rng.integers", "np.random.default_rng(0).integers", "plain: another seed gives the same examples"),
        ("answers", "return length, length", "return length, 5", "plain, length 9: 9 + 9 tokens, and widths says 9 + 5"),
        ("answers", "Ragged.of(answers, lengths)", "Ragged.of(answers + 8, lengths)", "those of symbols are 4 … 11"),
        ("answers", "prompt[::-1]", "prompt", "has the answer"),
        ("answers", "answers = np.take", "answers = rng.permuted(letters, axis=1)  #", "has the answer"),
        ("chance", "return float", "return 0 * float", "plain, length 1: a guess is right in"),
        ("new tests", "    def draw(", SHORT + "    def draw(", "length 20 100%"),
    ],
)  # fmt: skip
def test_what_a_check_of_a_task_catches(reversal, check, old, new, message):
    text = reversal.read_text()
    assert old in text
    reversal.write_text(text.replace(old, new))
    outcome = run_check(CHECKS[check], TaskSubject(*registry.get_task("reversal.py")))
    assert outcome.status == "failed" and message in outcome.found


def test_check_tells_tasks_from_encodings_and_stops_a_loop_in_its_line(reversal, monkeypatch):
    code, out, err = run_command("check", "reversal.py(letters=5)", "--unsafe")
    assert (code, err) == (0, "") and f"{len(CHECKS)} of {len(CHECKS)} checks passed" in out and "recomputed" in out
    reversal.write_text(reversal.read_text().replace("letters = rng", "while True: pass\n        letters = rng"))
    monkeypatch.setattr("bench.check.run_checks.STEP_LIMIT_S", 3)
    serve(channel := Mock(), {"reference": "reversal.py"})
    assert "reversal raised an error (reversal.py, line 28): TimeoutError" in channel.send.call_args.kwargs["text"]


# --- data for other trainers


def test_a_collated_batch_has_the_targets_of_the_harness(reversal):
    data = lprime.load_task("reversal.py", "tiny.yaml", train_examples=16)
    examples = tasks.train_batch(data.task, 4, 16, 0, 0)
    batch = {name: tensor.numpy() for name, tensor in data.collate(data["train"].to_list()).items()}
    assert np.array_equal(batch["input_ids"], examples.tokens)
    assert np.array_equal(batch["labels"], np.where(examples.targets, examples.tokens, -100))
    assert np.array_equal(batch["attention_mask"].sum(1), examples.sizes)
    assert (len(data.vocabulary), data.train_length, data.task.longest) == (12, 4, 8)
    assert data.fingerprint == load_suite("tiny.yaml+reversal.py").fingerprint
