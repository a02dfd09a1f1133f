"""Records of submitted jobs: files in the shared folder, the only state.

::

    <out>/<suite>/.slurm/<token>/    one submission: an array of jobs, which SLURM knows by a name that ends with the token
        plan.json                    the runs, one share for each job
        <n>.log                      output of the job with share n
"""

from pathlib import Path
from typing import Literal

from bench.result import Record, reading, unless_damaged
from bench.runs.run import Run, RunKey
from bench.runs.worker import RunRequest, Source
from bench.sealed.sandbox import SealedCode
from bench.suites.suite import Suite

from .cluster import Cluster

HOME, PLAN = ".slurm", "plan.json"


class Plan(Record):
    """One submission. Jobs read it on their nodes."""

    format: Literal[5] = 5
    token: str
    """Time of the submission, UTC; the end of the jobs' name."""
    out: str
    """Absolute path of the results folder."""
    suite: Suite
    cluster: Cluster
    sources: dict[str, Source]
    """By encoding; empty if the runs are sealed."""
    sealed: SealedCode | None = None
    """Submitted code, which runs in a sandbox."""
    shares: list[list[RunKey]]
    """The runs of each job: task, encoding, seed and learning rate."""
    keep_weights: list[str]
    """Encodings whose runs keep their weights. A job could not tell which trainings are shared: it loads no plugins."""

    @property
    def name(self) -> str:
        """Name of the jobs in SLURM."""
        return f"lprime-{self.suite.name}-{self.token}"

    @property
    def folder(self) -> Path:
        return Path(self.out) / self.suite.name / HOME / self.token

    def runs(self, share: int) -> list[Run]:
        return [Run(self.suite, *key) for key in self.shares[share]]

    def request(self, run: Run) -> RunRequest:
        """The request for a worker, with the source of the encoding at submission."""
        if self.sealed:
            from bench.sealed.run import SealedRequest  # loads torch

            return SealedRequest.of_run(run, self.sealed)
        return RunRequest(self.suite.model_dump_json(), *run.key, self.sources[run.encoding])


def read_plan(folder: Path) -> Plan:
    """The plan of one submission.

    Raises:
        InputError: it is damaged or cannot be read.
    """
    with reading(folder / PLAN, "is damaged", f"cancel its jobs, if any, and delete {folder}"):
        return Plan.model_validate_json((folder / PLAN).read_bytes())


def read_plans(out: Path, suite: str) -> list[Plan]:
    """The plans of all submissions of a suite, oldest first.

    Those that cannot be read are skipped with a warning ``Damaged``: a second job of a run does no harm.
    """
    paths = sorted((out / suite / HOME).glob(f"*/{PLAN}"))
    return [plan for path in paths if (plan := unless_damaged(read_plan, path.parent))]
