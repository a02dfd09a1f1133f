"""Submissions without a cluster, and a stand-in for SLURM's answers."""

from pathlib import Path
from typing import Any

from support import suite_dict

from bench.runs.run import Run
from bench.suites.suite import Suite
from bench.suites.yaml_config import validated
from slurm import commands
from slurm.cluster import Cluster
from slurm.commands import JobInfo
from slurm.records import PLAN, Submission, records_folder
from slurm.status import Queue
from slurm.submit import plan_submissions

SUITE = validated(Suite, suite_dict(encodings=["nope", "t5"], seeds=[0, 1]), "suite")


def cluster(**changes: object) -> Cluster:
    return validated(Cluster, {"partition": "p", "time_minutes": 60, "runs_per_job": 4} | changes, "cluster")


def submitted(out: Path, runs: list[Run], site: Cluster | None = None, id: str = "7", **more: Any) -> Submission:
    """The record of a submission as job 7; its array has a member for every four runs."""
    (plan,), held = plan_submissions(runs, out, site or cluster(), 0, **more)
    assert not held
    submission = Submission(records_folder(out, plan.suite.name) / plan.token)
    submission.folder.mkdir(parents=True)
    (submission.folder / PLAN).write_text(plan.model_dump_json())
    submission.write_job(id)
    return submission


def queue(submission: Submission, *ended: JobInfo, live: tuple[JobInfo, ...] = ()) -> Queue:
    found = Queue(submission.plan.suite, [submission], {info.id: (submission.plan.name, info) for info in live})
    found.__dict__["accounted"] = {info.id: info for info in ended}
    return found


class Site:
    """Answers as SLURM does, in place of ``commands.run_command``."""

    def __init__(self) -> None:
        self.queued: dict[str, tuple[str, str]] = {}
        """Jobs in the queue: id → state and name."""
        self.accounts: str | None = ""
        """Lines of sacct; None without accounting."""
        self.asked: list[tuple[str, ...]] = []

    def queue(self, *submissions: Submission, state: str = "RUNNING") -> None:
        for submission in submissions:
            for share in range(len(submission.plan.shares)):
                self.queued[submission.job_of(share)] = (state, submission.plan.name)

    def __call__(self, *command: str) -> str:
        self.asked.append(command)
        if command[0] == "squeue" and "-a" in command:  # the partition is hidden
            me = commands.current_user()
            return "".join(f"{id}|{state}|None|n1|1:00|{me}|{name}\n" for id, (state, name) in self.queued.items())
        if command[0] == "sinfo":
            return "p|(null)|infinite|64\n"
        if command[0] == "scancel":
            self.queued = {id: job for id, job in self.queued.items() if id.split("_")[0] not in command}
        if command[0] == "sacct":
            if self.accounts is None:
                raise commands.NoAnswer("sacct: Slurm accounting storage is disabled")
            return self.accounts
        return ""
