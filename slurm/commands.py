"""Call SLURM's commands (squeue, sacct, sinfo, scontrol, …), parse their output, and explain errors of sbatch."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks import InputError, unknown

from .cluster import Cluster

ANSWER_WITHIN_S = 60
OPTION_VARIABLES = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SCANCEL_", "SLURM_CLUSTERS")
"""Starts of variables that change what the commands report or act on. With a user's ``SQUEUE_STATES=RUNNING``, for example,
waiting jobs would look lost and be submitted again."""


class NoAnswer(InputError):
    """A command of SLURM is not installed, fails or does not answer in time."""


DEFAULT_MAX_ARRAY = 1001
"""SLURM's default of ``MaxArraySize``."""

REFUSALS = {
    "Invalid account": "account {account} may not be used in partition {partition}; see `sacctmgr show assoc user=$USER`",
    "Invalid qos": "QOS {qos} may not be used with account {account} in partition {partition}",
    "invalid partition": "there is no partition {partition}; `sinfo` lists them",
    "Job violates accounting": "a limit of the site is reached: set max_jobs, or ask for less time or fewer CPUs a job",
    "Invalid job array": "the array is larger than the site takes: set max_jobs",
    "node configuration is not available": "no node of partition {partition} has {cpus_per_job} CPUs, {memory_gb} GB and "
    "{gpus_per_job} GPUs for one job",
    "time limit": "partition {partition} does not allow {time_minutes} minutes: lower time_minutes",
    "Unable to contact": "SLURM's controller does not answer; nothing was changed, try again later",
}
"""Fragment of sbatch's message → what to change in the cluster file."""


@dataclass(frozen=True)
class JobInfo:
    """One job, as SLURM reports it."""

    id: str
    """``123_4``, or ``123`` for a job outside of an array."""
    state: str
    """The first word of SLURM's state: ``PENDING``, ``RUNNING``, ``CANCELLED``, …"""
    reason: str = ""
    """Why it waits, or how it ended."""
    node: str = ""
    time_left: str = ""
    """Remaining part of the time limit, in squeue's format."""
    user: str = ""
    exit_code: int = 0
    seconds: int = 0
    """Run time, summed over its starts."""
    gpus: int = 0
    cpus: int = 0


