"""Records of submitted jobs: files in the shared folder, the only state.

::

    <out>/<suite>/.slurm/<token>/    one submission: an array of jobs
        plan.json                    the runs, one share for each job
        job                          SLURM's id of the array, once sbatch has answered
        <n>.log                      output of the job with share n
"""

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from bench.files import write_atomic
from bench.result import Record, reading
from bench.runs.run import Run, RunKey
from bench.runs.worker import RunRequest
from bench.sealed.request import SealedCode, SealedRequest
from bench.suites.suite import Suite

from .cluster import Cluster

HOME, PLAN, JOB = ".slurm", "plan.json", "job"


class Source(Record):
    """References from which a node loads an encoding, and the hash of its source at submission."""

    plugins: list[str]
    sha256: str
    sealed: SealedCode | None = None
    """Submitted code, which runs in a sandbox; then there are no ``plugins``."""


class Plan(Record):
    """One submission. Jobs read it on their nodes."""

    format: Literal[4] = 4
    token: str
    """Time of the submission; the end of the jobs' name."""
    out: str
    """Absolute path of the results folder."""
    suite: Suite
    cluster: Cluster
    sources: dict[str, Source]
    """By encoding."""
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
        return records_folder(Path(self.out), self.suite.name) / self.token

    def runs(self, share: int) -> list[Run]:
        return [Run(self.suite, *key) for key in self.shares[share]]

    def request(self, run: Run) -> RunRequest:
        """The request for a worker, with the source hash of the encoding at submission."""
        source = self.sources[run.encoding]
        if source.sealed:
            return SealedRequest.of_run(run, source.sealed)
        return RunRequest(self.suite_json, *run.key, tuple(source.plugins), source.sha256)

    @cached_property
    def suite_json(self) -> str:
        return self.suite.model_dump_json()


class Submission:
    """The records of one submission."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.job = ""
        """SLURM's id of the array; empty if it is not recorded, because a launcher is submitting or was killed."""
        with suppress(OSError):
            self.job = (folder / JOB).read_text().strip()

    @cached_property
    def plan(self) -> Plan:
        with reading(self.folder / PLAN, "is damaged", f"cancel its jobs, if any, and delete {self.folder}"):
            return Plan.model_validate_json((self.folder / PLAN).read_bytes())

    def write_job(self, id: str) -> None:
        self.job = id
        write_atomic(self.folder / JOB, f"{id}\n")

    def job_of(self, share: int) -> str:
        """SLURM's id of one job: ``123_4``."""
        return f"{self.job}_{share}" if self.job else ""


def records_folder(out: Path, suite: str) -> Path:
    return out / suite / HOME


def load_submissions(out: Path, suite: str) -> list[Submission]:
    """All submissions of a suite, oldest first."""
    return [Submission(path.parent) for path in sorted(records_folder(out, suite).glob(f"*/{PLAN}"))]
