"""Submissions without a cluster, and a stand-in for SLURM's answers."""

from pathlib import Path
from typing import Any

from support import suite_dict

from bench.runs.run import Run
from bench.suites.suite import Suite
from bench.suites.yaml_config import validated
from slurm import commands
from slurm.cluster import Cluster
from slurm.commands import JobInfo, index_of
from slurm.executor import SlurmExecutor
from slurm.records import PLAN, Plan
from slurm.status import Queue
from slurm.submit import submit

SUITE = validated(Suite, suite_dict(encodings=["nope", "t5"], seeds=[0, 1]), "suite")


def cluster(**changes: object) -> Cluster:
    return validated(Cluster, {"partition": "p", "time_minutes": 60, "runs_per_job": 4} | changes, "cluster")


def planned(out: Path, runs: list[Run], site: Cluster | None = None, **more: Any) -> Plan:
    todo, plan = SlurmExecutor(site or cluster(), **more).plan(runs, out, Queue(runs[0].suite, [], {}))
    assert plan and len(todo) == len(runs)
    return plan


def submitted(out: Path, runs: list[Run], site: Cluster | None = None, **more: Any) -> Plan:
    """The record of a submission; its array has a member for every four runs."""
    plan = planned(out, runs, site, **more)
    plan.folder.mkdir(parents=True)
    (plan.folder / PLAN).write_text(plan.model_dump_json())
    return plan


def launched(out: Path, runs: list[Run], site: Cluster | None = None) -> tuple[Plan, str]:
    """What a launcher submits, and the id of its jobs."""
    _, plan = SlurmExecutor(site or cluster()).plan(runs, out, Queue.read(out, runs[0].suite))
    assert plan
    return plan, submit(plan)


def queue(plan: Plan, *ended: JobInfo) -> Queue:
    found = Queue(plan.suite, [plan], {})
    found.__dict__["accounted"] = {(plan.name, index_of(info.id)): info for info in ended}
    return found


class Site:
    """Answers as SLURM does, in place of ``commands.run_command``."""

    def __init__(self) -> None:
        self.queued: dict[str, str] = {}
        """Jobs in the queue: id → name."""
        self.accounts = ""
        """Lines of sacct."""
        self.scripts: list[str] = []
        """What sbatch was given."""
        self.refusal = ""
        """What sbatch says; empty if it takes the script."""
        self.controller = ""
        """What scontrol says."""
        self.asked: list[str] = []

    def queue(self, plan: Plan) -> None:
        """Put the jobs of a plan into the queue, as array 7."""
        self.queued |= {f"7_{share}": plan.name for share in range(len(plan.shares))}

    def __call__(self, *command: str, stdin: str = "") -> str:
        self.asked.append(command[0])
        if command[0] == "squeue" and "-a" in command:  # the partition is hidden
            return "".join(f"{id}|RUNNING|None|n1|1:00|{name}\n" for id, name in self.queued.items())
        if command[0] == "sbatch":
            if self.refusal:
                raise commands.NoAnswer(f"sbatch: {self.refusal}")
            self.scripts.append(stdin)
            return "9\n"
        return {"sacct": self.accounts, "scontrol": self.controller}.get(command[0], "")
