"""Check, train and test encodings in this process, on one thread: the same numbers as ``lprime run`` gives. Test any model."""

import ast
import hashlib
import inspect
import linecache
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.check import Report, check_encoding
from bench.encodings import Encoding
from bench.encodings.nope import NoPE
from bench.files import write_atomic
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import EncodingRecord, LengthScore, Result
from bench.runs.devices import Device, package_versions, resolve_device
from bench.runs.run import Run, now, plan_runs
from bench.runs.run_lock import LockedElsewhere, lock_run
from bench.runs.run_one import run_one, tested
from bench.runs.run_training import trained
from bench.runs.shared_training import shared_trainings, trained_as
from bench.runs.worker import summarize_result
from bench.suites.suite import holding, load_suite
from bench.training import evaluate as evaluation
from bench.training.batches import Batch
from bench.training.model import Decoder
from bench.training.train import TrainingState
from leaderboard.export import tidy
from leaderboard.results.frame import build_frame
from tasks import Examples, InputError, Task

if TYPE_CHECKING:
    import pandas as pd

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
) -> "pd.DataFrame":
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


def train(
    encoding: AnyEncoding,
    suite: str | Path = "quick",
    task: AnyTask = "copying",
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
    reference, *references = references_of(encoding, task)
    cls, (name, names) = get_encoding(reference), holding(str(suite), references)
    (run,) = plan_runs(load_suite(name), [cls.info.name], names, [seed])
    place = Path(out)
    with in_this_process(), lock_run(run.folder(place)):
        training = trained(run, place, resolve_device(device), keep_weights=True)
    if training.state.diverged:
        raise InputError(f"{run} diverged at step {training.state.step}: there are no trained weights")
    return training.model.eval()


def evaluate_model(
    model: Callable[[Tensor], Any],
    suite_or_task: AnyTask = "quick",
    task: AnyTask | None = None,
    *,
    lengths: Sequence[int] | None = None,
    name: str = "model",
) -> "pd.DataFrame":
    """Test any causal model by the exact match of its greedy answers, as runs of a suite are tested.

    Arguments:
        model: maps token ids [B, T], padded on the right, to logits [B, T, V] of each next token, or to an object with such
            ``logits``, as models of ``transformers`` do. A torch module is put into evaluation mode.
        suite_or_task, task: a suite, and one of its tasks if not all; or a task alone, as in suite ``small``, or yours.
        lengths: test lengths in place of those of the suite, at most its longest.
        name: of the model, in the column ``encoding``.

    Returns:
        One row per task and test length, with the columns of ``lprime.results``; ``origin`` is ``model``.

    Raises:
        InputError: an unknown name, a length out of range, logits of another shape, or a logit that depends on later tokens.
    """
    text, *given = references_of(suite_or_task, *([] if task is None else [task]))
    place, tasks = holding("small", [text]) if registry.is_task(text) else holding(text, given)
    suite = load_suite(place)
    weights = list(model.parameters()) if isinstance(model, nn.Module) else []
    other: Any = SimpleNamespace(  # looks like a ``Decoder``
        model=model,
        embedding=SimpleNamespace(weight=weights[0] if weights else torch.empty(0)),
        encoding=SimpleNamespace(stage=None, info=NoPE.info, parameters=list),
        parameters=lambda: weights,
        eval=getattr(model, "eval", lambda: None),
    )
    empty: dict[str, Any] = {"year": 0, "link": "", "settings": {}, "source_sha256": ""}
    record = EncodingRecord(name=name, title=name, family="model", ranking="standard", **empty)
    fields = {"encoding": record, "versions": package_versions()}

    def test(task: Task, sets: Mapping[int, Examples]) -> list[LengthScore]:
        chosen = lengths and {n: task.test_examples(n, suite.test_examples, suite.test_seed) for n in sorted({*lengths})}
        return evaluation.evaluate(other, task, chosen or sets, suite.test_seed, predict=partial(logits, len(task.vocabulary)))

    def result(run: Run) -> Result:
        start, state = time.monotonic(), TrainingState(started=now())
        device = other.embedding.weight.device
        return tested(run, other, state, device, test, lambda: time.monotonic() - start, **fields)

    # The suite's own lengths, as those of `load_task`; runs have those of blocks of seeds.
    plain = suite.model_copy(update={"blocks": [], "learning_rates": []})
    runs = plan_runs(plain, [name], tasks, suite.seeds[:1])
    return tidy(build_frame(map(result, runs), "model")).assign(fingerprint=suite.fingerprint)


def logits(symbols: int, other: Any, batch: Batch, announced: int, generator: torch.Generator) -> Float[Tensor, "M V"]:
    """Logits of the target tokens.

    Raises:
        InputError: see ``evaluate_model``.
    """
    half, later = batch.tokens.shape[1] // 2, batch.tokens[:2].clone()
    later[:, half:] = later[:, half:].flip(1)
    found, changed = (getattr(out := other.model(tokens), "logits", out) for tokens in (batch.tokens, later))
    if found.shape[:2] != batch.tokens.shape or found.ndim != 3 or found.shape[2] < symbols:
        expected = f"[{batch.tokens.shape[0]}, {batch.tokens.shape[1]}, {symbols} or more]"
        raise InputError(f"the model returns logits of shape {list(found.shape)}; expected {expected}")
    if not torch.allclose(found[:2, :half], changed[:, :half], rtol=1e-2, atol=1e-2):
        raise InputError("the model is not causal: a later token changes an earlier logit, so it may see the answer")
    return batch.layout.unpad(found.float(), batch.target_rows)


def references_of(*given: AnyEncoding | AnyTask) -> list[str]:
    """Names or references by which any process finds encodings and tasks. Plugins are loaded again, as their files are now.

    Raises:
        InputError: not an encoding or a task, or a class whose source is not known.
    """
    registry.loaded.plugins.clear()
    registry.loaded.files.clear()
    trained_as.cache_clear()
    return [str(one) if isinstance(one, str | Path) else reference_of(one) for one in given]


def reference_of(cls: type) -> str:
    """The reference of a class."""
    if not (inspect.isclass(cls) and issubclass(cls, Encoding | Task)):
        expected = "a name, a file or a subclass of lprime.Encoding or lprime.Task"
        raise InputError(f"expected an encoding or a task: {expected}, got {cls!r:.80}")
    home = cls.__module__
    if home.startswith(("bench.encodings", "tasks.")):
        return registry.own_name(cls)
    file = getattr(sys.modules.get(home), "__file__", None)
    if home == "__main__" or not file:
        registry.validate_class(cls, f"class {cls.__name__}", Task if issubclass(cls, Task) else Encoding)
        return str(write_cell(cls))
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
    body = ["import lprime", "import torch"]
    for node in ast.parse(cell).body:
        constant = isinstance(node, ast.Assign) and not any(isinstance(part, ast.Call) for part in ast.walk(node))
        if constant or isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            body.append(ast.unparse(node))
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
