"""``python -m slurm.submit FOLDER``: submit the jobs of one submission to SLURM with submitit and record their id, or print
why SLURM refuses them.

This is a separate process so that it completes even if its launcher is killed. Its standard input, which sbatch inherits, is
the launcher's lock file: the lock is released only after all of them have ended, when SLURM has every job in its queue.
"""

import io
import math
import pickle
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from bench.files import write_atomic
from tasks import InputError

from . import commands
from .cluster import Cluster
from .job import NO_MPS, NOT_IMPORTABLE, NOT_SHARED, REQUEUE, JobEntryPoint
from .records import Plan, Submission

NEVER = 10**6
"""Timeouts after which submitit gives a job up: never, since our jobs give up by themselves when they make no progress."""
MPS = (
    "export CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) CUDA_MPS_LOG_DIRECTORY=$(mktemp -d)\n"
    'nvidia-cuda-mps-control -d || { echo "lprime: NVIDIA\'s Multi-Process Service does not start on $(hostname)" >&2; '
    f"exit {NO_MPS}; }}"
)
STOP_MPS = "echo quit | nvidia-cuda-mps-control >/dev/null; "
ON_EXIT = (
    "trap 'code=$?; {stop_mps}[ $code -ne "
    f"{REQUEUE} ] || "
    'scontrol requeue "${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_}}${{SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}}"\' EXIT'
)
"""A job in a container that has no ``scontrol`` asks its batch script, which runs outside, to put it back into the queue."""


def python_command(cluster: Cluster) -> str:
    """The interpreter, quoted for the shell. ``-P``: modules in the working directory are not imported."""
    return f"{cluster.python or shlex.quote(sys.executable)} -P"


def submitit_parameters(cluster: Cluster, name: str, folder: Path) -> dict[str, Any]:
    """Convert the cluster file to submitit's parameters."""
    python, quoted = python_command(cluster), shlex.quote(str(folder))
    setup = [
        f'test -r {quoted}/plan.json || {{ echo "lprime: {folder} is not visible on $(hostname)" >&2; exit {NOT_SHARED}; }}',
        *cluster.setup,
        *([MPS] if cluster.mps else []),
        ON_EXIT.format(stop_mps=STOP_MPS if cluster.mps else ""),
        f'{python} -c "import slurm.job, submitit" || {{ echo "lprime: python cannot import lprime on $(hostname)" >&2; '
        f"exit {NOT_IMPORTABLE}; }}",
    ]
    chosen: dict[str, Any] = {
        "job_name": name,
        "partition": cluster.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "time": cluster.time_minutes,
        "mem": f"{math.ceil(cluster.memory_gb * 1024)}M",  # 0 would mean all of the node's
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": cluster.cpus_per_job,
        "gpus_per_node": cluster.gpus_per_job or None,
        "signal_delay_s": cluster.save_before_s,
        "mail_user": cluster.email,
        "mail_type": cluster.email_on if cluster.email else None,
        "array_parallelism": cluster.jobs_at_once or 10**6,
        "setup": setup,
        # srun of SLURM 22.05 to 23.02 does not inherit the CPUs of its job.
        "srun_args": [f"--cpus-per-task={cluster.cpus_per_job}", *cluster.srun_args],
        # submitit writes True as an option without a value, but False as "=False".
        "additional_parameters": {"requeue": True}
        | {key.lstrip("-"): value for key, value in cluster.sbatch.items() if value is not False},
    }
    given = {key: value for key, value in chosen.items() if value is not None}
    return given | {"wckey": None}  # by default submitit's own, which a site that checks keys refuses


def sbatch_script(plan: Plan, folder: Path) -> str:
    """The script that sbatch would receive."""
    from submitit.slurm.slurm import _make_sbatch_string

    count = len(plan.shares) if len(plan.shares) > 1 else None
    command = f"{python_command(plan.cluster)} -u -m submitit.core._submit {shlex.quote(str(folder))}"
    return _make_sbatch_string(command, folder, map_count=count, **submitit_parameters(plan.cluster, plan.name, folder))


def submit_jobs(submission: Submission) -> None:
    """Submit one array of jobs, or one job, and record its id.

    Raises:
        InputError: sbatch refused it.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError
    from submitit.slurm.slurm import SlurmExecutor

    plan, folder = submission.plan, submission.folder
    executor = SlurmExecutor(folder, max_num_timeout=NEVER, python=python_command(plan.cluster))
    executor.update_parameters(**submitit_parameters(plan.cluster, plan.name, folder))
    entry_point = JobEntryPoint(str(folder))
    try:
        with redirect_stderr(io.StringIO()):  # submitit prints the errors that it raises
            if len(plan.shares) > 1:
                jobs = executor.submit_array([entry_point] * len(plan.shares))
            else:
                jobs = [executor.submit(entry_point)]
    except (FailedJobError, FailedSubmissionError) as error:
        raise commands.explain_refusal(str(error), plan.cluster) from None
    submission.write_job(jobs[0].job_id.split("_")[0])


def adopt_jobs(submission: Submission, id: str) -> None:
    """Complete a submission whose launcher died after sbatch accepted it: write the pickles its jobs need, then record its id.

    Raises:
        InputError: the disk is full; the submission is left for the next launcher.
    """
    from submitit.core.utils import DelayedSubmission

    plan, folder = submission.plan, submission.folder
    delayed = DelayedSubmission(JobEntryPoint(str(folder)))
    delayed.set_timeout(plan.cluster.time_minutes, NEVER)
    for share in range(len(plan.shares)):
        path = folder / f"{plan.job_id(id, share)}_submitted.pkl"
        if not path.exists():
            write_atomic(path, pickle.dumps(delayed), sync=False)
    submission.write_job(id)


def main(arguments: Sequence[str]) -> int:
    submission = Submission(Path(arguments[0]))
    try:
        submit_jobs(submission)
    except InputError as error:
        print(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
