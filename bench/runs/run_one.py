"""Trains and evaluates one run, in the current process (``lprime run`` calls it in worker processes)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.plugins.record import encoding_record
from bench.result import Result, write_result
from bench.training.evaluate import evaluate

from .run import CHECKPOINT, CHECKPOINT_EVERY_S, FAILURE, Run
from .run_lock import heartbeat, lock_run
from .run_training import AtStep, trained
from .testing import tested


def run_one(
    run: Run,
    out: Path,
    device: str = "auto",
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
    should_stop: Callable[[], bool] = lambda: False,
    keep_weights: bool = False,
) -> Result:
    """Train and evaluate one run, resuming from its checkpoint; a finished run returns its stored result.

    A run that shares the training of another encoding loads it, or trains it first: see ``shared_training``.

    Arguments:
        should_stop: called after every step and between test batches; if it returns True the run saves its state and ends.
        keep_weights: keep the end of the training, as ``weights.safetensors``.

    Raises:
        Stopped: ``should_stop`` returned True; the checkpoint holds the state.
        LockedElsewhere: another process works on this run.
        InputError: the encoding is unknown, the folder cannot be written, or it holds a result of another suite version.
    """
    if result := run.result(out):
        return result

    def make(at_step: AtStep) -> Result:
        encoding = encoding_record(run.cls)  # what may fail comes before the training
        training = trained(run, out, device, keep_weights, at_step, checkpoint_every_s)
        before_batch = partial(at_step, training.state.step)
        return tested(
            run,
            training.model,
            training.state,
            partial(evaluate, training.model, test_seed=run.suite.test_seed, before_batch=before_batch),
            training.elapsed,
            encoding=encoding,
            trained_as=training.trained_as,
            weights=training.weights,
        )

    return finish(run, out, run.steps + run.extra_steps, should_stop, make)


def finish(run: Run, out: Path, steps: int, should_stop: Callable[[], bool], make: Callable[[AtStep], Result]) -> Result:
    """Make and store the result of a run, or return what another process has stored.

    Arguments:
        steps: all training steps, those of an extra stage included.
        make: makes the result; takes a function to call with the step, see ``heartbeat``.

    Raises:
        Stopped: ``should_stop`` returned True.
        LockedElsewhere: another process works on this run.
        InputError: the folder cannot be written, or holds a result of another suite version.
    """
    folder = run.folder(out)
    with lock_run(folder):
        if result := run.result(out):  # another process finished it before we got the lock
            return result
        (folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
        with heartbeat(folder, steps, should_stop) as at_step:
            result = make(at_step)
        write_result(folder, result)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return result
