"""The local executor: a pool of worker processes, each of which imports torch once and executes many runs."""

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tasks import InputError, plural

from .devices import available_cores, visible_gpus
from .estimate import duration, estimate, time_of_a_run
from .progress import Event, format_duration
from .run import CHECKPOINT_EVERY_S, Run
from .run_lock import read_heartbeat
from .shared_training import is_trained, shared_trainings, training_run
from .worker import STOPPED, RunRequest, worker_main

MALLOC = ":".join(
    f"glibc.malloc.{key}={value}"
    for key, value in {"hugetlb": 1, "mmap_threshold": 2**25, "trim_threshold": 2**32, "top_pad": 2**26}.items()
)
"""Keep freed memory for the next step, in huge pages: a step of a small model allocates some 20 MB in thousands of pieces, and
new pages and page tables take 5 to 10 % of its time. Linux only."""
RUNS_PER_GPU = 2
"""Workers that share a GPU unless the user says how many: one computes while the other starts or evaluates. More of them gain
nothing without NVIDIA's Multi-Process Service, see ``benchmarks/GPU.md``."""
BLOCKED_SIGNALS = {signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2}
"""Signals sent to every process of a terminal or a cluster job. Workers start with them blocked, even during imports; only
the pool reacts to them and stops its workers."""


