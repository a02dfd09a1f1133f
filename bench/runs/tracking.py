"""Experiment trackers, for ``lprime run --track``: settings, loss curve and scores of each run, recorded when it ends.

The process that follows the grid reads them from the run's result: training is neither slowed nor changed, and a cluster's runs
are recorded too. Everything stays on this machine unless the tracker is configured otherwise: Weights & Biases is offline
unless ``WANDB_MODE`` says online (``wandb sync`` uploads later), and the other two write files.
"""

import importlib.util
import io
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from bench.result import Result
from tasks import InputError, unknown

from .executor import Event
from .progress import say

PROJECT = "lprime"


def settings(result: Result) -> dict[str, str | int | float]:
    """What identifies a run, and its one-number outcomes."""
    inside, past = result.mean_exact
    return {
        "suite": result.suite,
        "suite_version": result.suite_version,
        "fingerprint": result.fingerprint,
        "task": result.task,
        "encoding": result.encoding.name,
        "family": result.encoding.family,
        "source_sha256": result.encoding.source_sha256,
        "seed": result.seed,
        "train_length": result.train_length,
        "status": result.status,
        "parameters": result.parameters.model,
        "step_ms": result.timings.step_ms,
        "device": result.device,
        "exact_in_distribution": inside,
        "exact_past_L": past,
    }


def by_length(result: Result) -> Iterator[tuple[int, dict[str, float]]]:
    """Test length → its scores."""
    for score in result.scores:
        values = {"exact": score.exact, "token": score.token, "nll": score.nll}
        yield score.length, {name: value for name, value in values.items() if value is not None}


def to_tensorboard(result: Result, out: Path) -> None:
    """Event files under ``<out>/tensorboard/<run>``: ``tensorboard --logdir <out>/tensorboard`` shows them."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(out / "tensorboard" / result.path)) as writer:
        for step, loss in result.loss:
            writer.add_scalar("loss by step", loss, step)
        for length, values in by_length(result):
            for name, value in values.items():
                writer.add_scalar(f"{name} by length", value, length)
        known = settings(result)
        outcomes = {name: known.pop(name) for name in ("exact_in_distribution", "exact_past_L", "step_ms")}
        writer.add_hparams(known, outcomes, run_name=".")


def to_wandb(result: Result, out: Path) -> None:
    """A run of the project ``lprime``, under ``<out>/wandb``."""
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    mode: Any = os.environ.get("WANDB_MODE", "offline")
    with wandb.init(project=PROJECT, name=result.path, dir=str(out), mode=mode, config=settings(result), reinit=True) as run:
        for name, axis in (("loss", "training_step"), ("exact", "length"), ("token", "length"), ("nll", "length")):
            run.define_metric(name, step_metric=axis)
        for row in rows(result):
            run.log(row)


def to_trackio(result: Result, out: Path) -> None:
    """A run of the project ``lprime``, in trackio's own folder: ``trackio show --project lprime`` shows it."""
    import trackio

    with redirect_stdout(io.StringIO()):  # ten lines a run, in the middle of the progress display
        trackio.init(project=PROJECT, name=result.path, config=settings(result))
        for row in rows(result):
            trackio.log(row)
        trackio.finish()


def rows(result: Result) -> Iterator[dict[str, float]]:
    """The loss curve, then the scores by length, for trackers whose rows name their axis."""
    yield from ({"training_step": step, "loss": loss} for step, loss in result.loss)
    yield from ({"length": length} | values for length, values in by_length(result))


TRACKERS: dict[str, Callable[[Result, Path], None]] = {
    "tensorboard": to_tensorboard,
    "trackio": to_trackio,
    "wandb": to_wandb,
}
"""Name, which is also that of the package and of the extra of ``lprime`` → function that records a finished run."""


Listener = Callable[[Event], None]


def recorder(tracker: str | None, out: Path) -> Callable[[Listener], Listener]:
    """A decorator of event listeners: the decorated listener also records each run that has finished.

    An error of the tracker is printed and stops no run.

    Arguments:
        tracker: a name of ``TRACKERS``; None records nothing.
        out: folder of the runs.

    Raises:
        InputError: an unknown tracker, with the nearest match; or its package is not installed.
    """
    if tracker is None:
        return lambda listener: listener
    if tracker not in TRACKERS:
        raise unknown("tracker", tracker, TRACKERS)
    if importlib.util.find_spec(tracker) is None:
        raise InputError(
            f"--track {tracker} needs the package {tracker}, which is not installed: pip install 'lprime[{tracker}]'"
        )
    record = TRACKERS[tracker]

    def recording(listener: Listener) -> Listener:
        def on_event(event: Event) -> None:
            listener(event)
            if event.kind == "finished":
                try:
                    if result := event.run.result(out):
                        record(result, out)
                except Exception as error:  # of another project's code
                    say(f"{event.run}: not recorded by {tracker}: {type(error).__name__}: {' '.join(str(error).split())}")

        return on_event

    return recording
