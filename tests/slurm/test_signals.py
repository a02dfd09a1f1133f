"""How SLURM ends jobs, and what a job can find out about it: the behaviour that ``slurm.job`` relies on.

A program runs under srun, as in the job script, and records each signal with the output of ``scontrol show job`` then.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from grids import slurm, wait_until

pytestmark = pytest.mark.slurm

PROGRAM = """
import json, os, signal, subprocess, sys, time

reaction, notes = sys.argv[1], open("notes", "a", buffering=1)
job, restart = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT", 0))


def note(event):
    said = subprocess.run(["scontrol", "show", "job", "-o", job], capture_output=True, text=True).stdout
    shown = dict(word.split("=", 1) for word in said.split() if "=" in word)
    preempted = shown.get("PreemptTime", "None") != "None"
    state = shown.get("JobState", "").replace("SIGNALING", "RUNNING")  # while signals are on their way to a running job
    print(json.dumps([restart, event, state, preempted]), file=notes)


def react(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal follows soon; the state at the first counts
    note(signal.Signals(number).name)
    if reaction == "exit":
        os._exit(0)
    if reaction == "requeue":
        os._exit(subprocess.run(["scontrol", "requeue", job]).returncode)


signal.signal(signal.SIGTERM, react)
note("begins")
deadline = time.monotonic() + (0 if restart else 300)
while time.monotonic() < deadline:
    time.sleep(0.1)
note("ends")
"""


class Job:
    """The program in a running job, with one reaction to SIGTERM."""

    def __init__(self, cluster, folder: Path, reaction: str, *options: str) -> None:
        self.cluster, self.notes = cluster, folder / "notes"
        (folder / "program.py").write_text(PROGRAM)
        self.id = cluster.submit(folder, f"srun {sys.executable} program.py {reaction}", "--requeue", *options)
        wait_until("the program to begin", self.noted)

    def noted(self) -> list[tuple[Any, ...]]:
        """(restart, event, JobState, is there a PreemptTime?)"""
        return [tuple(json.loads(line)) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def preempted(self) -> list[str]:
        """Preempt it and wait for its end. Returns the states of its starts, sorted: the accounting may give them any order."""
        self.cluster.ended(self.cluster.high_priority_job(0))
        return sorted(row.state for row in self.cluster.ended(self.id))

    def cancelled(self) -> list[str]:
        slurm("scancel", self.id)
        return [row.state for row in self.cluster.ended(self.id)]


BEGINS = (0, "begins", "RUNNING", False)
PREEMPTED = (0, "SIGTERM", "RUNNING", True)
CANCELLED = (0, "SIGTERM", "COMPLETING", False)
AGAIN = [(1, "begins", "RUNNING", False), (1, "ends", "RUNNING", False)]


def test_a_preempted_program_that_exits_is_not_requeued(cluster, tmp_path):
    """So a preempted job must not simply exit within the grace time."""
    job = Job(cluster, tmp_path, "exit", "--partition=low")
    assert job.preempted() == ["COMPLETED"]
    assert job.noted() == [BEGINS, PREEMPTED]


def test_a_preempted_program_that_requeues_itself_runs_again(cluster, tmp_path):
    job = Job(cluster, tmp_path, "requeue", "--partition=low")
    assert job.preempted() == ["COMPLETED", "REQUEUED"]
    assert job.noted() == [BEGINS, PREEMPTED, *AGAIN]


def test_a_preempted_program_that_stays_is_killed_and_requeued(cluster, tmp_path):
    job = Job(cluster, tmp_path, "stay", "--partition=low")
    assert job.preempted() == ["COMPLETED", "PREEMPTED"]
    assert job.noted() == [BEGINS, PREEMPTED, *AGAIN]


def test_a_cancelled_program_sees_that_its_job_is_completing(cluster, tmp_path):
    """JobState distinguishes scancel from preemption at the first SIGTERM. A job that requeued itself then would run again."""
    job = Job(cluster, tmp_path, "stay", "--partition=low")
    assert job.cancelled() == ["CANCELLED"]
    assert job.noted() == [BEGINS, CANCELLED]
