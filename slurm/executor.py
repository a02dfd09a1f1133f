"""The cluster as an executor of ``bench``'s grid: submits what no job has yet, then watches as the local pool does."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.events import Event
from bench.progress import clock, say
from bench.runs import Run
from tasks import InputError

from . import site
from .cluster import Cluster
from .estimate import Estimate
from .launch import Launched, launch, plans
from .records import home
from .states import Queue, Status
from .submit import script

ASK_SLURM_EVERY_S = 20.0
"""Files are looked at more often than that; SLURM's controller serves a whole site."""


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
        site.check(self.cluster)
        launched = launch(runs, out, self.cluster)
        self.announce(launched)
        if self.watch:
            Watch(runs, out, tell).until_over(self, launched.held)

    def announce(self, launched: Launched) -> None:
        if launched.already:
            say(f"{launched.already} runs are in the queue already, or running")
        if launched.new:
            runs, ids = sum(len(s.plan.runs) for s in launched.new), ", ".join(str(s.job) for s in launched.new)
            say(f"{runs} runs submitted in {launched.jobs} jobs: {ids}")
        if launched.held:
            say(f"{len(launched.held)} runs wait outside: the site lets no more jobs of yours into the queue")


class Watch:
    """Tells what becomes of runs on the cluster, from the shared folder and from SLURM."""

    def __init__(self, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]):
        self.left, self.out, self.tell = list(runs), out, tell
        self.suite = runs[0].suite.name
        self.started: set[Run] = set()
        self.asked = 0.0
        self.queue: Queue | None = None

    def until_over(self, executor: SlurmExecutor, held: list[Run]) -> None:
        while self.left:
            try:
                if held and time.monotonic() - self.asked > ASK_SLURM_EVERY_S:
                    held = launch(held, self.out, executor.cluster).held
                self.look(held)
            except InputError as error:
                say(f"{error}; the jobs go on, and this watch too")
                time.sleep(ASK_SLURM_EVERY_S)
            if self.left:
                time.sleep(executor.look_every_s)

    def look(self, held: Sequence[Run]) -> None:
        """One look at every run that is not over; those that are held back have no job, and nothing is wrong with it."""
        if self.queue is None or time.monotonic() - self.asked > ASK_SLURM_EVERY_S:
            self.queue, self.asked = Queue.read(self.out, self.suite), time.monotonic()
        waiting = set(held)
        for run in [run for run in self.left if run not in waiting]:
            self.hear(run, self.queue.status(run, self.out))

    def hear(self, run: Run, status: Status) -> None:
        from bench.worker import summary

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
        elif status.state in ("missing", "paused") and self.sure(run):
            self.over(Event("failed", run, text=status.reason or "its job is no longer in the queue; ask again to go on"))

    def sure(self, run: Run) -> bool:
        """Has a run no job any more? Files and SLURM were not asked at the same moment, so both are asked once more."""
        fresh = Queue.read(self.out, self.suite)
        return fresh.status(run, self.out).state in ("missing", "paused")

    def over(self, event: Event) -> None:
        self.left.remove(event.run)
        self.tell(event)


def dry_run(runs: Sequence[Run], out: Path, cluster: Cluster) -> list[str]:
    """What would be submitted, in lines to print: the script, the jobs, the price. Nothing is written."""
    taken = Queue.read(out, runs[0].suite.name, need=False).taken() if home(out, runs[0].suite.name).exists() else set()
    todo = [run for run in runs if (run.task, run.encoding, run.seed) not in taken]
    if not todo:
        return [f"nothing to submit: all {len(runs)} runs are in the queue already"]
    if here := shutil.which("sbatch") is not None:
        site.check(cluster)
    largest, most = site.limits(cluster)
    made = plans(todo, out, cluster, largest, most)
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
        f"{len(todo)} runs in {jobs} jobs, {len(made)} array{'s' if len(made) > 1 else ''} of at most {largest}",
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
