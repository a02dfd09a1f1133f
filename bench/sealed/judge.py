"""The judge's side of a model: embedding, head, loss, weights and optimizer are here; a sealed process computes the layers.

A process predicts without answers: it sees a prompt, predicts, and only then sees the next token of the answer. Every causal
encoding predicts the same in one teacher-forced pass, up to rounding.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import ValidationError
from torch import Tensor, nn

from bench.encodings import Encoding, Setup, Stage
from bench.encodings.nope import NoPE
from bench.result import EncodingRecord, RankingClass, Record, first_fault
from bench.runs.run import Run
from bench.runs.run_training import encoding_setup
from bench.training.batches import Batch, Layout
from bench.training.model import Decoder
from bench.training.train import derive_seed, target_logits
from tasks import PAD

from .process import SealedError, SealedProcess

LOGIT_TOLERANCE = 0.05
"""Most by which a logit may change. Rounding changes logits of honest encodings by up to 0.001."""


class Declaration(Record):
    """What the process says of the encoding."""

    name: str
    ranking: RankingClass
    random: bool
    stage: Stage | None


class SealedModel(Decoder):
    """A model whose weights are here, and whose layers a sealed process computes.

    The process gets the rows of the embedding, without token ids unless the encoding is declared as ``task-aware``, and returns
    hidden states; it gets their gradients and returns gradients of rows and weights. It chooses the encoding's initial weights.

    Arguments:
        process: runs ``served_model``.
        said: what the submission says of the encoding.

    Raises:
        SealedError: the process ended, or declares something impossible or something other than its submission.
    """

    def __init__(self, run: Run, process: SealedProcess, said: EncodingRecord):
        self.process = process
        setup, aware = encoding_setup(run.recipe_suite, run.task), said.ranking == "task-aware"
        shown = setup if aware else replace(setup, symbols=(), roles=())

        def build_encoding() -> Encoding:
            # Not the seed: all initial weights could be computed from it.
            state = torch.get_rng_state().tolist()
            process.send("build", model=run.suite.model.model_dump(), setup=asdict(shown), random_state=state)
            return accepted(said, shown, bool(process.code.readable), *process.answer("ready"))

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed("init", run.seed))
            super().__init__(run.suite.model, len(setup.symbols), build_encoding, shows_tokens=aware)
        own = [*self.embedding.parameters(), *self.head.parameters()]
        self.shared_weights = [p for p in self.parameters() if not any(p is ours for ours in own)]
        """Those that the process needs; it has them in the same order."""

    def send_weights(self) -> None:
        self.process.send("weights", {str(n): p.detach().numpy() for n, p in enumerate(self.shared_weights)})

    def packed_states(
        self,
        tokens: Int[Tensor, "B T"],
        layout: Layout,
        announced_length: int,
        generator: torch.Generator | None = None,
        rows: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "M D"]:
        """See ``Decoder``. In evaluation the process has the weights of the last ``send_weights``."""
        assert rows is not None and generator is not None, "only target rows are asked for"
        cells = tokens.flatten()
        x = self.embedding(cells if layout.cell_of is None else cells[layout.cell_of])
        sent = {"tokens": tokens if self.shows_tokens else torch.zeros_like(tokens), "rows": rows}
        if layout.row_of is not None and layout.cell_of is not None:
            sent |= {"row_of": layout.row_of, "cell_of": layout.cell_of}
        values = {"announced_length": announced_length, "seed": generator.initial_seed()}
        values |= {"training": self.training, "after_stage": self.after_stage}
        if self.training:
            self.send_weights()
        arrays = {name: tensor.numpy() for name, tensor in sent.items()}
        return SealedPass.apply(self.process, arrays, values, x, *self.shared_weights)


class SealedPass(torch.autograd.Function):
    """The layers, forward and backward, in a sealed process."""

    @staticmethod
    def forward(ctx, process, arrays, values, x, *weights):
        process.send("states", arrays | {"x": x.detach().numpy()}, **values)
        ctx.process, ctx.shapes = process, [tensor.shape for tensor in (x, *weights)]
        return tensor_in(process.answer("states")[0], "states", (len(arrays["rows"]), x.shape[1]))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        ctx.process.send("gradients", {"states": gradient.numpy()})
        arrays, _ = ctx.process.answer("gradients")
        names = ["x", *map(str, range(len(ctx.shapes) - 1))]
        found = [tensor_in(arrays, n, shape) if n in arrays else None for n, shape in zip(names, ctx.shapes, strict=True)]
        return None, None, None, *found


def tensor_in(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> Tensor:
    """An array of a message as a float32 tensor; raises ``SealedError`` if there is none of that shape."""
    found = arrays.get(name, np.zeros(0))
    if found.shape != tuple(shape):
        raise SealedError(f"{name} have shape {found.shape}, expected {tuple(shape)}")
    return torch.from_numpy(found.astype(np.float32))


def accepted(
    said: EncodingRecord, setup: Setup, plugin: bool, arrays: Mapping[str, np.ndarray], declared: Mapping[str, Any]
) -> Encoding:
    """The encoding as the judge holds it: what the process declares, and its initial weights.

    Raises:
        SealedError: the declaration is impossible, or differs from the submission.
    """
    try:
        found = Declaration.model_validate(declared)
    except ValidationError as error:
        raise SealedError(f"declares something impossible ({first_fault(error)})") from None
    if (found.name, found.ranking) != (said.name, said.ranking):
        described = f"{found.name!r:.80}, ranking {found.ranking!r}"
        raise SealedError(f"the code declares {described}, and its submission {said.name!r}, ranking {said.ranking!r}")
    if found.stage and (faults := list(found.stage.faults(found.ranking, plugin))):
        raise SealedError("; ".join(faults))
    if wrong := [array.dtype for array in arrays.values() if array.dtype != np.float32]:
        raise SealedError(f"parameters of type {wrong[0]}; expected float32")
    names = [str(n) for n in range(len(arrays))]  # arrays arrive in any order, and sums of the optimizer depend on it
    if arrays.keys() != {*names}:
        raise SealedError(f"parameters are not numbered from 0 to {len(arrays) - 1}")

    class Declared(Encoding):
        info = replace(NoPE.info, name=found.name, random=found.random)
        stage = found.stage

    encoding = Declared(setup)
    encoding.weights = nn.ParameterList([torch.from_numpy(arrays[name].copy()) for name in names])
    return encoding


def compared_logits(
    trained: SealedModel, tested: SealedModel, batch: Batch, announced_length: int, generator: torch.Generator
) -> Float[Tensor, "M V"]:
    """Logits of the target tokens by the tested process, which never sees an answer that it has not predicted.

    They differ from what the training process computes, which sees the answers, if predictions depend on later tokens or on
    earlier passes. Random encodings may draw other numbers at other lengths, so both processes see the same of them.

    Raises:
        SealedError: the two differ.
    """
    logits = revealed_logits(tested, batch, announced_length, generator)
    answered = revealed_logits if tested.encoding.info.random else target_logits
    change = float((logits - answered(trained, batch, announced_length, generator)).abs().nan_to_num(torch.inf).max())
    if change > LOGIT_TOLERANCE:
        raise SealedError(
            f"sequences announced as {announced_length} tokens: logits change by {change:.3g} in the process that has trained, "
            "with the answer in view"
        )
    return logits


def revealed_logits(model: Decoder, batch: Batch, announced_length: int, generator: torch.Generator) -> Float[Tensor, "M V"]:
    """Logits of each target token before it is known."""
    tokens, example_of = batch.tokens.numpy(), batch.example_of.numpy()
    known = target_cells(batch) % tokens.shape[1] + 1  # tokens before each target
    _, begin, count = np.unique(example_of, return_index=True, return_counts=True)
    place, column = known - known[begin][example_of], np.arange(tokens.shape[1])
    found = torch.zeros(len(known), model.head.out_features)
    none = torch.zeros(0, dtype=torch.long)
    for now in range(int(count.max())):
        # Rows stay in the batch to its end, so that random draws do not change; a finished one repeats its last prefix.
        sizes = known[begin + np.minimum(now, count - 1)]
        shown = np.where(column < sizes[:, None], tokens, PAD)[:, : int(sizes.max())]
        cells = torch.from_numpy(np.arange(len(shown)) * shown.shape[1] + sizes - 1)
        prefixes = Batch(torch.from_numpy(np.ascontiguousarray(shown)), Layout(shown.shape), cells, none, none)
        generator.manual_seed(generator.initial_seed())
        logits = target_logits(model, prefixes, announced_length, generator)
        found[place == now] = logits[example_of[place == now]]
    return found


def target_cells(batch: Batch) -> Int[np.ndarray, " M"]:
    """The cell of the padded batch before each target token."""
    rows, cell_of = batch.target_rows, batch.layout.cell_of
    return (rows if cell_of is None else cell_of[rows]).numpy()
