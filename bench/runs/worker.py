"""A worker process of the local pool: executes the runs it receives through a pipe, one after the other.

It sends ``("ready", 0, "")`` once its imports are done, and for every run one of ``finished``, ``failed`` and ``locked``. When
the pool dies, the worker saves its run and ends.
"""

import math
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.files import NotWritten
from bench.result import Record, Result
from bench.suites.suite import Suite
from tasks import InputError, find, printable

from .run import Run
from .run_lock import LockedElsewhere

STOPPED = 75
"""Exit code of a worker that ends on purpose, with its run saved or not begun (``EX_TEMPFAIL``). Not 0, since code of a
plugin may end the process with 0 too."""
IDLE_POLL_S = 0.5
"""Seconds between two looks of an idle worker at whether it should stop."""


class Source(Record):
    """How a process finds an encoding."""

    plugins: tuple[str, ...] = ()
    """References to load first, if the encoding is neither built in nor installed; with absolute paths."""
    sha256: str = ""
    """Hash of its source when its runs were asked for."""

    @classmethod
    def of(cls, encoding: str) -> "Source":
        """The source at present."""
        from bench.plugins import registry
        from bench.plugins.source_hash import source_hash

        found = registry.get_encoding(encoding)
        return cls(plugins=tuple(registry.references(found)), sha256=source_hash(found))


@dataclass(frozen=True)
class RunRequest:
    """A run as plain data, to be sent to another process."""

    suite: str
    """The suite as JSON."""
    task: str
    encoding: str
    seed: int
    learning_rate: float | None = None
    source: Source = field(default_factory=Source)
    keep_weights: bool = False
    """See ``run_one``."""

    @classmethod
    def of(cls, run: Run) -> "RunRequest":
        """The request for a run, with the present source of its encoding."""
        return cls(run.suite.model_dump_json(), *run.key, Source.of(run.encoding))

    def run(self) -> Run:
        return Run(Suite.model_validate_json(self.suite), self.task, self.encoding, self.seed, self.learning_rate)

    def execute(self, out: Path, device: str, checkpoint_every_s: float, should_stop: Callable[[], bool]) -> Result:
        """Execute the run in this process: see ``run_one``."""
        from .run_one import run_one

        run = self.run()
        self.load_encoding()
        self.refuse_other_source(f"task {run.task}", run.suite.spec(run.task).source_sha256, find(run.task))
        return run_one(run, out, device, checkpoint_every_s, should_stop, self.keep_weights)

    def load_encoding(self) -> None:
        """Register the encoding in this process.

        Raises:
            InputError: it cannot be loaded, or its source has changed since the request was made.
        """
        from bench.plugins import registry

        for reference in self.source.plugins:
            registry.load_reference(reference)
        self.refuse_other_source(self.encoding, self.source.sha256, registry.get_encoding(self.encoding))

    def refuse_other_source(self, what: str, asked: str, cls: Any) -> None:
        """Raise an ``InputError`` if the source of an encoding or a task has another hash than when the run was asked for."""
        from bench.plugins.source_hash import source_hash

        if asked and (now := source_hash(cls)) != asked:
            raise InputError(
                f"the source of {what} changed after this run was asked for (hash {asked[:12]} then, "
                f"{now[:12]} now); ask again with --retry-failed to run it as it is now"
            )


def worker_main(pipe: Connection, out: str, device: str, checkpoint_every_s: float) -> None:
    """Entry point of the process. It stops after SIGTERM, or when the pool has died."""
    stopping, pool = False, os.getppid()

    def on_signal(*_: object) -> None:
        nonlocal stopping
        stopping = True

    def should_stop() -> bool:
        return stopping or os.getppid() != pool

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool handles Ctrl-C
    import torch  # slow: once per worker, after the signal handlers are installed

    from bench.training.cuda_graphs import GraphedStep
    from bench.training.train import Stopped

    from . import run_one  # noqa: F401

    torch.set_num_threads(1)
    usable = True
    with suppress(EOFError, ConnectionError):  # the pool has died
        pipe.send(("ready", 0, ""))
        while usable and not (should_stop() or GraphedStep.failed):
            if not pipe.poll(IDLE_POLL_S):
                continue
            request: RunRequest = pipe.recv()
            try:
                result = request.execute(Path(out), device, checkpoint_every_s, should_stop)
                message: tuple[str, int, Any] = "finished", result.steps, summarize_result(result)
            except Stopped:
                break
            except LockedElsewhere:
                message = "locked", 0, ""
            except (Exception, SystemExit) as error:  # a hook that calls exit() must not look like a requested stop
                message = "failed", 0, described(error)
                # After an error of CUDA every later call of it in this process fails too.
                usable = not (isinstance(error, RuntimeError) and "CUDA error" in str(error))
            pipe.send(message)
            if usable and not GraphedStep.failed and torch.cuda.is_initialized():
                torch.cuda.empty_cache()  # the memory of this run's evaluation, for processes that share the GPU
    sys.exit(STOPPED)


def described(error: BaseException) -> tuple[str, str]:
    """The reason on one line, and the traceback; that is empty if a file could not be written, which is no fault of the run."""
    reason = printable(" ".join(str(error).split()))
    if not isinstance(error, InputError):  # whose message is complete without the type
        reason = f"{type(error).__name__}{': ' if reason else ''}{reason}"
    return reason, "" if isinstance(error, NotWritten) else "".join(traceback.format_exception(error))


def summarize_result(result: Result) -> str:
    """Summary of a finished run on one line."""
    if result.status == "diverged":
        return f"diverged at step {result.steps}"
    bits = result.score_is == "bits"  # of text no whole answer is ever right
    numbers = {s.length: s.nll or math.nan if bits else s.exact for s in result.scores}
    inside = fmean(number for length, number in numbers.items() if length <= result.train_length)
    past = fmean(number for length, number in numbers.items() if length > result.train_length)
    shared = f", trained as {result.trained_as}" if result.trained_as else ""
    return f"{'nats a token ' * bits}in distribution {inside:.2f}, past L {past:.2f}, {result.timings.total_s:.1f} s{shared}"
