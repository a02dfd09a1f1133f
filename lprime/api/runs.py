"""Check, train and test encodings in this process, on one thread: the same numbers as ``lprime run`` gives."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bench.check import CheckOutcome, Report, check_encoding
from bench.encodings import Encoding
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.devices import Device, resolve_device
from bench.runs.run import Run, plan_runs, refuse_extra_seeds
from bench.runs.run_lock import LockedElsewhere, lock_run
from bench.runs.run_one import Session, run_one
from bench.runs.run_training import Control
from bench.runs.shared_training import shared_trainings
from bench.runs.worker import summarize_result
from bench.suites.suite import load_suite
from bench.training.model import Decoder
from tasks import InputError

from .interactive import reference_of
from .tables import as_frame

if TYPE_CHECKING:
    import pandas as pd

AnyEncoding = str | Path | type[Encoding]
"""A name, a file, or a class."""


def check(
    encoding: AnyEncoding, *, only: Sequence[str] = (), on_finding: Callable[[CheckOutcome], None] = lambda finding: None
) -> Report:
    """Check an encoding against the rules, in under a minute.

    Its code runs in a sandbox where the machine has one, else with your rights: for a stranger's code use ``lprime check
    --sandbox``, which refuses that.

    Arguments:
        only: names of checks; all by default.
        on_finding: called with each finding as it arrives.

    Returns:
        The report: ``passed``, ``summary()``, ``markdown()`` and ``findings``, each with ``check``, ``status``, ``expected``,
        ``found`` and ``advice``.

    Raises:
        InputError: there is no such encoding or check, or the encoding cannot be loaded.
    """
    return check_encoding(reference_of(encoding), only=only, on_finding=on_finding)


def evaluate(
    encoding: AnyEncoding,
    suite: str | Path = "quick",
    task: str | Sequence[str] | None = None,
    *,
    seed: int | Sequence[int] = 0,
    out: str | Path = "runs",
    device: Device = "auto",
    extra_seeds: bool = False,
    replace: bool = False,
    quiet: bool = False,
) -> "pd.DataFrame":
    """Train an encoding on tasks of a suite and test it at every length. Finished runs are read from ``out``, not repeated.

    The results are stored as ``lprime run`` stores them, so that ``lprime board`` and ``lprime submit`` find them.

    Arguments:
        task: one or several tasks; by default all of the suite.
        seed: one or several.
        out: folder of your runs.
        device: ``auto`` (the GPU if there is one), ``cpu`` or ``cuda``.
        extra_seeds: allow seeds that the suite does not have; a board counts them too.
        replace: delete finished runs of this encoding that were made with other source, and run them again.
        quiet: print nothing.

    Returns:
        One row per run and test length, as ``lprime.results`` returns them.

    Raises:
        InputError: an unknown name, with the nearest match; a bad seed; or a finished run was made with other source.
        KeyboardInterrupt: the next call continues from the last checkpoint, some ten seconds earlier.
    """
    cls, tasks = load_encoding(encoding), [task] if isinstance(task, str) else task
    seeds = list(seed) if isinstance(seed, Iterable) and not isinstance(seed, str) else [seed]
    of, place = load_suite(str(suite)), Path(out)
    runs = plan_runs(of, [cls.info.name], tasks, seeds)
    refuse_extra_seeds(of, seeds, extra_seeds)
    resolve_device(device)  # refuses an unknown one before anything is deleted
    found, shared = [], cls.info.name in shared_trainings([cls.info.name])
    with in_this_process():
        for run in runs:
            refuse_other_source(run, cls, place, replace)
        for run in runs:
            finished = run.result(place)
            found.append(finished or run_one(run, place, device, keep_weights=shared))
            if not (quiet or finished):
                print(f"{run}: {summarize_result(found[-1])}", flush=True)
    return as_frame(found)


def train(
    encoding: AnyEncoding,
    suite: str | Path = "quick",
    task: str = "copying",
    *,
    seed: int = 0,
    out: str | Path = "runs",
    device: Device = "auto",
) -> Decoder:
    """Train a model as a run of a suite does, or load its weights if ``out`` has them.

    The weights stay in the folder of the run, or of the run whose training it shares, as ``weights.safetensors``. Training
    resumes after an interruption.

    Returns:
        The model, a torch module in evaluation mode: ``model.logits(model(tokens, announced_length))`` are the logits
        [B, T, symbols] of the next token after each of ``tokens`` [B, T], the column ``ids`` of ``lprime.load_task``;
        ``announced_length`` is in tokens.

    Raises:
        InputError: an unknown name, with the nearest match; or the training diverged.
        KeyboardInterrupt: the next call continues from the last checkpoint, some ten seconds earlier.
    """
    (run,) = plan_runs(load_suite(str(suite)), [load_encoding(encoding).info.name], [task], [seed])
    place = Path(out)
    with in_this_process(), lock_run(run.folder(place)):
        session = Session(run, place, resolve_device(device), Control(), keep_weights=True)
        session.train()
    if session.training.state.diverged:
        raise InputError(f"{run} diverged at step {session.training.state.step}: there are no trained weights")
    return session.training.model.eval()


def load_encoding(encoding: AnyEncoding) -> type[Encoding]:
    return get_encoding(reference_of(encoding))


def refuse_other_source(run: Run, cls: type[Encoding], out: Path, replace: bool) -> None:
    """Refuse, or delete, a finished run of other source.

    Raises:
        InputError: there is one, and it is not to be replaced.
    """
    result, folder = run.result(out), run.folder(out)
    if result is None or result.encoding.source_sha256 == source_hash(cls):
        return
    if not replace:
        raise InputError(
            f"{folder} holds a run of {run.encoding} made from other source; expected another name, another out, or "
            "replace=True to delete it"
        )
    with lock_run(folder):
        for path in folder.iterdir():
            if path.suffix in (".json", ".safetensors"):
                path.unlink()


@contextmanager
def in_this_process() -> Iterator[None]:
    """Use one thread of torch in this block, as workers of ``lprime run`` do: the number of threads changes the rounding.

    Raises:
        InputError: another process works on the run.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    except LockedElsewhere as error:
        raise InputError(f"another process works on {error}; wait for it, or choose another out") from None
    finally:
        torch.set_num_threads(before)
