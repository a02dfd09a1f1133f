"""Models: train one as a run of a suite does, with an encoding or of your own; test any that maps token ids to logits."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bench.encodings.nope import NoPE
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.result import EncodingRecord, LengthScore, Result
from bench.runs.devices import Device, resolve_device
from bench.runs.run import Run, now, plan_runs
from bench.runs.run_lock import lock_run
from bench.runs.run_training import trained
from bench.runs.testing import tested
from bench.suites.suite import Suite, holding, load_suite
from bench.training import train as training
from bench.training.batches import Layout, as_batch
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState
from leaderboard.export import tidy
from leaderboard.results.frame import build_frame
from tasks import Examples, InputError, Task, train_batch

from .runs import AnyEncoding, AnyTask, in_this_process, references_of

TRAINED: "WeakKeyDictionary[nn.Module, TrainingState]" = WeakKeyDictionary()
"""How the last training of each model went: its steps, losses and times."""


class Other(nn.Module):
    """Any model over a vocabulary of so many symbols, in the place of a ``Decoder``; its hidden states are its logits.

    Its modules are named so that the optimizer decays all matrices but embeddings.
    """

    encoding: Any = SimpleNamespace(stage=None, info=NoPE.info, parameters=list)

    def __init__(self, model: Callable[[Tensor], Any], symbols: int, precision: str):
        super().__init__()
        self.symbols, self.precision = symbols, precision
        own = model if isinstance(model, nn.Module) else nn.Module()
        self.embeddings = nn.ModuleList(part for part in own.modules() if isinstance(part, nn.Embedding))
        self.blocks, self.logits = model, nn.Identity()
        self.embedding = SimpleNamespace(weight=next(own.parameters(), torch.empty(0)))  # says the device

    def named_parameters(self, *args: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Those that are trained, each under its first name."""
        return (pair for pair in super().named_parameters(*args, **options) if pair[1].requires_grad)

    def packed_states(
        self, tokens: Int[Tensor, "B T"], layout: Layout, announced: int, generator: object, rows: Int[Tensor, " M"]
    ) -> Float[Tensor, "M V"]:
        """Logits of the given rows.

        Raises:
            InputError: logits of another shape or, outside of training, a logit that depends on later tokens.
        """
        with torch.inference_mode(False), torch.set_grad_enabled(self.training):  # what a model caches serves training too
            tokens = tokens.clone()
            found = self.logits_of(tokens)
            if not self.training:
                half, later = tokens.shape[1] // 2, tokens[:2].clone()
                later[:, half:] = (later[:, half:] + 1) % self.symbols
                if not torch.allclose(found[:2, :half], self.logits_of(later)[:, :half], rtol=1e-2, atol=1e-2, equal_nan=True):
                    raise InputError("the model is not causal: a later token changes an earlier logit")
            return layout.unpad(found, rows)

    def logits_of(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        found = getattr(out := self.blocks(tokens), "logits", out)
        if found.shape[:2] != tokens.shape or found.ndim != 3 or found.shape[2] < self.symbols:
            expected = f"[{tokens.shape[0]}, {tokens.shape[1]}, {self.symbols} or more]"
            raise InputError(f"the model returns logits of shape {list(found.shape)}; expected {expected}")
        return found


def train(
    encoding: AnyEncoding | None = None,
    suite: str | Path = "quick",
    task: AnyTask = "copying",
    *,
    model: nn.Module | None = None,
    seed: int = 0,
    learning_rate: float | None = None,
    out: str | Path = "runs",
    device: Device = "auto",
) -> nn.Module:
    """Train a model as a run of a suite does: with an encoding, or your own model, in place, with the recipe and data of runs.

    With an encoding, the weights stay in the folder of the run, or of the run whose training it shares, as
    ``weights.safetensors``, and are loaded from there if ``out`` has them. Training resumes after an interruption.

    Arguments:
        model: yours, as in ``evaluate_model``. All of its matrices decay but those of ``torch.nn.Embedding``.
        learning_rate: one of those that the suite tests, if it tests several; for your model any, by default the recipe's.
        device: as in ``evaluate``; your model is moved there.

    Returns:
        The model, in evaluation mode. With an encoding, ``model.logits(model(tokens, announced_length))`` are the logits
        [B, T, symbols] of the next token after each of ``tokens`` [B, T], the column ``ids`` of ``lprime.load_task``;
        ``announced_length`` is in tokens.

    Raises:
        InputError: an unknown name, with the nearest match; or the training diverged.
        KeyboardInterrupt: with an encoding, the next call continues from the last checkpoint, some ten seconds earlier.
    """
    if (encoding is None) == (model is None):
        raise InputError("expected an encoding or model=…, one of the two")
    references = references_of(task, *([] if encoding is None else [encoding]))
    name, names = holding(str(suite), references[:1])
    loaded = load_suite(name)
    if model is not None:
        return train_model(
            model, replace(runs_of(loaded, names, "model", seed)[0], learning_rate=learning_rate), resolve_device(device)
        )
    cls = get_encoding(references[1])
    run, *others = plan_runs(loaded, [cls.info.name], names, [seed], [learning_rate] if learning_rate else None)
    if others:
        rates = ", ".join(f"{rate:g}" for rate in loaded.learning_rates)
        raise InputError(f"suite {loaded.name} tests several learning rates; expected learning_rate= one of {rates}")
    with in_this_process(), lock_run(run.folder(Path(out))):
        done = trained(run, Path(out), device, keep_weights=True)
    if done.state.diverged:
        raise InputError(f"{run} diverged at step {done.state.step}: there are no trained weights")
    return done.model.eval()


def train_model(model: nn.Module, run: Run, device: torch.device) -> nn.Module:
    """Train a model in place, as the run says."""
    recipe, made = run.recipe, run.recipe_suite.make_task(run.task)
    other: Any = Other(model.to(device), len(made.vocabulary), recipe.precision)
    first = as_batch(train_batch(made, run.train_length, recipe.batch, run.seed, 0)).to(device)
    training.target_logits(other.eval(), first, 0, None)  # raises now what the test would find
    state, no_graphs = TrainingState(started=now()), cast(Any, SimpleNamespace(usable=False))
    training.train(other, AdamW(other, recipe), made, run.train_length, recipe, run.seed, state, graphs=no_graphs)
    if state.diverged:
        raise InputError(f"the model diverged on {run.task} at step {state.step}, and is as before that step")
    TRAINED[model] = state
    return model.eval()


def runs_of(suite: Suite, tasks: Sequence[str], name: str, seed: int) -> list[Run]:
    """The runs of a model. Lengths are the suite's own, as in ``load_task``; runs of encodings have those of their block."""
    return plan_runs(suite.model_copy(update={"blocks": [], "learning_rates": []}), [name], tasks, [seed])


def evaluate_model(
    model: Callable[[Tensor], Any],
    suite_or_task: AnyTask = "quick",
    task: AnyTask | None = None,
    *,
    lengths: Sequence[int] | None = None,
    name: str = "model",
) -> pd.DataFrame:
    """Test any causal model by the exact match of its greedy answers, as runs of a suite are tested.

    Arguments:
        model: maps token ids [B, T], padded on the right, to logits [B, T, V] of each next token, or to an object with such
            ``logits``, as models of ``transformers`` do. A torch module is put into evaluation mode.
        suite_or_task, task: a suite, and one of its tasks if not all; or a task alone, as in suite ``small``, or yours.
        lengths: test lengths in place of those of the suite, at most its longest.
        name: of the model, in the column ``encoding``.

    Returns:
        One row per task and test length, with the columns of ``lprime.results``; ``origin`` is ``model``. Steps, loss and times
        are those of the last ``lprime.train`` of the model, if any.

    Raises:
        InputError: an unknown name, a length out of range, logits of another shape, or a logit that depends on later tokens.
    """
    text, *given = references_of(suite_or_task, *([] if task is None else [task]))
    place, tasks = holding("small", [text]) if registry.is_task(text) and not given else holding(text, given)
    loaded = load_suite(place)
    empty: dict[str, Any] = {"year": 0, "link": "", "settings": {}, "source_sha256": ""}
    record = EncodingRecord(name=name, title=name, family="model", ranking="standard", **empty)

    def result(run: Run) -> Result:
        start, suite, asked = time.monotonic(), run.recipe_suite, list[object]()
        state = TRAINED.get(model) if isinstance(model, nn.Module) else None
        other: Any = Other(model, len(suite.make_task(run.task).vocabulary), run.recipe.precision)

        def test(task: Task, sets: Mapping[int, Examples]) -> list[LengthScore]:
            if lengths is not None:  # at which further tests have no examples
                given = [] if asked else sorted({*map(int, lengths)})
                asked.append(sets := {n: task.test_examples(n, suite.test_examples, suite.test_seed) for n in given})
            return evaluate(other, task, sets, suite.test_seed)

        begun = state or TrainingState(started=now())
        return tested(run, other, begun, test, lambda: time.monotonic() - start, encoding=record)

    frame = build_frame(map(result, runs_of(loaded, tasks, name, loaded.seeds[0])), "model")
    return tidy(frame).assign(fingerprint=loaded.fingerprint)
