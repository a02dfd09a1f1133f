"""What SLURM is given for the jobs of a plan: the job script, and the options of sbatch that name files."""

import math
import shlex
import sys

from .job import NO_MPS, NOT_IMPORTABLE, NOT_SHARED, REQUEUE
from .records import PLAN, Plan

SCRIPT = """\
#!/bin/bash
{options}

fail() {{ echo "lprime: $2 on $(hostname)" >&2; exit "$1"; }}
test -r {folder}/{PLAN} || fail {NOT_SHARED} "the results folder is not visible"

# From the cluster file's setup.
{setup}

# A job in a container that has no scontrol asks this script, which runs outside, to put it back into the queue.
on_exit() {{
    code=$?
    {stop_mps}
    [ $code -ne {REQUEUE} ] || scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
}}
trap on_exit EXIT
{mps}
{python} -c 'import slurm.job' || fail {NOT_IMPORTABLE} "python cannot import lprime"
# Signals that arrive before lprime handles them must not end the job: SLURM would not requeue it.
srun --unbuffered {srun_args} sh -c 'trap "" TERM USR2; exec "$@"' sh {python} -u -m slurm.job {folder}
"""
MPS = f"""\
export CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) CUDA_MPS_LOG_DIRECTORY=$(mktemp -d)
nvidia-cuda-mps-control -d || fail {NO_MPS} "NVIDIA's Multi-Process Service does not start"
"""
STOP_MPS = "echo quit | nvidia-cuda-mps-control >/dev/null"


def log_options(plan: Plan) -> list[str]:
    """Options of sbatch that name files. They are arguments, because a line of a script cannot quote every name."""
    return [f"--output={str(plan.folder).replace('%', '%%')}/%a.log", "--open-mode=append"]


def job_script(plan: Plan) -> str:
    """The script that sbatch receives."""
    cluster = plan.cluster
    options: dict[str, object] = {
        "job-name": plan.name,
        "partition": cluster.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "time": cluster.time_minutes,
        "mem": f"{math.ceil(cluster.memory_gb * 1024)}M",  # 0 would mean all of the node's
        "nodes": 1,
        "ntasks-per-node": 1,
        "cpus-per-task": cluster.cpus_per_job,
        "gpus-per-node": cluster.gpus_per_job if cluster.gpus else None,
        "array": f"0-{len(plan.shares) - 1}%{cluster.jobs_at_once or len(plan.shares)}",
        "signal": f"USR2@{cluster.save_before_s}",
        "requeue": True,
        **cluster.sbatch,
    }
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    lines = [f"#SBATCH --{name}" + ("" if value is True else f"={shlex.quote(str(value))}") for name, value in given.items()]
    return SCRIPT.format(
        options="\n".join(lines),
        folder=shlex.quote(str(plan.folder)),
        setup="\n".join(cluster.setup),
        # srun of SLURM 22.05 to 23.02 does not inherit the CPUs of its job.
        srun_args=shlex.join([f"--cpus-per-task={cluster.cpus_per_job}", *cluster.srun_args]),
        # -P: modules in the working directory are not imported.
        python=f"{cluster.python or shlex.quote(sys.executable)} -P",
        mps=MPS if cluster.mps else "",
        stop_mps=STOP_MPS if cluster.mps else ":",
        PLAN=PLAN,
        NOT_SHARED=NOT_SHARED,
        NOT_IMPORTABLE=NOT_IMPORTABLE,
        REQUEUE=REQUEUE,
    )
