"""The local executor: worker processes that stay alive from run to run, so that imports are paid once each."""

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tasks import InputError

from .events import Event
from .runs import Run
from .worker import Order, main

STOP_WITHIN_S = 1.5
"""Workers that were told to stop have this long to save; then they are killed, and go on from their last checkpoint."""


@dataclass
class Worker:
    """One worker process and the run it was given."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection
    run: Run | None = None
    ready: bool = False


@dataclass
class LocalPool:
    """As many runs at a time as there are workers, one thread each: faster than several threads within a run.

    Arguments:
        workers: processes; by default as many as there are cores for us.
        threads: torch threads of each.
        checkpoint_every_s: seconds between two checkpoints of a run.
    """

    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    threads: int = 1
    device: str = "auto"
    checkpoint_every_s: float = 10.0

    def execute(self, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]) -> None:
        """See ``Executor``."""
        queue = deque(runs)
        pool: list[Worker] = []
        try:
            while queue or any(w.run for w in pool):
                while queue and len(pool) < min(self.workers, len(queue) + sum(w.run is not None for w in pool)):
                    pool.append(self.start(out))
                for worker in pool:
                    if queue and worker.ready and worker.run is None:
                        worker.run = queue.popleft()
                        worker.pipe.send(Order.of(worker.run))
                        tell(Event("started", worker.run))
                ready = wait([w.pipe for w in pool] + [w.process.sentinel for w in pool], timeout=1.0)
                for worker in list(pool):
                    if worker.pipe in ready:
                        self.hear(worker, tell)
                    if worker.process.sentinel in ready and not worker.process.is_alive():
                        pool.remove(worker)
                        self.bury(worker, out, tell)
        finally:
            self.stop(pool)

    def start(self, out: Path) -> Worker:
        """A new worker process."""
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        process = context.Process(
            target=main, args=(theirs, str(out), self.threads, self.device, self.checkpoint_every_s), daemon=True
        )
        # Ctrl-C reaches every process of the terminal; workers are to hear of it from us alone, even while they import.
        # The number of threads must be in the environment before numpy and torch load.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(self.threads)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        theirs.close()
        return Worker(process, ours)

    def hear(self, worker: Worker, tell: Callable[[Event], None]) -> None:
        """Everything a worker has said since the last time."""
        try:
            while worker.pipe.poll():
                kind, step, text = worker.pipe.recv()
                if kind == "ready":
                    worker.ready = True
                    continue
                assert worker.run is not None
                tell(Event(kind, worker.run, step, text))
                if kind != "step":
                    worker.run = None
        except (EOFError, ConnectionError):
            worker.process.join(1)  # its death is seen by the caller

    def bury(self, worker: Worker, out: Path, tell: Callable[[Event], None]) -> None:
        """A worker died: whatever it was at has failed."""
        code = worker.process.exitcode or 0
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if worker.run is None:
            raise InputError(f"a worker process ended with {reason} before it could begin; its message stands above")
        error = f"its worker process died ({reason}{', out of memory?' if code == -signal.SIGKILL else ''})"
        try:
            worker.run.fail(out, error)
        except InputError as unwritable:
            error = f"{error}; {unwritable}"
        tell(Event("failed", worker.run, text=error))

    def stop(self, pool: Sequence[Worker]) -> None:
        """End all workers; those at work save themselves first."""
        for worker in pool:
            worker.process.terminate()
        deadline = time.monotonic() + STOP_WITHIN_S
        for worker in pool:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
