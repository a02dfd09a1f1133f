"""Questions to SLURM on this site, and its refusals in words that say what to change."""

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
DEFAULT_ARRAY = 1001
"""SLURM's own default of ``MaxArraySize``."""

REFUSALS = {
    "Invalid account": "account {account} may not be used in partition {partition}; see `sacctmgr show assoc user=$USER`",
    "Invalid qos": "QOS {qos} may not be used with account {account} in partition {partition}",
    "invalid partition": "there is no partition {partition}; `sinfo` lists them",
    "Job violates accounting": "a limit of the site is reached: set max_jobs, or ask for less time or fewer CPUs a job",
    "SubmitJobLimit": "the site lets you have only so many jobs in the queue: set max_jobs",
    "Invalid job array": "the array is larger than the site takes: set max_jobs",
    "node configuration is not available": "no node of partition {partition} has {cpus_per_job} CPUs, {memory_gb} GB and "
    "{gpus_per_job} GPUs for one job",
    "time limit": "partition {partition} does not allow {time_minutes} minutes: lower time_minutes",
    "Unable to contact": "SLURM's controller does not answer; nothing was changed, try again later",
}
"""What sbatch says, and what it means."""


@dataclass(frozen=True)
class JobInfo:
    """What SLURM knows of one job."""

    id: str
    """``123_4``, or ``123`` for a job that is no array."""
    state: str
    """SLURM's word without what follows it: ``PENDING``, ``RUNNING``, ``CANCELLED``, …"""
    reason: str = ""
    """Why it waits, or how it ended."""
    node: str = ""
    left: str = ""
    """Time left, as squeue writes it."""
    user: str = ""
    exit_code: int = 0
    seconds: int = 0
    """Run time over all of its starts."""
    gpus: int = 0
    cpus: int = 0


def ask(*command: str) -> str:
    """A command's output.

    Raises:
        InputError: it is not there, fails, or does not answer.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise InputError(f"{command[0]} was not found; --on is for a login node of a cluster with SLURM") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} did not answer within {ANSWER_WITHIN_S} s; try again later") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        said = re.sub(r"^\w+: (error|fatal): ", "", lines[-1])
        raise InputError(f"{command[0]}: {said}")
    return done.stdout


def tries(*command: str) -> str:
    """A command's output, or nothing where it fails: for what is good to know only."""
    try:
        return ask(*command)
    except InputError:
        return ""


def user() -> str:
    """Who submits: SLURM goes by the uid, not by $LOGNAME."""
    return pwd.getpwuid(os.getuid()).pw_name


def words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip("* ") for word in text.split() if word.strip("* ")))


def refusal(message: str, cluster: Cluster) -> InputError:
    """sbatch's refusal, in words of the cluster file."""
    lines = [line.removeprefix("sbatch: error: ") for line in message.strip().splitlines()] or ["no word"]
    said = next((line for line in lines if not line.startswith("Batch job submission failed")), lines[-1])
    for fragment, meaning in REFUSALS.items():
        if fragment.lower() in message.lower():
            given = {key: "(none given)" if value is None else value for key, value in cluster.model_dump().items()}
            return InputError(f"{meaning.format(**given)} (sbatch: {said})")
    return InputError(f"sbatch refused the jobs: {said}")


def check(cluster: Cluster) -> None:
    """Ask the site whether it knows what the cluster file names, before anything is written.

    Raises:
        InputError: no SLURM here, or a partition, an account, a QOS, a size or a time that the site does not have.
    """
    if shutil.which("sbatch") is None:
        raise InputError("sbatch was not found; --on is for a login node of a cluster with SLURM")
    rows = [line.split("|") for line in ask("sinfo", "-h", "-e", "-o", "%R|%G|%l|%c").splitlines()]
    names = dict.fromkeys(row[0] for row in rows)
    wanted = cluster.partition.split(",")
    for name in wanted:
        if name not in names:
            raise unknown("partition", name, names)
    here = [row for row in rows if row[0] in wanted]
    if cluster.gpus_per_job and not any("gpu" in row[1] for row in here):
        raise InputError(
            f"partition {cluster.partition} has no GPUs (sinfo -o %G), gpus_per_job asks for {cluster.gpus_per_job}"
        )
    limit = max((minutes(row[2]) for row in here), default=float("inf"))
    if cluster.time_minutes > limit:
        asked = f"time_minutes asks for {cluster.time_minutes}"
        raise InputError(f"partition {cluster.partition} allows {limit:.0f} minutes a job, {asked}")
    most = max((number(row[3]) for row in here), default=0)
    if most and cluster.cpus_per_job > most:
        asked = f"cpus_per_job asks for {cluster.cpus_per_job}"
        raise InputError(f"the largest node of partition {cluster.partition} has {most} CPUs, {asked}")
    if cluster.account:
        accounts = words(tries("sacctmgr", "-nP", "show", "assoc", f"user={user()}", "format=Account"))
        if accounts and cluster.account not in accounts:
            raise unknown("account", cluster.account, accounts)
    if cluster.qos:
        known = words(tries("sacctmgr", "-nP", "show", "qos", "format=Name"))
        if known and cluster.qos not in known:
            raise unknown("QOS", cluster.qos, known)


