"""The executor for SLURM: submits the runs that are in no job yet, then reports their progress."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.runs.estimate import duration, estimate, time_of_a_run
from bench.runs.progress import Event, format_duration, say
from bench.runs.run import FINISHED, Run
from bench.runs.shared_training import group_by_training, shared_trainings
from bench.runs.worker import Source, summarize_result
from bench.sealed.sandbox import SealedCode
from tasks import InputError, plural

from .cluster import Cluster
from .commands import max_array_size
from .records import Plan
from .status import Queue
from .submit import job_script, log_options, split_into_shares, submit

POLL_EVERY_S = 3.0
"""Seconds between two reads of the shared folder."""
ASK_SLURM_EVERY_S = 20.0
"""Files are read more often; SLURM's controller serves a whole site."""
LOST_AFTER_S = 90.0
"""Seconds after which a run without a result and without a job counts as lost: on a network file system a result can appear a
minute after its job has ended."""


@dataclass
class SlurmExecutor:
    """See ``bench.runs.pool.LocalPool``.

    Arguments:
        watch: stay until all runs have ended; otherwise return once they are in the queue.
        keep_weights: whether all runs keep their weights, and not only those whose training others share.
        sealed: submitted code, whose encoding all runs are of. It is not loaded here.
    """

    cluster: Cluster
    watch: bool = True
    keep_weights: bool = False
    sealed: SealedCode | None = None

    def dry_run(self, runs: Sequence[Run], out: Path) -> list[str]:
        """What ``execute`` would submit: script, jobs and estimated cost, as lines of text. Nothing is written."""
        todo, plan = self.plan(runs, out, Queue.read(out, runs[0].suite, need=False))
        if plan is None:
            return [f"nothing to submit: {plural(len(runs), 'run')} in the queue already"]
        cluster, found = plan.cluster, estimate(todo, out, plan.cluster.device)
        at_once = cluster.at_once if cluster.gpus else min(cluster.at_once, cluster.cpus_per_job)  # more would take turns
        jobs = [duration([found[run] for run in plan.runs(share)], at_once) for share in range(len(plan.shares))]
        hours = max(sum(jobs) / 3600, 0.01)  # no estimate is finer
        gpus = f"{hours * cluster.gpus:.2f} GPU-hours, " if cluster.gpus else ""
        return [
            job_script(plan),
            f"submitted by: sbatch {shlex.join(log_options(plan))}",
            f"{plural(len(todo), 'run')} in {plural(len(jobs), 'job')}",
            f"{plural(cluster.at_once, 'run')} at a time in a job; {time_of_a_run(found)}",
            f"about {gpus}{hours * cluster.cpus_per_job:.2f} CPU-hours; the longest job about {format_duration(max(jobs))}",
        ]

    def execute(self, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
        """See ``LocalPool.execute``. Ctrl-C does not affect the jobs.

        Arguments:
            runs: of one suite.

        Raises:
            InputError: SLURM does not answer, refuses the jobs, or has jobs of another version of this suite.
        """
        todo, plan = self.plan(runs, out, Queue.read(out, runs[0].suite))
        if already := len(runs) - len(todo):
            say(f"{plural(already, 'run')} in the queue already, or running")
        if plan:
            say(f"{plural(len(todo), 'run')} submitted in {plural(len(plan.shares), 'job')}: {submit(plan)}")
        if self.watch:
            follow(runs, out, on_event)

    def plan(self, runs: Sequence[Run], out: Path, queue: Queue) -> tuple[Sequence[Run], Plan | None]:
        """The runs that are in no job yet, and their plan; None if there are no such runs. Writes nothing.

        Raises:
            InputError: jobs in the queue train the suite as it was before its file was edited, or are as many as may be.
        """
        live, suite = {name for name, _ in queue.live}, queue.suite
        cluster = self.cluster.packed(suite.model.width)
        if old := [plan for plan in queue.plans if plan.name in live and plan.suite.fingerprint != suite.fingerprint]:
            raise InputError(
                f"jobs {', '.join(plan.name for plan in old)} in the queue are of suite {suite.name} with fingerprint "
                f"{old[0].suite.fingerprint}, the suite now has {suite.fingerprint}; cancel them with scancel --name first, "
                "or keep the two apart with another --out"
            )
        taken = queue.taken(out)
        todo = group_by_training([run for run in runs if run.key not in taken])  # most runs of one training are in one job
        if not todo:
            return todo, None
        most = max_array_size()
        if cluster.max_jobs and (most := min(most, cluster.max_jobs - len(queue.live))) < 1:
            raise InputError(f"the queue has {plural(len(queue.live), 'job')} of max_jobs: {cluster.max_jobs}; run again later")
        shares = split_into_shares(todo, cluster, estimate(todo, out, cluster.device), most)
        encodings = dict.fromkeys(run.encoding for run in todo)
        shared = shared_trainings(encodings)
        return todo, Plan(
            token=datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f"),
            out=str(out.resolve()),
            suite=suite,
            cluster=cluster,
            sources={} if self.sealed else {name: Source.of(name) for name in encodings},
            sealed=self.sealed,
            shares=[[run.key for run in share] for share in shares],
            keep_weights=[name for name in encodings if self.keep_weights or name in shared],
        )


def follow(runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
    """Report the progress of submitted runs, from the shared folder and SLURM's answers, until all have ended."""
    running, lost_since = dict.fromkeys(runs), dict[Run, float]()
    queue, said = None, ""
    while running:
        began = time.monotonic()
        try:
            if queue is None or time.monotonic() - queue.asked > ASK_SLURM_EVERY_S:
                queue = Queue.read(out, runs[0].suite)
            for run in list(running):
                if event := event_of(run, queue, out, lost_since):
                    if event.ends:
                        running.pop(run)
                    on_event(event)
            said = ""
        except InputError as error:
            if said != (said := str(error)):
                say(f"{said}; jobs and this command continue")
        if running:
            took = time.monotonic() - began  # reading the files of thousands of runs loads the shared folder
            time.sleep(ASK_SLURM_EVERY_S if said else max(POLL_EVERY_S, 5 * took))


def event_of(run: Run, queue: Queue, out: Path, lost_since: dict[Run, float]) -> Event | None:
    """What has become of a run that had not ended; None if that is not known yet.

    Arguments:
        lost_since: time since which a run has no job, or a result that cannot be read.
    """
    status = queue.status(run, out)
    if status.state in FINISHED:
        result = run.result(out)
        assert result is not None
        return Event("finished", run, result.steps, summarize_result(result))
    if status.state == "failed":
        return Event("failed", run, text=status.reason)
    if queue.job(run):
        lost_since.pop(run, None)
        return Event("step", run, status.heartbeat.step) if status.heartbeat else None
    since = lost_since.setdefault(run, time.monotonic())
    # The loss is certain once SLURM, asked after the job disappeared, has a reason. A network file system may fail to read
    # a result for a moment.
    certain = status.reason and status.state != "unreadable" and queue.asked > since
    if not certain and time.monotonic() - since <= LOST_AFTER_S:
        return None
    if status.state == "running":
        return Event("locked", run)
    return Event("lost", run, text=status.reason or "its job ended without a result; see its log")
