"""The cluster as an executor of ``bench``'s grid: submits what no job has yet, then watches as the local pool does."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.events import Event
from bench.progress import clock, say
from bench.runs import Run
from bench.worker import summary
from tasks import InputError

from . import site
from .cluster import Cluster
from .estimate import Estimate
from .launch import check_sources, launch, plans
from .records import home
from .states import Queue, Status
from .submit import script

ASK_SLURM_EVERY_S = 20.0
"""Files are looked at more often than that; SLURM's controller serves a whole site."""
BELIEVE_AFTER_S = 90.0
"""A job is over and its result not there: on a network file system the one can be seen up to a minute before the other."""
SENDS = 5
"""How often a run is sent again whose job was lost by no fault of its own."""


@dataclass
class SlurmExecutor:
    """See ``bench.events.Executor``.

    Arguments:
        watch: stay until the runs are over; otherwise return once they are in the queue.
        look_every_s: seconds between two looks at the shared folder.
    """

    cluster: Cluster
    watch: bool = True
    look_every_s: float = 3.0

    def execute(self, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]) -> None:
        """See ``Executor``. Ctrl-C leaves the jobs alone."""
        check_sources(runs, self.cluster)
        site.check(self.cluster)
        watch = Watch(self.cluster, runs, out, tell)
        watch.send(runs)
        if self.watch:
            watch.until_over(self.look_every_s)
        elif watch.held:
            say("nobody watches them: ask again when there is room")


class Watch:
    """Sends runs to the cluster, and tells what becomes of them, from the shared folder and from SLURM."""

    def __init__(self, cluster: Cluster, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]):
        self.cluster, self.out, self.tell = cluster, out, tell
        self.left = dict.fromkeys(runs)
        self.suite = runs[0].suite.name
        self.held: dict[Run, None] = {}
        """Runs that are to be sent."""
        self.sent: Counter[Run] = Counter()
        self.started: set[Run] = set()
        self.gone: dict[Run, float] = {}
        """When runs were first seen without a job."""
        self.asked = self.tried = 0.0
        self.waits = ""
        self.queue: Queue | None = None

    def send(self, runs: Sequence[Run]) -> None:
        """Submit runs, and say so."""
        launched = launch(runs, self.out, self.cluster)
        if launched.already:
            say(f"{launched.already} runs are in the queue already, or running")
        if launched.new:
            count, ids = sum(len(s.plan.runs) for s in launched.new), ", ".join(str(s.job) for s in launched.new)
            say(f"{count} runs submitted in {launched.jobs} jobs: {ids}")
        if launched.held and set(launched.held) != set(self.held):
            say(f"{len(launched.held)} runs wait outside: {launched.why}")
        self.held = dict.fromkeys(launched.held)
        self.sent.update(run for run in runs if run not in self.held)
        self.tried, self.queue = time.monotonic(), None

    def until_over(self, look_every_s: float) -> None:
        while self.left:
            try:
                self.look()
                if self.held and time.monotonic() - self.tried > ASK_SLURM_EVERY_S:
                    self.send(list(self.held))
            except InputError as error:
                say(f"{error}; the jobs go on, and this watch too")
                time.sleep(ASK_SLURM_EVERY_S)
            if self.left:
                time.sleep(look_every_s)

    def look(self) -> None:
        """One look at every run that is not over; those that are held back have no job, and nothing is wrong with that."""
        if self.queue is None or time.monotonic() - self.asked > ASK_SLURM_EVERY_S:
            self.queue, self.asked = Queue.read(self.out, self.suite), time.monotonic()
            self.say_why_it_waits(self.queue)
        for run in [run for run in self.left if run not in self.held]:
            self.hear(run, self.queue.status(run, self.out), self.queue)

    def say_why_it_waits(self, queue: Queue) -> None:
        """SLURM's reasons, when they change: some of them wait for somebody to act."""
        waits = Counter(info.reason for _, info in queue.live.values() if info.state == "PENDING")
        text = ", ".join(f"{count} for {reason}" for reason, count in sorted(waits.items()) if reason not in ("None", ""))
        reasons = ", ".join(sorted(waits))
        if text and reasons != self.waits:
            say(f"jobs wait: {text}")
        self.waits = reasons

    def hear(self, run: Run, status: Status, queue: Queue) -> None:
        """Tell what there is to tell of one run."""
        if status.state in ("done", "diverged"):
            result = run.result(self.out)
            assert result is not None
            self.over(Event("finished", run, result.steps, summary(result)))
        elif status.state == "failed":
            self.over(Event("failed", run, text=status.reason))
        elif status.state == "running" and status.job:
            if run not in self.started:
                self.started.add(run)
                self.tell(Event("started", run, status.step))
            self.tell(Event("step", run, status.step))
        if status.state == "queued" or status.job in queue.live:
            self.gone.pop(run, None)
        elif run in self.left:
            self.without_job(run, status, queue)

    def without_job(self, run: Run, status: Status, queue: Queue) -> None:
        """A run that is not over and that no job has: once that is certain, it is sent again or given up."""
        since = self.gone.setdefault(run, time.monotonic())
        # What SLURM gives a reason for is certain as soon as it was asked anew, after the run was missed.
        if time.monotonic() - since < (0 if status.reason and self.asked > since else BELIEVE_AFTER_S):
            return
        del self.gone[run]
        if status.state == "running":
            self.over(Event("elsewhere", run))
        elif queue.worth_another(status.job) and self.sent[run] < SENDS:
            say(f"{run} lost its job and is sent again{f': {status.reason}' if status.reason else ''}")
            self.held[run] = None
        else:
            self.over(Event("lost", run, text=status.reason or "its jobs ended without it; see lprime logs"))

    def over(self, event: Event) -> None:
        del self.left[event.run]
        self.tell(event)


