"""``python -m slurm.submit FOLDER``: hands one submission to sbatch, by submitit, and writes down the id that it got.

A process of its own, so that it ends what it began when its launcher dies. The launcher's lock is its standard input, and so
sbatch's too: the lock is free only when all of them are gone, and then SLURM knows every job that there is.
"""

import io
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from tasks import InputError

from . import site
from .cluster import Cluster
from .job import NOT_IMPORTABLE, NOT_SHARED, Share
from .records import Plan, Submission

NO_END = 10**6
"""Timeouts after which submitit would give a job up: jobs of ours give up by themselves, when they get nowhere."""
MPS = """\
export CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) CUDA_MPS_LOG_DIRECTORY=$(mktemp -d)
nvidia-cuda-mps-control -d || { echo "lprime: NVIDIA's Multi-Process Service does not start on $(hostname)" >&2; exit 94; }
trap 'echo quit | nvidia-cuda-mps-control >/dev/null' EXIT"""


def python_of(cluster: Cluster) -> str:
    """The interpreter as the shell takes it. ``-P``: what lies around in the working folder is no module of ours."""
    return f"{cluster.python or shlex.quote(sys.executable)} -P"


def parameters(cluster: Cluster, name: str, folder: Path) -> dict[str, Any]:
    """The cluster file in submitit's words."""
    python, place = python_of(cluster), shlex.quote(str(folder))
    setup = [
        f'test -r {place}/plan.json || {{ echo "lprime: {folder} is not seen by $(hostname)" >&2; exit {NOT_SHARED}; }}',
        *cluster.setup,
        *([MPS] if cluster.mps else []),
        f'{python} -c "import slurm.job, submitit" || {{ echo "lprime: python cannot load lprime on $(hostname)" >&2; '
        f"exit {NOT_IMPORTABLE}; }}",
    ]
    chosen: dict[str, Any] = {
        "job_name": name,
        "partition": cluster.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "time": cluster.time_minutes,
        "mem": f"{round(cluster.memory_gb * 1024)}M",
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": cluster.cpus_per_job,
        "gpus_per_node": cluster.gpus_per_job or None,
        "signal_delay_s": cluster.save_before_s,
        "array_parallelism": cluster.jobs_at_once or 10**6,
        "setup": setup,
        # srun of SLURM 22.05 to 23.02 does not take the CPUs of its job over.
        "srun_args": [f"--cpus-per-task={cluster.cpus_per_job}", *cluster.srun_args],
        "additional_parameters": {"requeue": True} | {key.lstrip("-"): value for key, value in cluster.sbatch.items()},
    }
    return {key: value for key, value in chosen.items() if value is not None}


def script(plan: Plan, folder: Path) -> str:
    """What sbatch would be given."""
    from submitit.slurm.slurm import _make_sbatch_string

    count = len(plan.shares) if len(plan.shares) > 1 else None
    command = f"{python_of(plan.cluster)} -u -m submitit.core._submit {shlex.quote(str(folder))}"
    return _make_sbatch_string(command, folder, map_count=count, **parameters(plan.cluster, plan.name, folder))


def submit(submission: Submission) -> str:
    """One array of jobs, or one job.

    Returns:
        Its id.

    Raises:
        InputError: sbatch refused it.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError
    from submitit.slurm.slurm import SlurmExecutor

    plan, folder = submission.plan, submission.folder
    executor = SlurmExecutor(folder, max_num_timeout=NO_END, python=python_of(plan.cluster))
    executor.update_parameters(**parameters(plan.cluster, plan.name, folder))
    share = Share(str(folder))
    try:
        with quiet():
            jobs = executor.submit_array([share] * len(plan.shares)) if len(plan.shares) > 1 else [executor.submit(share)]
    except (FailedJobError, FailedSubmissionError) as error:
        raise site.refusal(str(error), plan.cluster) from None
    id = jobs[0].job_id.split("_")[0]
    submission.write_job(id)
    return id


@contextmanager
def quiet() -> Iterator[None]:
    """submitit prints what it raises: one of the two is enough."""
    with redirect_stderr(io.StringIO()):
        yield


def adopt(submission: Submission, id: str) -> None:
    """Take over an array that sbatch accepted just before its launcher died: write its id down, and what its jobs wait for."""
    from submitit.core.utils import DelayedSubmission

    plan, folder = submission.plan, submission.folder
    delayed = DelayedSubmission(Share(str(folder)))
    delayed.set_timeout(plan.cluster.time_minutes, NO_END)
    submission.write_job(id)
    for share in range(len(plan.shares)):
        path = folder / f"{submission.job_of(share)}_submitted.pkl"
        if not path.exists():
            temporary = path.with_suffix(".part")
            delayed.dump(temporary)
            temporary.replace(path)


def main(arguments: Sequence[str]) -> int:
    submission = Submission(Path(arguments[0]))
    try:
        print(json.dumps({"id": submit(submission)}))
    except InputError as error:
        print(json.dumps({"error": str(error)}))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
