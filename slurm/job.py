"""What one job does on its node: its share of the runs, several at a time.

Checkpoints and results are the truth; the pickle that brings a job here holds a path and nothing else. A job that was requeued,
doubled or brought back starts by looking.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from bench.events import Event
from bench.pool import LocalPool
from bench.progress import PlainProgress, say
from bench.runs import Run, locked
from tasks import InputError

from . import site
from .records import Beat, Plan, Progress, Submission

UNSAVED, NO_GPU, NOT_SHARED, NOT_IMPORTABLE, NOWHERE = 95, 96, 97, 98, 99
EXITS = {
    94: "NVIDIA's Multi-Process Service does not start on the node: set mps to false",
    UNSAVED: "runs could not be saved: is the shared disk full?",
    NO_GPU: "torch sees fewer GPUs on the node than the cluster file asks for",
    NOT_SHARED: "the results folder is not seen by the node: is it on a shared file system?",
    NOT_IMPORTABLE: "the node's python cannot load lprime: see setup and python in the cluster file",
    NOWHERE: "started again and again without one training step: is the time limit too short, or is it preempted at once?",
}
"""What a job's exit code means."""
ENDING = (signal.SIGTERM, signal.SIGUSR2)
"""Preempted, cancelled; or the time limit is near, as ``--signal`` has it told."""
SAVE_WITHIN_S = 30.0
BEAT_EVERY_S = 5.0
LOOK_AGAIN_S = 10.0
"""A run of this share that another process is at is looked at again after this time."""
LOOKS = 60
"""… and left to the other after so many looks: a node that does nothing is somebody else's."""
IDLE_STARTS = 10
"""Starts without one training step after which a job gives up, instead of being requeued for ever."""


class Share:
    """The callable that submitit carries to a node; which share it is, SLURM tells it there."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self) -> None:
        code = Worker(Submission(Path(self.folder)), int(os.environ.get("SLURM_ARRAY_TASK_ID", 0))).work()
        if code:
            sys.exit(code)

    def checkpoint(self) -> object:
        """submitit asks for this, and requeues the job, where it is to end before ``Worker`` has begun to listen."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(Share(self.folder))


class Worker:
    """A job at work."""

    def __init__(self, submission: Submission, share: int):
        self.submission, self.share = submission, share
        self.plan: Plan = submission.plan
        self.out = Path(self.plan.out)
        self.places = {self.plan.run(place): place for place in self.plan.shares[share]}
        cluster = self.plan.cluster
        self.pool = LocalPool(
            workers=cluster.at_once,
            threads=1,
            device=cluster.device,
            checkpoint_every_s=cluster.checkpoint_every_s,
            stop_within_s=SAVE_WITHIN_S,
            order=self.plan.order,
        )
        before = submission.progress(share)
        self.starts = before.starts + 1 if before else 1
        self.idle_starts = before.idle_starts + 1 if before else 1
        self.beats: dict[Run, tuple[int, float, int, float]] = {}
        """By run: first step told and when, last step told and when."""
        self.beaten = 0.0

    def work(self) -> int:
        """All of the share; the exit code."""
        for number in ENDING:
            signal.signal(number, self.on_end)
        if self.idle_starts > IDLE_STARTS:
            return self.stop(NOWHERE)
        if gpus := self.plan.cluster.gpus_per_job:
            found = visible_gpus(self.plan.cluster.mps)
            if len(found) < gpus:
                return self.stop(NO_GPU)
            self.pool.gpus = found
        self.beat()
        looks = 0
        while todo := self.unfinished():
            free = [run for run in todo if not locked(run.folder(self.out))]
            progress = PlainProgress(free)
            if free:
                say(f"{len(free)} of {len(self.places)} runs of this job to do, start {self.starts} on {platform.node()}")
                self.pool.execute(free, self.out, self.hear(progress))
            unsaved = [event.run for event in progress.tally.failed if not self.plan.failed(self.places[event.run])]
            if unsaved:
                return self.stop(UNSAVED)
            if left := self.unfinished():
                if looks == LOOKS:
                    say(f"another process is still at {', '.join(map(str, left))}: left to it")
                    break
                looks += 1
                time.sleep(LOOK_AGAIN_S)
        self.beat()
        return 0

    def unfinished(self) -> list[Run]:
        """Runs of the share that have neither a result nor a failure of this submission."""
        return [run for run, place in self.places.items() if not run.result(self.out) and not self.plan.failed(place)]

    def hear(self, progress: PlainProgress) -> Callable[[Event], None]:
        """Tells what happens to the log, and now and then to the shared folder."""

        def tell(event: Event) -> None:
            progress.tell(event)
            now = time.monotonic()
            if event.kind == "step":
                if event.run not in self.beats:
                    say(f"{event.run}: at step {event.step}")
                first, since, *_ = self.beats.get(event.run, (event.step, now, 0, 0.0))
                self.beats[event.run] = (first, since, event.step, now)
                if event.step > first:
                    self.idle_starts = 0
            elif event.kind != "started":
                self.beats.pop(event.run, None)
                self.idle_starts = 0
            if now - self.beaten > BEAT_EVERY_S:
                self.beat()

        return tell

    def beat(self) -> None:
        """Say how far this job is. That it cannot be said stops nothing."""
        self.beaten = time.monotonic()
        beats = [
            Beat(run=(run.task, run.encoding, run.seed), step=step, rate=(step - first) / max(1e-9, then - since))
            for run, (first, since, step, then) in self.beats.items()
        ]
        progress = Progress(
            job=self.submission.job_of(self.share),
            node=os.environ.get("SLURMD_NODENAME", platform.node()),
            starts=self.starts,
            idle_starts=self.idle_starts,
            at=time.time(),
            beats=beats,
        )
        try:
            self.submission.write_progress(self.share, progress)
        except InputError as error:
            say(f"progress is not told: {error}")

    def stop(self, code: int) -> int:
        say(f"stopped: {EXITS[code]}")
        return code

    def on_end(self, number: int, frame: FrameType | None) -> None:
        """Save; then, if the job is still wanted, back into the queue by itself, which frees the node at once.

        SLURM gives a preempted job some time, then kills and requeues it; one that ended by itself meanwhile is not requeued.
        So where putting it back fails, nothing is left but to wait for the end.
        """
        for other in ENDING:
            signal.signal(other, signal.SIG_IGN)  # SLURM says it again when a job is requeued
        self.beat()
        self.pool.stop()
        id, why = site.own_id(), "the time limit is near" if number == signal.SIGUSR2 else "preempted"
        wanted = site.wanted(id)
        if wanted is False:
            say("cancelled: saved")
            sys.exit(128 + number)
        if wanted and site.requeue(id):
            say(f"{why}: saved, and back into the queue")
            sys.exit(128 + number)
        say(f"{why}: saved, waiting for the end")
        while True:
            time.sleep(60)


def visible_gpus(by_uuid: bool) -> list[str]:
    """CUDA devices that torch sees, under the names by which a process is held to one of them.

    Arguments:
        by_uuid: NVIDIA's Multi-Process Service counts devices anew, so that their numbers mean nothing to its clients.
    """
    import torch

    count = torch.cuda.device_count()
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = given[:count] if len(given) >= count else [str(index) for index in range(count)]
    if by_uuid and names:
        command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader", "-i", ",".join(names)]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return names
