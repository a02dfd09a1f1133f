"""A worker process of the local pool: executes the runs it receives through a pipe, one after the other.

It sends ``("ready", 0, "")`` once its imports are done. For every run it sends any number of ``("step", step, "")``, and at the
end one of ``finished``, ``failed`` and ``locked``. When the pool dies, the worker saves its run and ends.
"""

import math
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean

from bench.files import NotWritten
from bench.result import Result
from bench.suites.suite import Suite
from tasks import InputError, printable

from .run import Run
from .run_lock import LockedElsewhere

STOPPED = 75
"""Exit code of a worker that ends on purpose, with its run saved or not begun (``EX_TEMPFAIL``). Not 0, since code of a
plugin may end the process with 0 too."""


def end_with_parent() -> None:
    """Initialise a worker of an executor: it ends when its parent process does, even if that is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a worker process"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class RunRequest:
    """A run as plain data, to be sent to another process."""

    suite: str
    """The suite as JSON."""
    task: str
    encoding: str
    seed: int
    learning_rate: float | None = None
    plugins: tuple[str, ...] = ()
    """References to load first, if the encoding is neither built in nor installed."""
    source: str = ""
    """Source hash of the encoding when the request was made."""
    keep_weights: bool = False
    """See ``run_one``."""

    @classmethod
    def of(cls, run: Run) -> "RunRequest":
        """The request for a run, with the references and the present source hash of its encoding."""
        from bench.plugins import registry
        from bench.plugins.source_hash import source_hash

        suite = run.suite.model_dump_json()
        try:
            encoding = registry.get_encoding(run.encoding)
        except InputError:  # the run will fail, and say why
            return cls(suite, *run.key)
        return cls(suite, *run.key, registry.references(encoding), source_hash(encoding))

    def run(self) -> Run:
        return Run(Suite.model_validate_json(self.suite), self.task, self.encoding, self.seed, self.learning_rate)

    def execute(
        self,
        out: Path,
        device: str,
        checkpoint_every_s: float,
        report: Callable[[int], None],
        should_stop: Callable[[], bool],
    ) -> Result:
        """Execute the run in this process: see ``run_one``."""
        from .run_one import run_one

        self.load_encoding()
        return run_one(self.run(), out, device, checkpoint_every_s, report, should_stop, self.keep_weights)

    def load_encoding(self) -> None:
        """Register the encoding in this process.

        Raises:
            InputError: it cannot be loaded, or its source has changed since the request was made.
        """
        from bench.plugins import registry
        from bench.plugins.source_hash import source_hash

        for reference in self.plugins:
            registry.load_reference(reference)
        source = source_hash(registry.get_encoding(self.encoding))
        if self.source and source != self.source:
            raise InputError(
                f"the source of {self.encoding} changed after this run was asked for (hash {self.source[:12]} then, "
                f"{source[:12]} now); ask again with --retry-failed to run it as it is now"
            )


class PoolConnection:
    """The worker's end of the pipe. Knows whether the worker should stop: after SIGTERM, or when the pool has died."""

    def __init__(self, pipe: Connection):
        self.pipe, self.parent = pipe, os.getppid()
        self.stop_requested, self.idle = False, True
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool handles Ctrl-C

    def on_signal(self, *_: object) -> None:
        self.stop_requested = True
        if self.idle:
            sys.exit(STOPPED)

    def should_stop(self) -> bool:
        return self.stop_requested or os.getppid() != self.parent

    def send(self, kind: str, step: int = 0, text: str = "") -> None:
        try:
            self.pipe.send((kind, step, text))
        except ConnectionError:
            self.stop_requested = True


def worker_main(pipe: Connection, out: str, device: str, checkpoint_every_s: float) -> None:
    """Entry point of the process."""
    pool = PoolConnection(pipe)
    import torch  # slow: once per worker, after the signal handler is installed

    from bench.training.cuda_graphs import Allocator
    from bench.training.train import Stopped

    from . import run_one  # noqa: F401

    torch.set_num_threads(1)
    pool.send("ready")
    while True:
        try:
            request: RunRequest = pipe.recv()
        except (EOFError, ConnectionError):
            return
        pool.idle = False
        run = request.run()
        try:
            send_step = partial(pool.send, "step")
            result = request.execute(Path(out), device, checkpoint_every_s, send_step, pool.should_stop)
            pool.send("finished", result.steps, summarize_result(result))
        except Stopped:
            sys.exit(STOPPED)
        except LockedElsewhere:
            pool.send("locked")
        except (Exception, SystemExit) as error:  # a hook that calls exit() must not look like a requested stop
            pool.send("failed", 0, report_failure(run, Path(out), error))
            if isinstance(error, RuntimeError) and "CUDA error" in str(error):
                sys.exit(STOPPED)  # every later call of CUDA in this process would fail too
        pool.idle = True
        if Allocator.broken or pool.stop_requested:
            sys.exit(STOPPED)
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # the memory of this run's evaluation, for processes that share the GPU


def report_failure(run: Run, out: Path, error: BaseException) -> str:
    """Write the run's failure report; returns the reason on one line. Without a report the run is tried again, so there is none
    if a file could not be written: that is no fault of the run."""
    reason = printable(" ".join(str(error).split()))
    if not isinstance(error, InputError):  # whose message is complete without the type
        reason = f"{type(error).__name__}{': ' if reason else ''}{reason}"
    if not isinstance(error, NotWritten):
        try:
            run.fail(out, reason, "".join(traceback.format_exception(error)))
        except NotWritten as unwritable:
            return f"{reason}; {unwritable}"
    return reason


def summarize_result(result: Result) -> str:
    """Summary of a finished run on one line."""
    if result.status == "diverged":
        return f"diverged at step {result.steps}"
    bits = result.score_is == "bits"  # of text no whole answer is ever right
    parts = (
        [s.nll or math.nan if bits else s.exact for s in part] for part in (result.in_distribution, result.out_of_distribution)
    )
    inside, past = map(fmean, parts)
    shared = f", trained as {result.trained_as}" if result.trained_as else ""
    return f"{'nats a token ' * bits}in distribution {inside:.2f}, past L {past:.2f}, {result.timings.total_s:.1f} s{shared}"
