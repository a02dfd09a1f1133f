"""What a worker process of the local pool does: runs, one after the other, as they come down the pipe.

It says ``("ready", 0, "")`` once its imports are done, then for every order any number of ``("step", step, "")`` and at last
one of ``finished``, ``failed`` and ``elsewhere``. When the other end of the pipe goes away it saves its run and ends.
"""

import os
import signal
import statistics
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tasks import InputError

from .runs import LockedElsewhere, Run
from .suite import Suite


@dataclass(frozen=True)
class Order:
    """A run as it travels to another process: plain data."""

    suite: str
    task: str
    encoding: str
    seed: int
    plugins: tuple[str, ...] = ()
    """Where the encoding is found, if not among those built in and installed: references, to be loaded first."""
    source: str = ""
    """Hash of the encoding's source as the one who gives the order has it."""

    @classmethod
    def of(cls, run: Run) -> "Order":
        from . import encodings, plugins

        try:
            found = encodings.get(run.encoding)
        except InputError:  # the run will fail, and say why
            return cls(run.suite.model_dump_json(), run.task, run.encoding, run.seed)
        where, source = plugins.references(found), encodings.source_hash(found)
        return cls(run.suite.model_dump_json(), run.task, run.encoding, run.seed, where, source)

    def run(self) -> Run:
        return Run(Suite.model_validate_json(self.suite), self.task, self.encoding, self.seed)

    def prepare(self) -> None:
        """Make the encoding known to this process.

        Raises:
            InputError: it cannot be loaded, or its source is not what it was when the order was given.
        """
        from . import encodings, plugins

        for reference in self.plugins:
            plugins.load(reference)
        source = encodings.source_hash(encodings.get(self.encoding))
        if self.source and source != self.source:
            raise InputError(
                f"the source of {self.encoding} changed after this run was asked for (hash {self.source[:12]} then, "
                f"{source[:12]} now); ask again with --retry-failed to run it as it is now"
            )


class Control:
    """Whether this process was told to stop: by a signal, or by the death of the one that gave the orders."""

    def __init__(self, pipe: Connection):
        self.pipe, self.parent = pipe, os.getppid()
        self.told, self.idle = False, True
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that gave the orders

    def on_signal(self, *_: object) -> None:
        self.told = True
        if self.idle:
            sys.exit(0)

    def stopping(self) -> bool:
        return self.told or os.getppid() != self.parent

    def say(self, kind: str, step: int = 0, text: str = "") -> None:
        try:
            self.pipe.send((kind, step, text))
        except (BrokenPipeError, ConnectionError):
            self.told = True


def main(pipe: Connection, out: str, threads: int, device: str, checkpoint_every_s: float) -> None:
    """The process' whole life."""
    control = Control(pipe)
    import torch  # heavy: paid once a worker, after the signal handler is in place
    import torch._dynamo  # the first optimizer would load it, in the midst of a run

    from .train import Stopped
    from .work import execute

    torch.set_num_threads(threads)
    control.say("ready")
    while True:
        try:
            order: Order = pipe.recv()
        except (EOFError, ConnectionError):
            return
        control.idle = False
        run = order.run()
        try:
            order.prepare()
            result = execute(
                run,
                Path(out),
                device,  # type: ignore[arg-type]
                checkpoint_every_s,
                report=lambda step: control.say("step", step),
                stopping=control.stopping,
            )
            control.say("finished", result.steps, summary(result))
        except Stopped:
            return
        except LockedElsewhere:
            control.say("elsewhere")
        except (Exception, SystemExit) as error:  # a hook that exits must not pass for a worker that was told to
            control.say("failed", 0, leave_report(run, Path(out), error))
        control.idle = True
        if control.told:
            return


def leave_report(run: Run, out: Path, error: BaseException) -> str:
    """Write the run's failure report; the reason on one line."""
    reason = " ".join(str(error).split())
    if not isinstance(error, InputError):  # which says it all by itself
        reason = f"{type(error).__name__}{': ' if reason else ''}{reason}"
    try:
        run.fail(out, reason, "".join(traceback.format_exception(error)))
    except ValueError as unwritable:
        return f"{reason}; {unwritable}"
    return reason


def summary(result) -> str:
    """A finished run on one line."""
    if result.status == "diverged":
        return f"diverged at step {result.steps}"
    inside, outside = (statistics.fmean(s.exact for s in part) for part in (result.in_distribution, result.out_of_distribution))
    return f"in distribution {inside:.2f}, past L {outside:.2f}, {result.timings.total_s:.1f} s"
