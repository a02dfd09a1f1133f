"""Call SLURM's commands (sbatch, squeue, sacct, scontrol, scancel) and parse their output."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tasks import InputError

ANSWER_WITHIN_S = 60
OPTION_VARIABLES = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_")
"""Starts of variables that change what the commands do: options of a user's, and of the job in which a launcher may run."""
DEFAULT_MAX_ARRAY = 1001
"""SLURM's default of ``MaxArraySize``."""


class NoAnswer(InputError):
    """A command of SLURM is not installed, fails or does not answer in time."""


JobKey = tuple[str, int]
"""Name of an array of jobs, and the index of a job in it."""
UNSTARTED = -1
"""Index of all jobs of an array that have not started, which the accounting gives as one."""


@dataclass(frozen=True)
class JobInfo:
    """One job, as SLURM reports it."""

    id: str
    """``123_4``: job 4 of array 123; ``123_[5-9]``: several that have not started."""
    state: str
    """The first word of SLURM's state: ``PENDING``, ``RUNNING``, ``CANCELLED``, …"""
    reason: str = ""
    """Why it waits."""
    node: str = ""
    time_left: str = ""
    """Remaining part of the time limit, in squeue's format."""
    exit_code: int = 0


def run_command(*command: str, stdin: str = "") -> str:
    """The output of a command.

    Raises:
        NoAnswer: it is not installed, fails, or does not answer in time.
    """
    environment = {k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not k.startswith(OPTION_VARIABLES)}
    try:
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, errors="replace", timeout=ANSWER_WITHIN_S
        )
    except FileNotFoundError:
        raise NoAnswer(f"{command[0]} was not found; --on is for a login node of a cluster with SLURM") from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]} did not answer within {ANSWER_WITHIN_S} s; try again later") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        message = "; ".join(re.sub(r"^\w+: (error|fatal): ", "", line) for line in lines)
        raise NoAnswer(f"{command[0]}: {message}")
    return done.stdout


def try_command(*command: str) -> str | None:
    """The output of a command that may fail; None if it does."""
    try:
        return run_command(*command)
    except NoAnswer:
        return None


def max_array_size() -> int:
    """Number of jobs in the largest array that the site takes."""
    config = re.search(r"MaxArraySize\s*=\s*(\d+)", try_command("scontrol", "show", "config") or "")
    return max(1, int(config.group(1))) if config else DEFAULT_MAX_ARRAY


def queued_jobs(names: Sequence[str]) -> dict[JobKey, JobInfo]:
    """Jobs of these names that wait or run.

    Raises:
        NoAnswer: SLURM does not answer.
    """
    jobs = {}
    # -a: in hidden partitions too.
    for line in run_command("squeue", "-a", "-h", "-r", f"--name={','.join(names)}", "-o", "%i|%T|%r|%N|%L|%j").splitlines():
        id, state, reason, node, left, name = line.split("|")
        jobs[name, index_of(id)] = JobInfo(id, state, reason, node, left)
    return jobs


def accounted_jobs(names: Sequence[str], since: str) -> dict[JobKey, JobInfo]:
    """Jobs of these names from the accounting, those that have ended too; none if the site has no accounting.

    Arguments:
        since: a day before the first of them was submitted, as ``2026-01-31``.
    """
    jobs = {}
    # Without states, sacct leaves out the jobs that were cancelled before the limit of their array let them start.
    window = f"--starttime={since}", "--endtime=now", "--state=BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,S,TO"
    columns = "--format=JobID,State,ExitCode,NodeList,JobName"
    text = try_command("sacct", "-n", "-X", "-P", f"--name={','.join(names)}", *window, columns)
    for line in (text or "").splitlines():
        id, state, code, node, name = line.split("|")
        jobs[name, index_of(id)] = JobInfo(id, state.split()[0], node=node, exit_code=int(code.split(":")[0]))
    return jobs


def index_of(id: str) -> int:
    """The index of a job in its array, by its id; ``UNSTARTED`` for ``77_[2-5]``."""
    index = id.partition("_")[2]
    return int(index) if index.isdecimal() else UNSTARTED


def still_wanted(id: str) -> bool | None:
    """Whether a job that received a signal was preempted rather than cancelled; None if the controller does not answer.

    tests/slurm/test_signals.py shows what the controller reports in either case.
    """
    if not (answer := try_command("scontrol", "show", "job", id)):
        return None
    return bool(re.search(r"PreemptTime=\d|JobState=(RUNNING|SIGNALING)", answer))
