"""The local executor: worker processes that stay alive from run to run, so that imports are paid once each."""

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tasks import InputError

from .events import Event
from .runs import Run
from .worker import Order, main

MALLOC = ":".join(
    f"glibc.malloc.{key}={value}"
    for key, value in {"hugetlb": 1, "mmap_threshold": 2**25, "trim_threshold": 2**32, "top_pad": 2**26}.items()
)
"""Keep memory from one step to the next, in huge pages: a step of a small model writes some 20 MB in thousands of pieces, and
new pages and page tables take 5 to 10 % of its time. Linux alone reads it."""
HELD_BACK = {signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2}
"""Signals that reach every process of a terminal or of a cluster's job. Workers inherit them blocked and hear of them from us
alone, even while they import."""


@dataclass
class Slot:
    """One worker process and the run it was given."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection
    run: Run | None = None
    ready: bool = False
    gpu: str = ""


@dataclass
class LocalPool:
    """As many runs at a time as there are workers, one thread each: faster than several threads within a run.

    Arguments:
        workers: processes; by default as many as there are cores for us.
        threads: torch threads of each.
        checkpoint_every_s: seconds between two checkpoints of a run.
        stop_within_s: workers that were told to stop have this long to save; then they are killed, and their runs go on from
            their last checkpoint.
        gpus: CUDA devices to spread the workers over, each worker seeing one; by default all see what this process sees.
        order: what a worker is handed for a run.
    """

    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    threads: int = 1
    device: str = "auto"
    checkpoint_every_s: float = 10.0
    stop_within_s: float = 1.5
    gpus: Sequence[str] = ()
    order: Callable[[Run], Order] = Order.of
    pool: list[Slot] = field(default_factory=list, init=False)

    def execute(self, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]) -> None:
        """See ``Executor``."""
        queue, pool = deque(runs), self.pool
        try:
            while queue or any(slot.run for slot in pool):
                while queue and len(pool) < min(self.workers, len(queue) + sum(slot.run is not None for slot in pool)):
                    self.start(out)
                for slot in pool:
                    if queue and slot.ready and slot.run is None:
                        self.give(slot, queue, tell)
                ready = wait([slot.pipe for slot in pool] + [slot.process.sentinel for slot in pool], timeout=1.0)
                for slot in list(pool):
                    if slot.pipe in ready:
                        self.hear(slot, tell)
                    if slot.process.sentinel in ready and not slot.process.is_alive():
                        pool.remove(slot)
                        self.bury(slot, queue, out, tell)
        finally:
            self.stop()

    def start(self, out: Path) -> None:
        """A new worker process, at the end of the pool."""
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        arguments = (theirs, str(out), self.threads, self.device, self.checkpoint_every_s)
        slot = Slot(context.Process(target=main, args=arguments, daemon=True), ours)
        # The number of threads must be in the environment before numpy and torch load.
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(self.threads)
        os.environ.setdefault("GLIBC_TUNABLES", MALLOC)
        if self.gpus:  # the one with the fewest workers
            held = [other.gpu for other in self.pool]
            slot.gpu = os.environ["CUDA_VISIBLE_DEVICES"] = min(self.gpus, key=held.count)
        resource_tracker.ensure_running()  # the first start would do it, and unblock the signals again
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            slot.process.start()
            theirs.close()
            self.pool.append(slot)
        finally:  # what came meanwhile comes now, with the new one in the pool
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)

    def give(self, slot: Slot, queue: deque[Run], tell: Callable[[Event], None]) -> None:
        """Hand the next run to an idle worker."""
        try:
            slot.pipe.send(self.order(queue[0]))
        except OSError:
            return  # it died while idle: its end is seen in a moment, and another takes the run
        slot.run = queue.popleft()
        tell(Event("started", slot.run))

    def hear(self, slot: Slot, tell: Callable[[Event], None]) -> None:
        """Everything a worker has said since the last time."""
        try:
            while slot.pipe.poll():
                kind, step, text = slot.pipe.recv()
                if kind == "ready":
                    slot.ready = True
                    continue
                assert slot.run is not None
                tell(Event(kind, slot.run, step, text))
                if kind != "step":
                    slot.run = None
        except (EOFError, ConnectionError):
            slot.process.join(1)  # its death is seen by the caller

    def bury(self, slot: Slot, queue: deque[Run], out: Path, tell: Callable[[Event], None]) -> None:
        """A worker died: whatever it was at has failed, unless it was told to stop, by whomever, and saved its run."""
        code = slot.process.exitcode or 0
        if slot.run and code == 0:
            queue.appendleft(slot.run)
            return
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if slot.run is None and slot.ready:
            return  # idle, killed from outside: another takes its place
        if slot.run is None:
            raise InputError(f"a worker process ended with {reason} before it could begin; its message stands above")
        error = f"its worker process died ({reason}{', out of memory?' if code == -signal.SIGKILL else ''})"
        try:
            slot.run.fail(out, error)
        except InputError as unwritable:
            error = f"{error}; {unwritable}"
        tell(Event("failed", slot.run, text=error))

    def stop(self) -> None:
        """End all workers; those at work save themselves first."""
        pool = list(self.pool)
        self.pool.clear()
        for slot in pool:
            slot.process.terminate()
        deadline = time.monotonic() + self.stop_within_s
        for slot in pool:
            slot.process.join(max(0.0, deadline - time.monotonic()))
            if slot.process.is_alive():
                slot.process.kill()
                slot.process.join()
            slot.pipe.close()
