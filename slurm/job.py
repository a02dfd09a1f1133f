"""``python -m slurm.job FOLDER``: one job on its node. It processes its share of a submission's runs, several at a time.

The only state is in checkpoints and results. Every start, including those of requeued or duplicate jobs, begins by reading
which runs are unfinished.
"""

import os
import platform
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from bench.runs.devices import visible_gpus
from bench.runs.pool import LocalPool
from bench.runs.progress import Event, Progress, say
from bench.runs.run import FINISHED, Run
from bench.runs.run_lock import is_locked

from . import commands
from .records import Plan, read_plan

REQUEUE, NO_MPS, UNSAVED, NO_GPU, NOT_SHARED, NOT_IMPORTABLE, NOWHERE = 93, 94, 95, 96, 97, 98, 99
EXIT_REASONS = {
    REQUEUE: "saved at its time limit, but its batch script could not put it back into the queue",
    NO_MPS: "NVIDIA's Multi-Process Service does not start on the node: set mps to false",
    UNSAVED: "runs could not be saved: is the shared disk full?",
    NO_GPU: "torch sees fewer GPUs on the node than the cluster file asks for",
    NOT_SHARED: "the node does not see the results folder: is it on a shared file system?",
    NOT_IMPORTABLE: "the node's python cannot import lprime: see setup and python in the cluster file",
    NOWHERE: "made no progress until its time limit: raise time_minutes",
}
"""Exit code of a job → its meaning."""
END_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)
"""SIGTERM: preempted or cancelled; SIGUSR2: the time limit is near (sbatch's ``--signal``)."""
SAVE_WITHIN_S = 30.0
RETRY_LOCKED_S = 10.0
"""Time between two attempts to execute runs that another process has locked."""
RETRY_REQUEUE_S = 5.0
MOST_TRIES = 61
"""Attempts after which locked runs are left to the other process, to free an idle node."""
GIVE_UP_AT_START = 10
"""Start from which a job without progress until its time limit gives up; otherwise it might be requeued forever."""


class JobWorker:
    """Processes one share of a submission."""

    def __init__(self, plan: Plan, share: int):
        self.plan, self.out = plan, Path(plan.out)
        self.runs = plan.runs(share)
        self.pool = LocalPool(
            workers=plan.cluster.at_once,
            device=plan.cluster.device,
            checkpoint_every_s=plan.cluster.checkpoint_every_s,
            stop_within_s=SAVE_WITHIN_S,
            request=plan.request,
            keep_weights=plan.keep_weights,
        )
        self.start = int(os.environ.get("SLURM_RESTART_COUNT", 0)) + 1
        self.tally = Progress([])
        self.failed: set[Run] = set()
        self.first_steps: dict[Run, int] = {}
        """First step that each run reported."""
        self.progressed = False
        """Whether a run made a step or ended since this start. Sealed runs have no checkpoints: only their end is progress."""

    def run(self) -> int:
        """Process the whole share. Returns the exit code."""
        for number in END_SIGNALS:
            signal.signal(number, self.on_end_signal)
        if gpus := self.plan.cluster.gpus:
            visible = visible_gpus(self.plan.cluster.mps)
            if len(visible) < gpus:
                return self.give_up(NO_GPU)
            self.pool.gpus = visible
        for _ in range(MOST_TRIES):
            if free := [run for run in self.unfinished() if not is_locked(run.folder(self.out))]:
                say(f"{len(free)} of {len(self.runs)} runs of this job to do, start {self.start} on {platform.node()}")
                self.tally = Progress(free)
                self.pool.execute(free, self.out, self.on_event)
                if any(not run.failure(self.out) for run in self.tally.failed):
                    return self.give_up(UNSAVED)
                self.failed |= self.tally.failed.keys()
            if not (todo := self.unfinished()):
                return 0
            time.sleep(RETRY_LOCKED_S)
        say(f"another process is still working on {', '.join(map(str, todo))}: left to it")
        return 0

    def unfinished(self) -> list[Run]:
        """Runs of the share that have not ended. One whose result is damaged is among them until it fails here."""
        ended = (*FINISHED, "failed")
        return [run for run in self.runs if run not in self.failed and run.standing(self.out).state not in ended]

    def on_event(self, event: Event) -> None:
        """Log an event, and note progress."""
        self.tally.on_event(event)
        if event.ends:
            self.progressed = True
            return
        if event.run not in self.first_steps:
            say(f"{event.run}: at step {event.step}")
        first = self.first_steps[event.run] = self.first_steps.get(event.run) or event.step  # 0 while it waits or loads
        self.progressed |= event.step > first and not self.plan.sealed

    def give_up(self, code: int) -> int:
        say(f"stopped: {EXIT_REASONS[code]}")
        return code

    def on_end_signal(self, number: int, frame: FrameType | None) -> None:
        """Save the runs; then requeue the job and exit, to free the node at once. A cancelled job only exits.

        SLURM kills and requeues a preempted job after its grace time, but does not requeue one that exits before, nor one that
        reaches its time limit. So if requeueing fails, the job tries again until it is killed.
        """
        for other in END_SIGNALS:
            signal.signal(other, signal.SIG_IGN)  # SLURM signals again when a job is requeued
        self.pool.stop()
        # Not SLURM_JOB_ID: in the last member of an array it is the id of the array.
        id = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
        why = "the time limit is near" if number == signal.SIGUSR2 else "preempted"
        while True:
            wanted = commands.still_wanted(id)
            if wanted is False:
                say("cancelled: saved")
                sys.exit(128 + number)
            if number == signal.SIGUSR2 and not self.progressed and self.start >= GIVE_UP_AT_START:
                sys.exit(self.give_up(NOWHERE))
            if wanted and commands.try_command("scontrol", "requeue", id) is not None:
                say(f"{why}: saved, and back into the queue")
                sys.exit(128 + number)
            if number == signal.SIGUSR2 and shutil.which("scontrol") is None:  # in a container
                say(f"{why}: saved, the batch script puts the job back into the queue")
                sys.exit(REQUEUE)
            say(f"{why}: saved, but not back in the queue: trying again until the end")
            time.sleep(RETRY_REQUEUE_S)


if __name__ == "__main__":
    sys.exit(JobWorker(read_plan(Path(sys.argv[1])), int(os.environ["SLURM_ARRAY_TASK_ID"])).run())