def dry_run(runs: Sequence[Run], out: Path, cluster: Cluster) -> list[str]:
    """What would be submitted, in lines to print: the script, the jobs, the price. Nothing is written."""
    check_sources(runs, cluster)
    taken = Queue.read(out, runs[0].suite.name, need=False).taken() if home(out, runs[0].suite.name).exists() else set()
    todo = [run for run in runs if run.key not in taken]
    if not todo:
        return [f"nothing to submit: all {len(runs)} runs are in the queue already"]
    if here := shutil.which("sbatch") is not None:
        site.check(cluster)
    in_queue = len(site.queued([site.user()])) if here else 0
    made, held = plans(todo, out, cluster, in_queue)
    if not made:
        return ["nothing to submit now: the site lets no more jobs of yours into the queue"]
    estimate = Estimate(runs[0].suite, out, cluster.device)
    each = [estimate.seconds(run) for run in todo]
    hours = sum(each) / 3600
    jobs = sum(len(plan.shares) for plan in made)
    price = f"{hours / cluster.at_once * cluster.gpus_per_job:.1f} GPU-hours, " if cluster.gpus_per_job else ""
    price += f"{hours / cluster.at_once * cluster.cpus_per_job:.1f} CPU-hours"
    basis = "guessed from the arithmetic" if estimate.guessed else "from finished runs of the same tasks"
    longest = max(sum(each[place] for place in share) for share in shares_of(made)) / cluster.at_once
    return [
        script(made[0], home(out, runs[0].suite.name) / made[0].token),
        f"{len(todo) - len(held)} runs in {jobs} jobs, {len(made)} array{'s' if len(made) > 1 else ''} "
        f"of at most {max(len(plan.shares) for plan in made)}{f'; {len(held)} runs later' if held else ''}",
        f"{cluster.at_once} runs at a time in a job; a run takes {span(min(each))} to {span(max(each))} ({basis})",
        f"about {price}; the longest job about {span(longest)}",
        *([] if here else ["no SLURM here: the cluster's names and limits were not checked"]),
    ]


def span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else clock(seconds)


def shares_of(made: Sequence) -> list[list[int]]:
    """Shares of all plans, with places counted over all of them."""
    found, start = [], 0
    for plan in made:
        found += [[start + place for place in share] for share in plan.shares]
        start += len(plan.runs)
    return found
