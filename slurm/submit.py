"""Submit runs: split them into jobs, write a plan of the array of jobs, and give SLURM its script.

A run is submitted at least once. Its lock and its result make a second job harmless: it waits, or finds nothing to do. The
jobs of a launcher that was killed are in the queue under the plan's name.
"""

import math
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from bench.files import render, write_atomic
from bench.runs.run import FAILURE, Run

from . import commands, job
from .cluster import Cluster
from .records import PLAN, Plan

TIME_LIMIT_FRACTION = 0.8
"""Jobs are planned to end within this fraction of the time limit: estimates err, and imports take time."""


def submit(plan: Plan) -> str:
    """Submit the runs of a plan as one array of jobs; returns its id. Reports of their earlier failures are deleted.

    Raises:
        InputError: SLURM does not answer, or refuses the jobs.
    """
    write_atomic(plan.folder / PLAN, plan.model_dump_json() + "\n")
    files = [run.folder(Path(plan.out)) / FAILURE for share in range(len(plan.shares)) for run in plan.runs(share)]
    reports = {file: file.read_bytes() for file in files if file.exists()}
    for file in reports:
        file.unlink(missing_ok=True)  # before a job can write its own
    command = "sbatch", "--parsable", *log_options(plan)
    try:
        return commands.run_command(*command, stdin=job_script(plan)).strip().split(";")[0]  # a federation adds a name
    except commands.NoAnswer:
        shutil.rmtree(plan.folder)
        for file, report in reports.items():
            write_atomic(file, report)
        raise


def split_into_shares(runs: Sequence[Run], cluster: Cluster, seconds: Mapping[Run, float], most: int) -> list[list[Run]]:
    """One share of the runs per job, in order, all but the last of one size. A job that takes longer than planned is harmless:
    it resumes after its time limit.

    Arguments:
        seconds: estimated time of each run.
        most: maximum number of shares, which are larger than planned if necessary.
    """
    planned = 60 * min(cluster.job_minutes, TIME_LIMIT_FRACTION * cluster.time_minutes)
    filling = int(planned * cluster.at_once / fmean(seconds.values()))
    size = max(cluster.runs_per_job or max(cluster.at_once, filling), math.ceil(len(runs) / most))
    return [list(runs[start : start + size]) for start in range(0, len(runs), size)]


def log_options(plan: Plan) -> list[str]:
    """Options of sbatch that name files. They are arguments, because a line of a script cannot quote every name."""
    return [f"--output={str(plan.folder).replace('%', '%%')}/%a.log", "--open-mode=append"]


def job_script(plan: Plan) -> str:
    """The script that sbatch receives."""
    cluster = plan.cluster
    options: dict[str, object] = {
        "job-name": plan.name,
        **cluster.model_dump(include={"partition", "account", "qos", "constraint"}),
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
    return render(
        "job.sh.j2",
        Path(__file__).parent / "templates",
        options=[name if value is True else f"{name}={shlex.quote(str(value))}" for name, value in given.items()],
        cluster=cluster,
        job=job,
        place=shlex.quote(str(plan.folder)),
        plan_file=PLAN,
        # srun of SLURM 22.05 to 23.02 does not inherit the CPUs of its job.
        srun_args=shlex.join([f"--cpus-per-task={cluster.cpus_per_job}", *cluster.srun_args]),
        # -P: modules in the working directory are not imported.
        python=f"{cluster.python or shlex.quote(sys.executable)} -P",
    )
