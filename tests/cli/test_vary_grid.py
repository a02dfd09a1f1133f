"""The conditions of a suite as one grid: run, status, and on a cluster."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from support import lprime
from synthetic_results import full, store, suite

from bench.runs.run import plan_runs
from bench.suites.suite import Suite
from slurm import executor
from slurm.launch import Launched
from slurm.status import Status
from tasks import InputError

CONDITIONS = {"steps": ["x2"], "train_length": ["x1.5"]}
VARY = {"encodings": ["nope", "t5"], "seeds": [0, 1], "conditions": CONDITIONS}
TASKS = [{"task": "parity", "variant": "answer", "train_length": 4}]


def test_all_conditions_run_as_one_grid(tiny, tmp_path):
    of, out = tiny(vary=VARY, tasks=TASKS, recipe={"steps": 4, "batch": 4, "warmup_steps": 1}), tmp_path / "runs"
    narrowed = ["run", of, "--vary", "--out", out, "--workers", 1, "--seed", 1, "--encoding", "nope"]
    first = lprime(*narrowed)
    assert "2 of 2 runs to do" in first.stdout, first.stderr
    assert "train_length-x1.5: parity nope seed 1: in distribution" in first.stdout
    assert "the board:" not in first.stdout, "the suite itself has no results"
    assert sorted(path.name for path in out.iterdir()) == ["tiny-steps-x2", "tiny-train_length-x1.5"]
    assert "nothing to run: 2 of 2" in lprime(*narrowed).stdout
    states = json.loads(lprime("status", of, "--vary", "--out", out, "--json").stdout)
    assert len(states) == 8
    done = [s for s in states if s["state"] == "done"]
    assert [s["condition"] for s in done] == ["steps-x2", "train_length-x1.5"]
    shown = lprime("status", of, "--vary", "--out", out).stdout
    assert "train_length-x1.5  1 done, 3 missing" in shown
    assert "8 runs: 2 done, 6 missing" in shown
    assert lprime("run", of, "--out", out, "--workers", 1, "--task", "parity", "--encoding", "nope").returncode == 0
    board = f"the board: lprime board {of} --out {out}"
    assert lprime(*narrowed[:-4], "--encoding", "nope").stdout.endswith(f"{board}\n"), "with the rest of the runs of nope"


def test_jobs_on_a_cluster_belong_to_one_condition(tiny, tmp_path, monkeypatch):
    """Every condition is submitted on its own, and all are followed to their ends, whatever happens to one."""

    @dataclass
    class Queue:
        suite: Suite
        live: dict = field(default_factory=dict)
        progress: dict = field(default_factory=dict)

        def status(self, run, out):
            assert run.suite == self.suite
            if run.suite.name == "tiny-steps-x2" and not events:
                next(attempts)
                raise InputError("a record is damaged")
            return Status(run.state(out))

    submitted, events, attempts = [], [], iter(range(9))

    def launch(runs, out: Path, *_):
        submitted.append({run.suite.name for run in runs})
        for run in runs:
            store(out, [r for r in full(run.suite, {"nope": [1] * 4}) if r.seed == run.seed])
        return Launched([], 0, [])

    of = suite(vary=VARY | {"encodings": ["nope", "rope"]}, tasks=TASKS)
    runs = [run for one in of.conditions.values() for run in plan_runs(one, ["nope"])]
    monkeypatch.setattr(executor, "check_encoding_files", lambda *_: None)
    monkeypatch.setattr(executor.commands, "check_cluster", lambda *_: None)
    monkeypatch.setattr(executor, "launch", launch)
    monkeypatch.setattr(executor, "ASK_SLURM_EVERY_S", 0.01)
    monkeypatch.setattr(executor.Queue, "read", lambda out, suite: Queue(suite))
    executor.SlurmExecutor(None, poll_every_s=0.01).execute(sorted(runs, key=lambda r: r.seed), tmp_path, events.append)
    assert submitted == [{"tiny-steps-x2"}, {"tiny-train_length-x1.5"}]
    assert sorted(str(e.run) for e in events if e.kind == "finished") == sorted(map(str, runs))
    assert len({str(run) for run in runs}) == 4