def call(command: Sequence[str], environment: dict[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Call a command.

    Raises:
        NoAnswer: it is not installed, or does not answer in time.
    """
    try:
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, errors="replace", timeout=ANSWER_WITHIN_S
        )
    except FileNotFoundError:
        raise NoAnswer(f"{command[0]} was not found; --on is for a login node of a cluster with SLURM") from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]} did not answer within {ANSWER_WITHIN_S} s; try again later") from None


def run_command(*command: str) -> str:
    """The output of a command.

    Raises:
        NoAnswer: it is not installed, fails, or does not answer in time.
    """
    done = call(command, {key: value for key, value in os.environ.items() if not key.startswith(OPTION_VARIABLES)})
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        message = re.sub(r"^\w+: (error|fatal): ", "", lines[-1])
        raise NoAnswer(f"{command[0]}: {message}")
    return done.stdout


def try_command(*command: str) -> str:
    """The output of a command that provides optional information; empty if it fails."""
    try:
        return run_command(*command)
    except InputError:
        return ""


def current_user() -> str:
    """The submitting user, by uid as in SLURM, not by $LOGNAME.

    Raises:
        InputError: the user has no name, as in some containers.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise InputError(f"user id {os.getuid()} has no name on this machine; SLURM needs one (see `getent passwd`)") from None


def run_sbatch(options: Sequence[str], script: str, cluster: Cluster) -> str:
    """Submit a script; the id of the job or array.

    Raises:
        InputError: SLURM refuses the job, or does not answer.
    """
    environment = {key: value for key, value in os.environ.items() if not overrides_cluster_file(key, cluster)}
    done = call(["sbatch", "--parsable", *options], environment, script)
    if done.returncode:
        raise explain_refusal(done.stderr, cluster)
    return done.stdout.strip().split(";")[0]  # a federation adds the cluster's name


def overrides_cluster_file(variable: str, cluster: Cluster) -> bool:
    """Whether an environment variable would override a key of the cluster file.

    SLURM sets variables inside a job, and sbatch's variables take precedence over a script's options. Of these only account,
    QOS and constraint are kept, if the file does not set them.
    """
    if variable.startswith("SLURM_"):
        return variable != "SLURM_CONF"
    given = {f"SBATCH_{key.upper()}": getattr(cluster, key) for key in ("account", "qos", "constraint")}
    return variable.startswith("SBATCH_") and given.get(variable, variable) is not None


def explain_refusal(message: str, cluster: Cluster) -> InputError:
    """Translate sbatch's error message into keys of the cluster file."""
    lines = [line.removeprefix("sbatch: error: ") for line in message.strip().splitlines()] or ["no message"]
    original = next((line for line in lines if not line.startswith("Batch job submission failed")), lines[-1])
    for fragment, meaning in REFUSALS.items():
        if fragment.lower() in message.lower():
            values = {key: "(none given)" if value is None else value for key, value in cluster.model_dump().items()}
            return InputError(f"{meaning.format(**values)} (sbatch: {original})")
    return InputError(f"sbatch refused the jobs: {original}")


def check_cluster(cluster: Cluster) -> None:
    """Check a cluster file against the site, before anything is written.

    Raises:
        InputError: SLURM is not installed here, or the site lacks the partition, account, QOS, node size or time limit.
    """
    if shutil.which("sbatch") is None:
        raise NoAnswer("sbatch was not found; --on is for a login node of a cluster with SLURM")
    rows = [line.split("|") for line in run_command("sinfo", "-a", "-h", "-e", "-o", "%R|%G|%l|%c").splitlines()]
    names = dict.fromkeys(row[0] for row in rows)
    wanted = cluster.partition.split(",")
    for name in wanted:
        if name not in names:
            raise unknown("partition", name, names)
    rows = [row for row in rows if row[0] in wanted]
    partition = f"partition {cluster.partition}"
    kinds = ", ".join(dict.fromkeys(row[1] for row in rows if "gpu" in row[1]))
    wanted_kind = str(cluster.gpus_per_job).rpartition(":")[0]
    if cluster.gpus and f"gpu:{wanted_kind}:".replace("::", ":") not in f"{kinds}:":
        found = f"the GPUs {kinds}" if kinds else "no GPUs"
        raise InputError(f"{partition} has {found} (sinfo -o %G), gpus_per_job asks for {cluster.gpus_per_job}")
    limit = max((parse_minutes(row[2]) for row in rows), default=float("inf"))
    if cluster.time_minutes > limit:
        raise InputError(f"{partition} allows {limit:.0f} minutes a job, time_minutes asks for {cluster.time_minutes}")
    most = max((leading_number(row[3]) for row in rows), default=0)
    if most and cluster.cpus_per_job > most:
        raise InputError(f"the largest node of {partition} has {most} CPUs, cpus_per_job asks for {cluster.cpus_per_job}")
    if cluster.account:
        accounts = try_command("sacctmgr", "-nP", "show", "assoc", f"user={current_user()}", "format=Account").split()
        if accounts and cluster.account not in accounts:
            raise unknown("account", cluster.account, dict.fromkeys(accounts))  # one for each partition
    if cluster.qos:
        known = try_command("sacctmgr", "-nP", "show", "qos", "format=Name").split()
        if known and cluster.qos not in known:
            raise unknown("QOS", cluster.qos, known)


def leading_number(text: str) -> int:
    """``64+`` → 64."""
    digits = re.match(r"\d+", text)
    return int(digits.group()) if digits else 0


def parse_minutes(text: str) -> float:
    """Parse SLURM's format ``days-hours:minutes:seconds``, with leading parts optional, or ``infinite``."""
    if not re.fullmatch(r"(\d+-)?[\d:]+", text):
        return float("inf")
    days, _, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if days:
        parts += [0] * (3 - len(parts))
    hours, mins, seconds = [0] * (3 - len(parts)) + parts
    return int(days or 0) * 1440 + hours * 60 + mins + seconds / 60


def job_limits(cluster: Cluster) -> tuple[int, int | None]:
    """Jobs in the largest array, and jobs of this user in the queue; None without such a limit."""
    config = re.search(r"MaxArraySize\s*=\s*(\d+)", try_command("scontrol", "show", "config"))
    columns = "format=DefaultAccount,Account,MaxSubmit"
    rows = try_command("sacctmgr", "-nP", "show", "user", current_user(), "withassoc", columns).splitlines()
    limits = [most for default, account, most in (row.split("|") for row in rows) if account == (cluster.account or default)]
    if cluster.qos:
        limits += try_command("sacctmgr", "-nP", "show", "qos", cluster.qos, "format=MaxSubmitPU").split()
    allowed = [int(word) for word in limits if word.isdigit()] + ([cluster.max_jobs] if cluster.max_jobs else [])
    return max(1, int(config.group(1))) if config else DEFAULT_MAX_ARRAY, min(allowed, default=None)


def queued_jobs(users: Iterable[str]) -> dict[str, tuple[str, JobInfo]]:
    """Jobs of these users that wait or run: id → name and job.

    Raises:
        InputError: SLURM does not answer.
    """
    jobs = {}
    # -a: in hidden partitions too. The name comes last because it may contain anything.
    command = ["squeue", "-a", "-h", "-r", "-u", ",".join(sorted(set(users))), "-o", "%i|%T|%r|%N|%L|%u|%j"]
    for line in run_command(*command).splitlines():
        id, state, reason, node, left, owner, name = line.split("|", 6)
        jobs[id] = (name, JobInfo(id, state, reason, node, left, owner))
    return jobs


def accounted_jobs(ids: Sequence[str]) -> dict[str, JobInfo] | None:
    """Jobs of these arrays by id, from the accounting; None if the site has none.

    Members of an array that never started are one job, with the array's id. A requeued job has a line for each start: times add
    up, the state is that of the last.
    """
    if not ids:
        return {}
    columns = "JobID,State,ExitCode,ElapsedRaw,NodeList,AllocTRES"
    try:
        text = run_command("sacct", "-n", "-X", "-P", "-D", "-j", ",".join(ids), "-o", columns)
    except InputError:
        return None
    jobs: dict[str, JobInfo] = {}
    for line in text.splitlines():
        id, state, code, elapsed, node, tres = line.split("|")
        if "[" in id:
            id = id.split("_")[0]  # all members that have not started, or were cancelled before: one line of ``77_[2-5]``
        before = jobs.get(id, JobInfo(id, ""))  # a line of a job that waits again has no resources
        resources = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
        jobs[id] = JobInfo(
            id,
            state.split()[0],
            reason=state,
            node=node,
            exit_code=int(code.split(":")[0] or 0),
            seconds=before.seconds + int(elapsed or 0),
            gpus=int(resources.get("gres/gpu", before.gpus)),
            cpus=int(resources.get("cpu", before.cpus)),
        )
    return jobs


def own_job_id() -> str:
    """Id of the job this process runs in. Not ``SLURM_JOB_ID``: in the last member of an array it is the id of the array."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def still_wanted(id: str) -> bool | None:
    """Whether a job that received a signal was preempted rather than cancelled; None if the controller does not answer.

    tests/slurm/test_signals.py shows what the controller reports in either case.
    """
    if not (answer := try_command("scontrol", "show", "job", id)):
        return None
    return bool(re.search(r"PreemptTime=\d", answer) or re.search(r"JobState=(RUNNING|SIGNALING)", answer))


def requeue_job(id: str) -> bool:
    """Put a job back into the queue. Returns whether that succeeded."""
    try:
        run_command("scontrol", "requeue", id)
    except InputError:
        return False
    return True


def cancel_jobs(ids: Sequence[str]) -> None:
    run_command("scancel", *ids)