def number(text: str) -> int:
    """``64+`` is 64."""
    found = re.match(r"\d+", text)
    return int(found.group()) if found else 0


def minutes(text: str) -> float:
    """SLURM's way to write a time: ``days-hours:minutes:seconds``, from the right; ``infinite``."""
    if not re.fullmatch(r"(\d+-)?[\d:]+", text):
        return float("inf")
    days, _, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if days:
        parts += [0] * (3 - len(parts))
    hours, mins, seconds = [0] * (3 - len(parts)) + parts
    return int(days or 0) * 1440 + hours * 60 + mins + seconds / 60


def limits(cluster: Cluster) -> tuple[int, int | None]:
    """The largest array, and the most jobs of ours in the queue where somebody says so."""
    config = re.search(r"MaxArraySize\s*=\s*(\d+)", tries("scontrol", "show", "config"))
    rows = tries("sacctmgr", "-nP", "show", "user", user(), "withassoc", "format=DefaultAccount,Account,MaxSubmit").splitlines()
    said = [most for default, account, most in (row.split("|") for row in rows) if account == (cluster.account or default)]
    if cluster.qos:
        said += words(tries("sacctmgr", "-nP", "show", "qos", cluster.qos, "format=MaxSubmitPU"))
    allowed = [int(word) for word in said if word.isdigit()] + ([cluster.max_jobs] if cluster.max_jobs else [])
    return max(1, int(config.group(1))) if config else DEFAULT_ARRAY, min(allowed, default=None)


def queued(users: Iterable[str]) -> dict[str, tuple[str, JobInfo]]:
    """Jobs of these users that wait or run: id → name and job.

    Raises:
        InputError: SLURM does not answer, and nothing may be concluded.
    """
    found = {}
    # The name comes last: anything may stand in it.
    for line in ask("squeue", "-h", "-r", "-u", ",".join(sorted(set(users))), "-o", "%i|%T|%r|%N|%L|%u|%j").splitlines():
        id, state, reason, node, left, owner, name = line.split("|", 6)
        found[id] = (name, JobInfo(id, state, reason, node, left, owner))
    return found


def ids_of(name: str, owner: str) -> list[str]:
    """Ids of the arrays of this name, in the queue or in the accounting."""
    live = {id.split("_")[0] for id, (found, _) in queued([owner]).items() if found == name}
    known = tries("sacct", "-n", "-X", "-P", "-S", "now-30days", "-u", owner, f"--name={name}", "-o", "JobID").split()
    return sorted(live | {id.split("_")[0] for id in known}, key=int)


def accounted(ids: Sequence[str]) -> dict[str, JobInfo] | None:
    """What the accounting says of arrays, by job; None where the site has none. Requeued jobs have a line for each start: times
    add up, the last one's end counts."""
    if not ids:
        return {}
    columns = "JobID,State,ExitCode,ElapsedRaw,NodeList,AllocTRES"
    try:
        text = ask("sacct", "-n", "-X", "-P", "-D", "-j", ",".join(ids), "-o", columns)
    except InputError:
        return None
    found: dict[str, JobInfo] = {}
    for line in text.splitlines():
        id, state, code, elapsed, node, tres = line.split("|")
        if "[" in id:
            continue  # members that have not begun
        before = found[id].seconds if id in found else 0
        resources = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
        found[id] = JobInfo(
            id,
            state.split()[0],
            reason=state,
            node=node,
            exit_code=int(code.split(":")[0] or 0),
            seconds=before + int(elapsed or 0),
            gpus=int(resources.get("gres/gpu", 0)),
            cpus=int(resources.get("cpu", 0)),
        )
    return found


def own_id() -> str:
    """Of the job that this process is. ``SLURM_JOB_ID`` would not do: for the last member of an array it means all of them."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def wanted(id: str) -> bool | None:
    """Is a job that was asked to end still wanted, preempted rather than cancelled? None where the controller does not answer.

    What it says of either at that moment is shown by tests/slurm/test_signals.py.
    """
    if not (said := tries("scontrol", "show", "job", id)):
        return None
    return bool(re.search(r"PreemptTime=\d", said) or re.search(r"JobState=(RUNNING|SIGNALING)", said))


def requeue(id: str) -> bool:
    """Put a job back into the queue; whether that was done, by us."""
    try:
        ask("scontrol", "requeue", id)
    except InputError:
        return False
    return True


def cancel(ids: Sequence[str]) -> None:
    ask("scancel", *ids)
