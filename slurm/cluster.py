"""The cluster file (strict YAML): partition, account, size and setup of a site's jobs."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from bench.suites.yaml_config import Section, read_yaml, validated, yaml_file, yaml_files

Positive = Annotated[int, Field(ge=1, le=10**6)]
Word = Annotated[str, Field(pattern=r"^[^\s'\"\\]{1,200}$")]
"""A name the site has given: no spaces, quotes or backslashes."""
Line = Annotated[str, Field(pattern=r"^[^\n\r]*$")]


class Cluster(Section):
    """How to use one cluster. All keys except ``partition`` and ``time_minutes`` have defaults."""

    partition: Word
    """One name, or several with commas; a job starts in the first that has room."""
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    time_minutes: Positive
    """Time limit of a job. At the limit the job is requeued, and its runs resume from their checkpoints."""
    cpus_per_job: Positive = 1
    gpus_per_job: Annotated[str, BeforeValidator(str), Field(pattern=r"^([A-Za-z][\w.-]*:)?\d{1,2}$")] = "0"
    """A number, or with the site's name of a type: ``h100:1``."""
    memory_gb: Annotated[float, Field(gt=0, le=10**5)] = 4
    """Of a whole job. A process that trains ``small`` takes 0.4 to 0.7 GB (``make speed``); the default leaves room for larger
    models and for the libraries of a GPU."""
    runs_at_once: Positive | None = None
    """Processes in one job, one run each; by default one per CPU, or on GPUs as ``packed`` says."""
    runs_per_job: Positive | None = None
    """By default as many as fill ``job_minutes`` by their mean estimated time."""
    job_minutes: Positive = 60
    """Planned duration of a job; at most four fifths of the time limit."""
    jobs_at_once: Positive | None = None
    """Maximum number of jobs that run at a time (sbatch's ``%``)."""
    max_jobs: Positive | None = None
    """Maximum number of jobs of a suite in the queue; with fewer, each has more runs. Set it where the site limits jobs."""
    mps: bool = False
    """Start NVIDIA's Multi-Process Service in each job, so that kernels of several runs execute on one GPU concurrently."""
    checkpoint_every_s: Annotated[float, Field(ge=0)] = 30
    save_before_s: Annotated[int, Field(ge=5, le=3600)] = 90
    """Seconds before the time limit at which a job saves its runs and requeues itself."""
    sbatch: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")], Line | int | bool] = {}
    """More options of sbatch, without leading dashes: ``{reservation: lab, exclude: node07, exclusive: true}``. SLURM's
    environment variables (``SBATCH_RESERVATION``) are ignored."""
    srun_args: list[str] = []
    setup: list[str] = []
    """Shell lines executed before a job starts: modules, environments, variables."""
    python: str | None = None
    """Command of the Python interpreter on the nodes; by default the path of the one that submits."""

    @model_validator(mode="after")
    def consistent(self) -> "Cluster":
        if self.mps and not self.gpus:
            raise ValueError("mps needs GPUs, but gpus_per_job is 0")
        if own := {"array", "job-name", "nodes", "open-mode", "output", "requeue", "signal", "time"} & {*self.sbatch}:
            raise ValueError(f"sbatch sets {', '.join(sorted(own))}, on which lprime relies; expected other options")
        if self.save_before_s >= 60 * self.time_minutes:
            raise ValueError(
                f"save_before_s must be less than the time limit of {60 * self.time_minutes} s, got {self.save_before_s}"
            )
        return self

    @property
    def at_once(self) -> int:
        """Runs at a time in one job."""
        return self.runs_at_once or self.gpus or self.cpus_per_job

    def packed(self, width: int) -> "Cluster":
        """This cluster with a number of runs at a time that suits the models' width, at most two per CPU.

        On one H200, further runs gained little (``benchmarks/GPU.md``). Measured at widths 64 and 256; 128 is in between.
        """
        if self.runs_at_once or not self.gpus:
            return self
        each = 1 if width > 64 else 2
        if self.mps:
            each = 4 if width > 128 else 8 if width > 64 else 16
        return self.model_copy(update={"runs_at_once": min(self.gpus * each, max(self.gpus, 2 * self.cpus_per_job))})

    @property
    def gpus(self) -> int:
        """Number of GPUs of a job."""
        return int(self.gpus_per_job.rpartition(":")[2])

    @property
    def device(self) -> str:
        return "cuda" if self.gpus else "cpu"


def load_cluster(name: str) -> Cluster:
    """Load a cluster file by its path, or a shipped example by its name.

    Raises:
        InputError: the file does not exist, is not YAML, or is not a valid cluster.
    """
    path = yaml_file(name, "cluster", yaml_files("slurm", "clusters"))
    return validated(Cluster, read_yaml(path, "cluster", "partition and time_minutes"), f"cluster {path.name}")
