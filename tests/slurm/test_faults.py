"""Faults at random moments: ``make faults`` kills processes a thousand times, fills the disk, moves the clock, and starts two
processes of each kind on one folder. Nothing may be lost or replaced, and results equal those of an undisturbed grid.
Processes are forked from this one, which has loaded torch but computed nothing.
"""

import errno
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from stand_ins import cluster
from support import results, suite_dict

from bench import files
from bench.runs import run as runs_module
from bench.runs.pool import LocalPool
from bench.runs.run import plan_runs
from bench.runs.run_lock import LockedElsewhere
from bench.runs.run_one import run_one
from bench.suites.suite import Suite
from bench.suites.yaml_config import validated
from leaderboard.results.store import publish
from slurm import commands
from slurm.executor import SlurmExecutor
from slurm.job import JobWorker
from slurm.records import read_plans
from slurm.status import Queue
from slurm.submit import submit

pytestmark = pytest.mark.faults
KILLS = int(os.environ.get("LPRIME_KILLS", 1000))
ENCODINGS = ["nope", "t5", "rope", "yarn", "finetuned(rope)"]  # some share a training
SUITE = validated(Suite, suite_dict(encodings=ENCODINGS, seeds=[0, 1]), "suite")


def forked(work: Callable[[], object], faulty: bool) -> int:
    """The id of a new process group that does some work; faulty ones meet a full disk and a clock that jumps."""
    if pid := os.fork():
        return pid
    try:
        os.setsid()
        chance = random.Random(os.getpid() ^ time.time_ns())
        if faulty:
            replace, clock = os.replace, time.time

            def full(*paths: Path) -> None:
                if chance.random() < 0.1:
                    raise OSError(errno.ENOSPC, "No space left on device")
                replace(*paths)

            files.os.replace = full
            time.time = lambda: clock() + 86_400 * chance.uniform(-1, 1)
            runs_module.now = lambda: time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time()))
        work()
    finally:  # an error ends it as a kill does: the next process goes on
        os._exit(0)


def execute(out: Path) -> None:
    """All runs, one by one, in random order."""
    for run in random.sample(grid := plan_runs(SUITE), len(grid)):
        with suppress(LockedElsewhere):
            run_one(run, out, "cpu", checkpoint_every_s=0)


def in_pool(out: Path) -> None:
    todo = [run for run in plan_runs(SUITE) if not run.result(out)]
    LocalPool(2, "cpu", checkpoint_every_s=0).execute(todo, out, lambda event: None)


def launch(out: Path) -> None:
    """Submit, with a queue of jobs that outlives the launcher."""
    queue = out / "queue"

    def answer(*command: str, stdin: str = "") -> str:
        if command[0] == "squeue":
            names = queue.read_text().split() if queue.exists() else []
            return "".join(f"{n}_{k}|PENDING|None||1:00|{name}\n" for n, name in enumerate(names) for k in range(99))
        if command[0] == "sbatch":
            name = next(line for line in stdin.splitlines() if "--job-name=" in line).partition("=")[2]
            with open(queue, "a") as file:
                file.write(name + "\n")
            return "1\n"
        return ""

    commands.run_command = answer
    _, plan = SlurmExecutor(cluster()).plan(plan_runs(SUITE), out, Queue.read(out, SUITE))
    if plan:
        submit(plan)


def job(out: Path) -> None:
    """One job of the first submission."""
    os.environ |= {"SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "0"}
    JobWorker(read_plans(out, SUITE.name)[0], 0).run()


def ended(group: int, kill_after: float | None) -> bool:
    """Wait for a process, or kill it, alone or with all that it started; then wait until nothing of its group is left."""
    deadline, killed = time.monotonic() + (kill_after or 120), False
    while os.waitpid(group, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            assert kill_after, "it hangs"
            killed = True
            if random.random() < 0.7:
                with suppress(ProcessLookupError):  # it has not begun, and has no group yet
                    os.killpg(group, signal.SIGKILL)
            os.kill(group, signal.SIGKILL)
            os.waitpid(group, 0)
            break
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline + 60:
            os.killpg(group, 0)
            time.sleep(0.01)
    return killed


WORKS = {
    "runs": (execute, 2.0, 8),
    "pool": (in_pool, 12.0, 1),
    "job": (job, 12.0, 1),
    "launcher": (launch, 0.1, 4),
    "publishing": (lambda out: publish(SUITE.name, out, out / "board"), 0.1, 0),
}
"""Kind → work, longest time in seconds until it is killed, how often it is chosen."""


def disturb(kind: str, out: Path, kills: Counter[str], faulty: bool = False) -> None:
    """Start two processes on one folder, and kill both at random moments."""
    work, longest, _ = WORKS[kind]
    for group in [forked(partial(work, out), faulty) for _ in range(2)]:
        kills[kind] += ended(group, random.uniform(0, longest))


def test_kills_full_disks_and_jumping_clocks_lose_nothing_and_change_nothing(tmp_path):
    kills, grids, faults, runs = Counter[str](), 0, 0, plan_runs(SUITE)
    ended(forked(partial(execute, tmp_path / "calm"), faulty=False), None)
    assert len(expected := results(tmp_path / "calm")) == len(runs)
    kinds = [kind for kind, (_, _, often) in WORKS.items() for _ in range(often)]
    while kills.total() < KILLS:
        out, kept, grids = tmp_path / f"grid-{grids}", dict[Path, bytes](), grids + 1
        ended(forked(partial(launch, out), faulty=False), None)
        while len(kept) < len(runs):
            faults += (faulty := random.random() < 0.3)
            disturb(random.choice(kinds), out, kills, faulty)
            now = {path: path.read_bytes() for path in out.rglob("result.json")}
            assert kept.items() <= now.items(), "a result was lost or replaced"
            kept = now
        assert results(out) == expected
        planned = {key for plan in read_plans(out, SUITE.name) for share in plan.shares for key in share}
        assert planned == {run.key for run in runs}
        for _ in range(10):
            disturb("publishing", out, kills)
        publish(SUITE.name, out, out / "board")
        lines = [line for path in (out / "board").rglob("*.jsonl") for line in path.read_bytes().splitlines()]
        assert sorted(lines) == sorted(run.result(out).model_dump_json().encode() for run in runs)
        shutil.rmtree(out)
    print(f"\n{kills.total()} kills {dict(kills)}; {faults} pairs with full disks and jumping clocks; {grids} grids")
