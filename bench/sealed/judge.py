"""The judge's side: weights, optimizer and data are here; a sealed process computes losses, gradients and logits.

A process predicts without answers: it sees a prompt, predicts, and only then sees the next token of the answer. Every causal
encoding predicts the same in one teacher-forced pass, up to rounding.
"""

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import ValidationError
from torch import Tensor, nn

from bench.encodings import Stage
from bench.encodings.nope import NoPE
from bench.result import RankingClass, Record, first_fault
from bench.runs.run import Run
from bench.runs.run_training import encoding_setup
from bench.training.batches import Batch
from bench.training.model import build_decoder
from bench.training.train import derive_seed
from tasks import PAD, Examples

from .process import SealedError, SealedProcess
from .sandbox import Code

LOGIT_TOLERANCE = 0.05
"""Most by which a logit may change. Rounding changes logits of honest encodings by up to 0.001."""


class Declaration(Record):
    """What the process says of the encoding."""

    name: str
    ranking: RankingClass
    random: bool
    stage: Stage | None
    parameters: list[str]
    """Their names in the order of the model: arrays arrive in any order, and sums of the optimizer depend on it."""


class SealedModel(SealedProcess):
    """A model whose weights are here and whose forward and backward passes are in a sealed process.

    Looks like a ``Decoder`` to ``AdamW``, ``train`` and ``evaluate``. The initial weights of everything but the encoding are
    computed here; the process sends the weights of the encoding, which it may choose.

    Raises:
        SealedError: the process does not start, or declares something impossible.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, run: Run, code: Code):
        order = {"suite": run.recipe_suite.model_dump_json(), "task": run.task, "seed": run.seed}
        super().__init__("bench.sealed.served_model", code, **order)
        self.in_stage = False
        """Whether passes are of an extra stage, or after it: hooks may differ."""
        try:
            self.take(run, *self.answer("ready"))
        except BaseException:
            self.__exit__()
            raise

    def take(self, run: Run, arrays: Mapping[str, np.ndarray], declared: Mapping[str, object]) -> None:
        """Build the weights: ours, and the encoding's from the process."""
        try:
            self.declared = Declaration.model_validate(declared)
        except ValidationError as error:
            raise SealedError(f"declares something impossible ({first_fault(error)})") from None
        stage, names = self.declared.stage, self.declared.parameters
        if wrong := [n for n, a in arrays.items() if not n.startswith("encoding.") or a.dtype != np.float32 or n not in names]:
            raise SealedError(f"unexpected parameter {wrong[0]!r:.80}; expected float32 parameters of the encoding")
        if stage and (faults := list(stage.faults(self.declared.ranking, plugin=bool(self.code.readable)))):
            raise SealedError("; ".join(faults))
        setup = encoding_setup(run.recipe_suite, run.task)
        bare = build_decoder(run.suite.model, NoPE, setup, derive_seed("init", run.seed))
        own = {name: nn.Parameter(torch.from_numpy(arrays[name].copy())) for name in names if name in arrays}
        self.symbols, self.embedding = len(setup.symbols), bare.embedding
        self.weights: dict[str, nn.Parameter] = {**dict(bare.named_parameters()), **own}
        info = SimpleNamespace(random=self.declared.random)
        self.encoding = SimpleNamespace(stage=stage, info=info, parameters=own.values)

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.weights.items())

    def parameters(self) -> list[nn.Parameter]:
        return list(self.weights.values())

    def train(self) -> None:
        """Nothing: the mode is part of each request."""

    eval = train

    def push_weights(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Send weights, by default the present ones."""
        self.send("weights", {name: p.detach().numpy() for name, p in (weights or self.weights).items()})

    def gradients(self, examples: Examples, announced_length: int, generator: torch.Generator) -> Tensor:
        """Set the gradients of a training step and return its loss, as ``forward_backward``."""
        self.push_weights()
        values = {"announced_length": announced_length, "generator": generator.initial_seed(), "in_stage": self.in_stage}
        self.send("gradients", vars(examples), **values)
        arrays, _ = self.answer("gradients")
        loss = arrays.pop("loss", np.zeros(0))
        shapes = {name: tuple(p.shape) for name, p in self.weights.items()}
        if loss.shape != (1,) or any(shapes.get(name) != array.shape for name, array in arrays.items()):
            raise SealedError("gradients do not have the shapes of the parameters")
        for name, parameter in self.weights.items():
            parameter.grad = torch.from_numpy(arrays[name].astype(np.float32)) if name in arrays else None
        return torch.tensor(float(loss[0]))

    def logits(
        self, tokens: Int[np.ndarray, "B T"], cells: Int[np.ndarray, " M"], announced_length: int, seed: int
    ) -> Float[Tensor, "M V"]:
        """Logits of the tokens that follow some cells of a padded batch, in evaluation.

        Arguments:
            cells: indices into the flattened batch.
        """
        values = {"announced_length": announced_length, "generator": seed, "in_stage": self.in_stage}
        self.send("logits", {"tokens": tokens, "cells": cells}, **values)
        found = self.answer("logits")[0].get("logits", np.zeros(0))
        if found.shape != (len(cells), self.symbols):
            raise SealedError(f"logits have shape {found.shape}, expected {(len(cells), self.symbols)}")
        return torch.from_numpy(found.astype(np.float32))


def compared_logits(
    trained: SealedModel, tested: SealedModel, batch: Batch, announced_length: int, generator: torch.Generator
) -> Float[Tensor, "M V"]:
    """Logits of the target tokens by the tested process, which never sees an answer that it has not predicted.

    They differ from what the training process computes, which sees the answers, if predictions depend on later tokens or on
    earlier passes. Random encodings may draw other numbers at other lengths, so both processes see the same of them.

    Raises:
        SealedError: the two differ.
    """
    seed = generator.initial_seed()
    logits = reveal(tested, batch, announced_length, seed)
    if tested.encoding.info.random:
        other = reveal(trained, batch, announced_length, seed)
    else:
        other = trained.logits(batch.tokens.numpy(), target_cells(batch), announced_length, seed)
    change = float((logits - other).abs().nan_to_num(torch.inf).max())
    if change > LOGIT_TOLERANCE:
        raise SealedError(
            f"sequences announced as {announced_length} tokens: logits change by {change:.3g} in the process that has trained, "
            "with the answer in view"
        )
    return logits


def target_cells(batch: Batch) -> Int[np.ndarray, " M"]:
    """The cell of the padded batch before each target token."""
    rows, cell_of = batch.target_rows, batch.layout.cell_of
    return (rows if cell_of is None else cell_of[rows]).numpy()


def reveal(model: SealedModel, batch: Batch, announced_length: int, seed: int) -> Float[Tensor, "M V"]:
    """Logits of each target token before it is known."""
    tokens, example_of = batch.tokens.numpy(), batch.example_of.numpy()
    known = target_cells(batch) % tokens.shape[1] + 1  # tokens before each target
    _, begin, count = np.unique(example_of, return_index=True, return_counts=True)
    place, column = known - known[begin][example_of], np.arange(tokens.shape[1])
    found = torch.zeros(len(known), model.symbols)
    for now in range(int(count.max())):
        # Rows stay in the batch to its end, so that random draws do not change; a finished one repeats its last prefix.
        sizes = known[begin + np.minimum(now, count - 1)]
        shown = np.where(column < sizes[:, None], tokens, PAD)[:, : int(sizes.max())]
        cells = np.arange(len(shown)) * shown.shape[1] + sizes - 1
        logits = model.logits(np.ascontiguousarray(shown), cells, announced_length, seed)
        found[place == now] = logits[example_of[place == now]]
    return found
