"""A site's cluster, as a strict YAML file: where jobs go, how large they are, and what they need before they can start."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from bench.strict import Section, read_yaml, validated, yaml_file, yaml_files
from tasks import InputError

Positive = Annotated[int, Field(ge=1, le=10**6)]
Word = Annotated[str, Field(pattern=r"^[^\s'\"\\]{1,200}$")]
"""Of a site's own names: no space, no quote."""

OURS = (
    *("partition", "account", "qos", "constraint", "time", "cpus_per_task", "gpus_per_node", "mem", "array", "nodes"),
    *("ntasks_per_node", "job_name", "output", "error", "open_mode", "requeue", "signal"),
)
"""Options of sbatch that lprime sets itself, most of them from other keys."""


class Cluster(Section):
    """One way to use one cluster. Every key but ``partition`` and ``time_minutes`` has a default."""

    partition: Word
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    time_minutes: Positive
    """Time limit of a job. A run that it cuts off goes on from its checkpoint, in the same job, requeued."""
    cpus_per_job: Positive = 1
    gpus_per_job: Annotated[int, Field(ge=0, le=64)] = 0
    memory_gb: Annotated[float, Field(gt=0, le=10**5)] = 4
    runs_at_once: Positive | None = None
    """Processes in one job, a run each; by default one per GPU, or one per CPU where there are no GPUs."""
    runs_per_job: Positive | None = None
    """By default as many as fill ``job_minutes``, by what a run is estimated to take."""
    job_minutes: Positive = 60
    """What a job should last to be worth its queueing; never planned past four fifths of the time limit."""
    jobs_at_once: Positive | None = None
    """Jobs of one array that may run at a time (sbatch's ``%``)."""
    max_jobs: Positive | None = None
    """Jobs of ours in the queue at a time, where the site's own limits do not say it."""
    mps: bool = False
    """Start NVIDIA's Multi-Process Service in each job, so that runs on one GPU really run side by side."""
    checkpoint_every_s: Annotated[float, Field(ge=0)] = 30
    save_before_s: Annotated[int, Field(ge=5, le=3600)] = 90
    """How long before the time limit a job saves its runs and goes back to the queue."""
    sbatch: dict[str, str | int | bool] = {}
    """More options of sbatch, without the dashes in front: ``{reservation: lab, exclude: node07}``."""
    srun_args: list[str] = []
    setup: list[str] = []
    """Shell lines before a job starts: modules, environments, variables."""
    python: str | None = None
    """The command that is the interpreter on the nodes; by default the one that submits, at the same path."""
    shared_folder: str | None = None
    """A folder that all nodes see. Results go to its ``runs``; an ``--out`` or an encoding's file outside of it is refused. By
    default nothing is checked before a job finds out."""

    @model_validator(mode="after")
    def consistent(self) -> "Cluster":
        for option in self.sbatch:
            name = option.lstrip("-").replace("-", "_")
            if name in OURS or name in ("partition", "account", "qos", "constraint"):
                raise ValueError(
                    f"sbatch.{option} is lprime's to set; expected an option without a key of its own in this file"
                )
        if self.mps and not self.gpus_per_job:
            raise ValueError("mps is for GPUs, and gpus_per_job is 0")
        if self.save_before_s >= 60 * self.time_minutes:
            raise ValueError(
                f"save_before_s must be less than the time limit of {60 * self.time_minutes} s, got {self.save_before_s}"
            )
        return self

    @property
    def at_once(self) -> int:
        """Runs at a time in one job."""
        return self.runs_at_once or self.gpus_per_job or self.cpus_per_job

    @property
    def device(self) -> str:
        return "cuda" if self.gpus_per_job else "cpu"

    @property
    def shared(self) -> Path | None:
        """The folder that all nodes see, where the file names it."""
        return Path(os.path.expandvars(self.shared_folder)).expanduser() if self.shared_folder else None

    def seen(self, path: Path, what: str) -> Path:
        """A path as every node sees it.

        Raises:
            InputError: outside of the shared folder.
        """
        path, shared = path.expanduser().resolve(), self.shared
        if shared and not path.is_relative_to(shared.resolve()):
            raise InputError(f"{what} {path} is not in the cluster's shared_folder {shared}; compute nodes would not see it")
        return path

    def out(self, asked: Path | None) -> Path:
        """Where results live, as every node sees it.

        Raises:
            InputError: outside of the shared folder.
        """
        shared = self.shared
        out = self.seen(asked or (shared / "runs" if shared else Path("runs")), "--out")
        if shared and not shared.is_dir():
            raise InputError(f"the cluster's shared_folder {shared} is not a folder here")
        return out


def shipped() -> dict[str, Path]:
    """Name → file of the examples that travel with the package."""
    return yaml_files("slurm", "clusters")


def load_cluster(name: str) -> Cluster:
    """A cluster by the path of its YAML file, or a shipped example by name.

    Raises:
        InputError: no such file, not YAML, or not a valid cluster; one line that says what was expected.
    """
    path = yaml_file(name, "cluster", shipped())
    return validated(Cluster, read_yaml(path, "cluster", "partition and time_minutes"), f"cluster {path.name}")
