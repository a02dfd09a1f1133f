"""The executor for SLURM: submits the runs that are in no job yet, then reports their progress."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.runs.progress import Event, say
from bench.runs.run import Run
from bench.runs.worker import summarize_result
from bench.sealed.request import SealedCode
from tasks import InputError, plural

from . import commands
from .cluster import Cluster
from .dry_run import cautions, dry_run
from .records import Source
from .status import Queue, Status
from .submit import check_encoding_files, launch

ASK_SLURM_EVERY_S = 20.0
"""Files are read more often; SLURM's controller serves a whole site."""
LOST_AFTER_S = 90.0
"""Seconds after which a run without a result and without a job counts as lost: on a network file system a result can appear a
minute after its job has ended."""
MOST_SENDS = 5
"""Maximum number of submissions of a run that keeps losing its job through no fault of its own."""


@dataclass
class SlurmExecutor:
    """See ``bench.runs.progress.Executor``.

    Arguments:
        watch: stay until all runs have ended; otherwise return once they are in the queue.
        poll_every_s: seconds between two reads of the shared folder.
        keep_weights: whether all runs keep their weights.
        sources: sources of encodings that are not to be loaded here.
    """

    cluster: Cluster
    watch: bool = True
    poll_every_s: float = 3.0
    keep_weights: bool = False
    sources: Mapping[str, Source] = field(default_factory=dict)
    held: list[Run] = field(default_factory=list, init=False)
    """Runs that ``execute`` could not submit, if it did not watch."""

    @classmethod
    def of_sealed(cls, cluster: Cluster, name: str, code: SealedCode) -> "SlurmExecutor":
        """For sealed runs of one encoding."""
        return cls(cluster, sources={name: Source(plugins=[], sha256=code.encoding.source_sha256, sealed=code)})

    def dry_run(self, runs: Sequence[Run], out: Path) -> list[str]:
        """What ``execute`` would submit, as lines of text."""
        return dry_run(runs, out, self.cluster, self.sources)

    def check(self, runs: Sequence[Run], out: Path) -> None:
        """Refuse what can be refused before anything is written, and say what does not suit the runs.

        Raises:
            InputError: compute nodes would not see an encoding's file; there is no SLURM here; the cluster file names something
                that the site does not have.
        """
        check_encoding_files([run for run in runs if run.encoding not in self.sources], self.cluster)
        commands.check_cluster(self.cluster)
        for line in cautions(runs, out, self.cluster):
            say(line)

    def execute(self, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
        """See ``Executor``; call ``check`` before. Ctrl-C does not affect the jobs.

        Arguments:
            runs: of one suite.

        Raises:
            InputError: SLURM refuses the first jobs. Once there are some, runs that are refused are held.
        """
        watch = Watch(self, runs, out, on_event)
        watch.submit(runs)
        if self.watch:
            watch.until_all_ended()
        else:
            self.held = list(watch.held)


class Watch:
    """Submits runs and follows their progress, from the shared folder and SLURM's answers."""

    def __init__(self, executor: SlurmExecutor, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]):
        self.executor, self.out, self.on_event = executor, out, on_event
        self.open = dict.fromkeys(runs)
        """Runs that have not ended."""
        self.suite = runs[0].suite
        self.held: dict[Run, None] = {}
        """Runs to submit as soon as the site's limits allow."""
        self.sends: Counter[Run] = Counter()
        self.started: set[Run] = set()
        self.lost_since: dict[Run, float] = {}
        """Time since which a run has no job, or a result that cannot be read."""
        self.asked = self.submitted = 0.0
        """Times of the last query to SLURM and of the last submission."""
        self.wait_reasons: list[str] = []
        self.queue: Queue | None = None

    def submit(self, runs: Sequence[Run]) -> None:
        executor = self.executor
        launched = launch(runs, self.out, executor.cluster, executor.keep_weights, executor.sources)
        if launched.already:
            say(f"{plural(launched.already, 'run')} in the queue already, or running")
        if submissions := launched.submissions:
            count, jobs = sum(len(s.plan.runs) for s in submissions), sum(len(s.plan.shares) for s in submissions)
            say(f"{plural(count, 'run')} submitted in {plural(jobs, 'job')}: {', '.join(s.job for s in submissions)}")
        if launched.held and set(launched.held) != set(self.held):
            say(f"{plural(len(launched.held), 'run')} not yet submitted: {launched.why}")
        self.held = dict.fromkeys(launched.held)
        self.sends.update(run for run in runs if run not in self.held)
        self.submitted, self.queue = time.monotonic(), None

    def submit_held(self) -> None:
        """Submit the held runs. If SLURM refuses them and no other run is left to wait for, they are given up.

        Raises:
            InputError: not this time.
        """
        try:
            self.submit(list(self.held))
        except commands.NoAnswer:  # the controller may be down for long
            raise
        except InputError as error:
            if len(self.held) < len(self.open):
                raise
            for run in self.held:
                self.end(Event("lost", run, text=str(error)))
            self.held = {}

    def until_all_ended(self) -> None:
        said = ""
        while self.open:
            text = ""
            try:
                self.poll()
                if self.held and time.monotonic() - self.submitted > ASK_SLURM_EVERY_S:
                    self.submit_held()
            except InputError as error:
                text = str(error)
            if text and text != said:
                say(f"{text}; jobs and this command continue")
            said = text
            if self.open:
                time.sleep(ASK_SLURM_EVERY_S if text else self.executor.poll_every_s)

    def poll(self) -> None:
        """Check every open run once, except runs that are held and so have no job."""
        if self.queue is None or time.monotonic() - self.asked > ASK_SLURM_EVERY_S:
            self.queue, self.asked = Queue.read(self.out, self.suite), time.monotonic()
            self.log_wait_reasons(self.queue)
        for run in [run for run in self.open if run not in self.held]:
            self.report(run, self.queue.status(run, self.out), self.queue)

    def log_wait_reasons(self, queue: Queue) -> None:
        """Log SLURM's reasons when they change: some of them need action."""
        waits = queue.wait_reasons()
        text = ", ".join(f"{count} for {reason}" for reason, count in sorted(waits.items()))
        if text and sorted(waits) != self.wait_reasons:
            say(f"jobs wait: {text}")
        self.wait_reasons = sorted(waits)

    def report(self, run: Run, status: Status, queue: Queue) -> None:
        if status.state in ("done", "diverged"):
            result = run.result(self.out)
            assert result is not None
            self.end(Event("finished", run, result.steps, summarize_result(result)))
        elif status.state == "failed":
            self.end(Event("failed", run, text=status.reason))
        elif status.state == "running" and status.job:
            if run not in self.started:
                self.started.add(run)
                self.on_event(Event("started", run, status.step))
            self.on_event(Event("step", run, status.step))
        if status.state == "queued" or status.job in queue.live:
            self.lost_since.pop(run, None)
        elif run in self.open:
            self.handle_lost_job(run, status, queue)

    def handle_lost_job(self, run: Run, status: Status, queue: Queue) -> None:
        """Resubmit a run that lost its job, or give it up, once the loss is certain."""
        since = self.lost_since.setdefault(run, time.monotonic())
        # The loss is certain once SLURM, queried after the job disappeared, reports a reason. A network file system may fail to
        # read a result for a moment.
        certain = status.reason and status.state != "unreadable" and self.asked > since
        if time.monotonic() - since < (0 if certain else LOST_AFTER_S):
            return
        del self.lost_since[run]
        if status.state == "running":
            self.end(Event("locked", run))
        elif status.state != "unreadable" and queue.worth_resending(status.job) and self.sends[run] < MOST_SENDS:
            say(f"{run} lost its job and is submitted again{f': {status.reason}' if status.reason else ''}")
            self.held[run] = None
        else:
            self.end(Event("lost", run, text=status.reason or "its jobs ended without a result; see lprime logs"))

    def end(self, event: Event) -> None:
        self.open.pop(event.run)
        self.on_event(event)
