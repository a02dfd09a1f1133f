"""The cluster file (strict YAML): partition, account, size and setup of a site's jobs."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bench.suites.yaml_config import Section, read_yaml, validated, yaml_file, yaml_files
from tasks import InputError

Positive = Annotated[int, Field(ge=1, le=10**6)]
Word = Annotated[str, Field(pattern=r"^[^\s'\"\\]{1,200}$")]
"""A name the site has given: no spaces, quotes or backslashes."""

RESERVED = (
    *("partition", "account", "qos", "constraint", "time", "cpus_per_task", "gpus_per_node", "mem", "array", "nodes"),
    *("ntasks_per_node", "job_name", "output", "error", "open_mode", "requeue", "signal"),
    *("ntasks", "gpus", "gpus_per_task", "gpus_per_socket", "mem_per_cpu", "mem_per_gpu", "no_requeue"),
)
"""sbatch options that lprime sets itself, most of them from other keys, and options that contradict those."""


def joined(names: Any) -> Any:
    """A list of names as SLURM writes it, with commas."""
    return ",".join(names) if isinstance(names, list) and names and all(isinstance(n, str) for n in names) else names


def gpus_of_a_job(gpus: int | str) -> int | str:
    """A number of GPUs, or their type and number."""
    if not re.fullmatch(r"([A-Za-z][\w.-]{0,39}:)?([0-9]|[1-5][0-9]|6[0-4])", str(gpus)):
        raise ValueError(f"expected a number up to 64, such as 1, or a type and a number, such as h100:1, got {gpus!r}")
    return gpus


class Cluster(Section):
    """How to use one cluster. All keys except ``partition`` and ``time_minutes`` have defaults."""

    partition: Annotated[Word, BeforeValidator(joined)]
    """One name or a list; a job starts in the first that has room."""
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    time_minutes: Positive
    """Time limit of a job. At the limit the job is requeued, and its runs resume from their checkpoints."""
    cpus_per_job: Positive = 1
    gpus_per_job: Annotated[int | str, AfterValidator(gpus_of_a_job)] = 0
    """A number, or with the site's name of a type: ``h100:1``."""
    memory_gb: Annotated[float, Field(gt=0, le=10**5)] = 4
    """Of a whole job. A process that trains ``small`` takes 0.4 to 0.7 GB (``make speed``); the default leaves room for larger
    models and for the libraries of a GPU."""
    runs_at_once: Positive | None = None
    """Processes in one job, one run each; by default one per GPU, or one per CPU without GPUs."""
    runs_per_job: Positive | None = None
    """By default as many as fill ``job_minutes`` by their estimated time."""
    job_minutes: Positive = 60
    """Planned duration of a job; at most four fifths of the time limit."""
    jobs_at_once: Positive | None = None
    """Maximum number of jobs of each array that run at a time (sbatch's ``%``). A large grid has several arrays."""
    max_jobs: Positive | None = None
    """Maximum number of your jobs in the queue, in addition to the limits SLURM reports."""
    mps: bool = False
    """Start NVIDIA's Multi-Process Service in each job, so that kernels of several runs execute on one GPU concurrently."""
    checkpoint_every_s: Annotated[float, Field(ge=0)] = 30
    save_before_s: Annotated[int, Field(ge=5, le=3600)] = 90
    """Seconds before the time limit at which a job saves its runs and requeues itself."""
    sbatch: dict[str, str | int | bool] = {}
    """More options of sbatch, without leading dashes: ``{reservation: lab, exclude: node07, exclusive: true}``. Apart from
    account, QOS and constraint, sbatch's environment variables (``SBATCH_RESERVATION``) are ignored."""
    srun_args: list[str] = []
    setup: list[str] = []
    """Shell lines executed before a job starts: modules, environments, variables."""
    python: str | None = None
    """Command of the Python interpreter on the nodes; by default the path of the one that submits."""
    shared_folder: str | None = None
    """A folder visible on all nodes. Results go to its ``runs``; an ``--out`` or an encoding's file outside of it is an error.
    Without this key, they are not checked before a job starts."""

    @model_validator(mode="after")
    def consistent(self) -> "Cluster":
        for option, value in self.sbatch.items():
            name = option.lstrip("-").replace("-", "_")
            if not re.fullmatch(r"[a-z_]+", name) or "\n" in str(value):
                raise ValueError(f"sbatch.{option}: expected one line, and a name as in sbatch's manual, got {value!r:.80}")
            if name in RESERVED or (name == "gres" and "gpu" in str(value)):
                raise ValueError(f"sbatch.{option} is set by lprime; expected an option without its own key in this file")
        if self.mps and not self.gpus:
            raise ValueError("mps needs GPUs, but gpus_per_job is 0")
        if self.save_before_s >= 60 * self.time_minutes:
            raise ValueError(
                f"save_before_s must be less than the time limit of {60 * self.time_minutes} s, got {self.save_before_s}"
            )
        return self

    @property
    def at_once(self) -> int:
        """Runs at a time in one job."""
        return self.runs_at_once or self.gpus or self.cpus_per_job

    @property
    def gpus(self) -> int:
        """Number of GPUs of a job."""
        return int(str(self.gpus_per_job).rpartition(":")[2])

    @property
    def device(self) -> str:
        return "cuda" if self.gpus else "cpu"

    @property
    def shared(self) -> Path | None:
        """``shared_folder`` with variables expanded."""
        return Path(os.path.expandvars(self.shared_folder)).expanduser() if self.shared_folder else None

    @property
    def unset_variables(self) -> list[str]:
        """Variables in ``shared_folder`` that are not set here."""
        names = re.findall(r"\$\{?(\w+)", self.shared_folder or "")
        return [f"${name}" for name in names if name not in os.environ]

    def in_shared_folder(self, path: Path, what: str) -> Path:
        """The resolved path.

        Raises:
            InputError: it is outside of the shared folder.
        """
        path, shared = path.expanduser().resolve(), self.shared
        if shared and not path.is_relative_to(shared.resolve()):
            raise InputError(f"{what} {path} is not in the cluster's shared_folder {shared}; compute nodes would not see it")
        return path

    def results_folder(self, out: Path | None, dry_run: bool = False) -> Path:
        """The resolved ``--out``, by default ``runs`` in the shared folder.

        Arguments:
            dry_run: the shared folder need not exist yet, and variables in it need not be set.

        Raises:
            InputError: it is outside of the shared folder, which does not exist, or whose name has a variable that is not set.
        """
        shared = self.shared
        if shared and self.unset_variables:
            if not dry_run:
                raise InputError(f"{' and '.join(self.unset_variables)} in shared_folder {self.shared_folder} is not set here")
            return out or shared / "runs"
        out = self.in_shared_folder(out or (shared / "runs" if shared else Path("runs")), "--out")
        if shared and not dry_run and not shared.is_dir():
            raise InputError(f"the cluster's shared_folder {shared} is not a folder on this machine")
        return out


def example_clusters() -> dict[str, Path]:
    """Name → file of the example clusters in the package."""
    return yaml_files("slurm", "clusters")


def load_cluster(name: str) -> Cluster:
    """Load a cluster file by its path, or a shipped example by its name.

    Raises:
        InputError: the file does not exist, is not YAML, or is not a valid cluster.
    """
    path = yaml_file(name, "cluster", example_clusters())
    return validated(Cluster, read_yaml(path, "cluster", "partition and time_minutes"), f"cluster {path.name}")