def worker_environment() -> dict[str, str]:
    """Variables for a worker: numpy and torch read them when they are imported, the allocator when the process starts."""
    malloc = os.environ.get("GLIBC_TUNABLES", MALLOC)
    return {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLIBC_TUNABLES": malloc}


@dataclass
class Worker:
    """A worker process and the run it executes."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection
    run: Run | None = None
    ready: bool = False
    """Whether its imports are done."""
    gpu: str = ""


@dataclass
class LocalPool:
    """Executes as many runs at a time as there are workers; one thread per run is faster than several.

    Arguments:
        workers: number of processes; by default one per available core.
        device: ``auto``, ``cpu`` or ``cuda``; see ``devices.resolve_device``.
        checkpoint_every_s: seconds between checkpoints of a run.
        stop_within_s: seconds that workers have to save their runs when the pool stops; then they are killed, and their runs
            resume from their last checkpoints.
        gpus: CUDA devices to distribute the workers over, one per worker; by default all see the devices of this process.
        request: creates the request sent to a worker for a run.
        keep_weights: encodings whose runs keep their weights; by default those whose training others share.
    """

    workers: int = field(default_factory=available_cores)
    device: str = "auto"
    checkpoint_every_s: float = CHECKPOINT_EVERY_S
    stop_within_s: float = 10.0
    gpus: Sequence[str] = ()
    request: Callable[[Run], RunRequest] = RunRequest.of
    keep_weights: Collection[str] | None = None
    active: list[Worker] = field(default_factory=list, init=False)
    queue: deque[Run] = field(default_factory=deque, init=False)
    out: Path = field(default=Path("runs"), init=False)
    on_event: Callable[[Event], None] = field(default=lambda event: None, init=False)

    def dry_run(self, runs: Sequence[Run], out: Path) -> list[str]:
        """What ``execute`` would run, as lines of text; the runs are of one suite. Nothing is written."""
        found, name = estimate(runs, out, self.device), runs[0].suite.name
        total = format_duration(duration([*found.values()], self.workers))
        return [
            f"{plural(len(runs), 'run')} of suite {name} on this machine ({self.device}), results under {out / name}",
            time_of_a_run(found),
            f"about {total} with {min(self.workers, len(runs))} at a time",
        ]

    def execute(self, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
        """Execute all runs. A run that fails is reported as an event and does not stop the others.

        Raises:
            KeyboardInterrupt: the user stopped it; the state of unfinished runs has been saved.
        """
        self.queue, self.out, self.on_event, active = deque(runs), out, on_event, self.active
        keep = shared_trainings(run.encoding for run in runs) if self.keep_weights is None else self.keep_weights
        try:
            while self.queue or any(worker.run for worker in active):
                busy = sum(worker.run is not None for worker in active)
                while self.queue and len(active) < min(self.workers, len(self.queue) + busy):
                    self.start_worker()
                for worker in active:
                    if worker.ready and worker.run is None and (run := self.next_run()):
                        self.assign(worker, run, run.encoding in keep)
                ready = wait([worker.pipe for worker in active] + [worker.process.sentinel for worker in active], timeout=1.0)
                for worker in [] if ready else active:
                    if worker.run and (beat := read_heartbeat(worker.run.folder(out))):
                        on_event(Event("step", worker.run, beat.step))
                for worker in list(active):
                    self.receive(worker)  # also of a worker that has ended: its last message may be unread
                    if worker.process.sentinel in ready and not worker.process.is_alive():
                        active.remove(worker)
                        self.handle_exit(worker)
        finally:
            self.stop()

    def start_worker(self) -> None:
        """Start a worker process and append it to the pool."""
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        arguments = (theirs, str(self.out), self.device, self.checkpoint_every_s)
        worker = Worker(context.Process(target=worker_main, args=arguments, daemon=True), ours)
        variables = worker_environment()
        if self.gpus:  # the one with the fewest workers
            used = [other.gpu for other in self.active]
            worker.gpu = variables["CUDA_VISIBLE_DEVICES"] = min(self.gpus, key=used.count)
        resource_tracker.ensure_running()  # otherwise the first process start does it, and unblocks the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        before = os.environ.copy()
        os.environ.update(variables)
        try:
            worker.process.start()
            theirs.close()
            self.active.append(worker)
        finally:
            os.environ.clear()
            os.environ.update(before)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)  # pending ones arrive now, the worker is in the pool

    def next_run(self) -> Run | None:
        """The first run whose training no worker is making at present."""
        busy = [worker.run for worker in self.active if worker.run]
        in_progress = {training_run(run) for run in busy if not is_trained(run, self.out)}
        return next((run for run in self.queue if training_run(run) not in in_progress), None)

    def assign(self, worker: Worker, run: Run, keep_weights: bool) -> None:
        """Send a run of the queue to an idle worker."""
        try:
            worker.pipe.send(replace(self.request(run), keep_weights=keep_weights))
        except OSError:
            return  # it died while idle; handle_exit follows, and another worker takes the run
        self.queue.remove(run)
        worker.run = run

    def receive(self, worker: Worker) -> None:
        """Forward all pending messages of a worker as events."""
        try:
            while worker.pipe.poll():
                kind, step, text = worker.pipe.recv()
                if kind == "ready":
                    worker.ready = True
                    continue
                run, worker.run = worker.run, None
                assert run is not None
                if kind == "failed":  # without a traceback there is no report, and the run is tried again
                    text = run.fail(self.out, *text) if text[1] else text[0]
                self.on_event(Event(kind, run, step, text))
        except (EOFError, ConnectionError):
            worker.process.join(1)  # its exit is handled by the caller

    def handle_exit(self, worker: Worker) -> None:
        """Handle a worker that ended: its run failed, unless the exit code says that it is saved or was not begun."""
        code = worker.process.exitcode or 0
        if worker.run and code == STOPPED:
            self.queue.appendleft(worker.run)
            return
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if worker.run is None and worker.ready:
            return  # killed while idle: another worker replaces it
        if worker.run is None:
            raise InputError(f"a worker process ended with {reason} before its first run; see its message above")
        hint = ", out of memory?" if code == -signal.SIGKILL else ""
        error = worker.run.fail(self.out, f"its worker process died ({reason}{hint})")
        self.on_event(Event("failed", worker.run, text=error))

    def stop(self) -> None:
        """Stop all workers; busy ones save their runs first."""
        active = list(self.active)
        self.active.clear()
        for worker in active:
            (worker.process.terminate if worker.run else worker.process.kill)()  # an idle one has nothing to save
        deadline = time.monotonic() + self.stop_within_s
        for worker in active:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()


def local_pool(workers: int | None, device: str, **options) -> LocalPool:
    """A pool on this machine.

    Arguments:
        workers: by default one per core, or ``RUNS_PER_GPU`` for each GPU if ``device`` is one.
        options: further arguments of ``LocalPool``.
    """
    gpus = [] if device == "cpu" else visible_gpus()
    default = min(available_cores(), RUNS_PER_GPU * len(gpus)) if gpus else available_cores()
    return LocalPool(workers=default if workers is None else workers, device=device, gpus=gpus, **options)
