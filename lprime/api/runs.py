"""Check, train and test encodings in this process, on one thread: the same numbers as ``lprime run`` gives."""

import ast
import hashlib
import inspect
import linecache
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch

from bench.check import Report, check_encoding
from bench.encodings import Encoding, Wrapper
from bench.files import write_atomic
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.devices import Device
from bench.runs.run import plan_runs
from bench.runs.run_lock import LockedElsewhere
from bench.runs.run_one import run_one
from bench.runs.shared_training import shared_trainings, trained_as
from bench.runs.worker import summarize_result
from bench.suites.suite import holding, load_suite
from leaderboard.export import tidy
from leaderboard.results.frame import build_frame
from tasks import InputError, Task

AnyEncoding = str | Path | type[Encoding]
"""A name, a file, or a class."""
AnyTask = str | Path | type[Task]


def check(encoding: AnyEncoding | AnyTask) -> Report:
    """Check an encoding, or a task, against the rules, in under a minute.

    Its code runs in a sandbox where the machine has one, else with your rights: for a stranger's code use ``lprime check
    --sandbox``, which refuses that.

    Returns:
        The report: ``passed``, ``summary()`` and ``findings``, each with ``check``, ``status``, ``expected``, ``found`` and
        ``advice``.

    Raises:
        InputError: there is no such encoding, or the encoding cannot be loaded.
    """
    (reference,) = references_of(encoding)
    return check_encoding(reference)


def evaluate(
    encoding: AnyEncoding,
    suite: str | Path = "quick",
    task: AnyTask | Sequence[AnyTask] | None = None,
    *,
    seed: int | Sequence[int] = 0,
    out: str | Path = "runs",
    device: Device = "auto",
    quiet: bool = False,
) -> pd.DataFrame:
    """Train an encoding on tasks of a suite and test it at every length. Finished runs are read from ``out``, not repeated.

    The results are stored as ``lprime run`` stores them, so that ``lprime board`` and ``lprime submit`` find them.

    Arguments:
        task: one or several tasks; by default all of the suite. One of yours takes their place: see ``load_suite``.
        seed: one or several.
        out: folder of your runs.
        device: ``auto`` (the GPU if there is one), ``cpu`` or ``cuda``.
        quiet: print nothing.

    Returns:
        One row per run and test length, as ``lprime.results`` returns them.

    Raises:
        InputError: an unknown name, with the nearest match; a bad seed; or a finished run was made with other source.
        KeyboardInterrupt: the next call continues from the last checkpoint, some ten seconds earlier.
    """
    wanted = () if task is None else task if isinstance(task, list | tuple) else (task,)
    reference, *references = references_of(encoding, *wanted)
    cls, place, (name, names) = get_encoding(reference), Path(out), holding(str(suite), references)
    seeds = list(seed) if isinstance(seed, Iterable) and not isinstance(seed, str) else [seed]
    runs = plan_runs(load_suite(name), [cls.info.name], names, seeds)
    found, shared = [], cls.info.name in shared_trainings([cls.info.name])
    with in_this_process():
        for run in runs:
            finished = run.result(place)
            if finished and finished.encoding.source_sha256 != source_hash(cls):
                raise InputError(f"{run.folder(place)} holds a run of other source; delete it, or choose another name or out")
            found.append(finished or run_one(run, place, device, keep_weights=shared))
            if not (quiet or finished):
                print(f"{run}: {summarize_result(found[-1])}", flush=True)
    return tidy(build_frame(found, "local"))


def references_of(*given: AnyEncoding | AnyTask) -> list[str]:
    """Names or references by which any process finds encodings and tasks. Plugins are loaded again, as their files are now.

    Raises:
        InputError: not an encoding or a task, or a class whose source is not known.
    """
    registry.loaded.clear()
    registry.files.clear()
    trained_as.cache_clear()
    return [str(one) if isinstance(one, str | Path) else reference_of(one) for one in given]


def reference_of(cls: type) -> str:
    """The reference of a class."""
    if not (inspect.isclass(cls) and issubclass(cls, Encoding | Task)) or cls in (Encoding, Wrapper, Task):
        expected = "a name, a file or a subclass of lprime.Encoding or lprime.Task"
        raise InputError(f"expected an encoding or a task: {expected}, got {cls!r:.80}")
    home = cls.__module__
    if home.startswith(("bench.encodings", "tasks.")):
        return registry.own_name(cls)
    file = getattr(sys.modules.get(home), "__file__", None)
    if home == "__main__" or not file:
        registry.validate_class(cls, f"class {cls.__name__}", Task if issubclass(cls, Task) else Encoding)
        return f"{write_cell(cls)}:{cls.__qualname__}"
    return f"{file}:{cls.__qualname__}"


def write_cell(cls: type) -> Path:
    """Write the cell of a notebook, or the script, that defines a class into a file: what defines names without running code.

    These are imports, constants, functions and classes; ``lprime`` and ``torch`` are imported, too.

    Raises:
        InputError: its source is not known.
    """
    hooks = [value for value in vars(cls).values() if inspect.isfunction(value)]
    cell = next(filter(None, ("".join(linecache.getlines(hook.__code__.co_filename)) for hook in hooks)), "")
    if not cell:
        raise InputError(f"the source of {cls.__name__} is not known here; write it to a file and give its path")
    body, skipped = ["import lprime", "import torch"], set[str]()
    for node in ast.parse(cell).body:
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        computed = any(isinstance(part, ast.Call) for part in ast.walk(node)) or skipped & {name.id for name in names}
        constant = isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and not computed
        if constant or isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            body.append(ast.unparse(node))
        else:
            skipped |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    text = "\n\n".join(body) + "\n"
    path = Path(scratch().name) / hashlib.sha256(text.encode()).hexdigest()[:12] / f"{registry.own_name(cls)}.py"
    write_atomic(path, text)
    return path


@cache
def scratch() -> "TemporaryDirectory[str]":
    """The folder of written cells, deleted when the process ends."""
    return TemporaryDirectory(prefix="lprime-", ignore_cleanup_errors=True)


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
