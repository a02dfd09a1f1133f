"""The judge's side of a model: embedding, head, loss, weights and optimizer are here; a sealed process computes the layers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import ValidationError
from torch import Tensor, nn

from bench.encodings import Encoding, Setup, Stage
from bench.encodings.nope import NoPE
from bench.result import EncodingRecord, Record, first_fault
from bench.runs.run import Run
from bench.runs.run_training import encoding_setup
from bench.training.batches import Batch, Layout
from bench.training.model import Decoder
from bench.training.train import derive_seed, target_logits
from tasks import PAD

from .process import SealedError, SealedProcess


class Declaration(Record):
    """What the process says of the encoding."""

    encoding: EncodingRecord
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
        self.shared_weights = [p for part in (self.blocks, self.norm, self.encoding) for p in part.parameters()]
        """Those that the process needs; it has them in the same order."""

    def send_weights(self) -> None:
        self.process.send("weights", [p.detach().numpy() for p in self.shared_weights])

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
        shown = tokens if self.shows_tokens else torch.zeros_like(tokens)
        arrays = [part.numpy() for part in (shown, rows, layout.row_of, layout.cell_of) if part is not None]
        values = {"announced_length": announced_length, "seed": generator.initial_seed()}
        values |= {"training": self.training, "after_stage": self.after_stage}
        if self.training:
            self.send_weights()
        return SealedPass.apply(self.process, arrays, values, x, *self.shared_weights)


class SealedPass(torch.autograd.Function):
    """The layers, forward and backward, in a sealed process."""

    @staticmethod
    def forward(ctx, process, arrays, values, x, *weights):
        process.send("states", [x.detach().numpy(), *arrays], **values)
        ctx.process, ctx.shapes = process, [tuple(tensor.shape) for tensor in (x, *weights)]
        return tensors_in(process.answer("states")[0], [(len(arrays[1]), x.shape[1])])[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        ctx.process.send("gradients", [gradient.numpy()])
        return None, None, None, *tensors_in(ctx.process.answer("gradients")[0], ctx.shapes)


def tensors_in(arrays: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The arrays of a message as float32 tensors; raises ``SealedError`` if they have other shapes."""
    found = [array.shape for array in arrays]
    if found != list(shapes):
        given = next((pair for pair in zip(found, shapes, strict=False) if pair[0] != pair[1]), (len(found), len(shapes)))
        raise SealedError("sent an array of shape {}, expected {}".format(*given))
    return [torch.from_numpy(array.astype(np.float32)) for array in arrays]


def accepted(
    said: EncodingRecord, setup: Setup, plugin: bool, arrays: Sequence[np.ndarray], declared: Mapping[str, Any]
) -> Encoding:
    """The encoding as the judge holds it: what the process declares, and its initial weights.

    Raises:
        SealedError: the declaration is impossible, or differs from the submission.
    """
    try:
        found = Declaration.model_validate(declared)
    except ValidationError as error:
        raise SealedError(f"declares something impossible ({first_fault(error)})") from None
    same = {"source_sha256": said.source_sha256}  # which the judge has computed
    declares, says = (one.model_dump() for one in (found.encoding.model_copy(update=same), said))
    if differ := [f"{name} {declares[name]!r:.80} and not {says[name]!r:.80}" for name in says if declares[name] != says[name]]:
        raise SealedError(f"the code says of itself other than its submission: {'; '.join(differ)}")
    if found.stage and (faults := list(found.stage.faults(said.ranking, plugin))):
        raise SealedError("; ".join(faults))
    if wrong := [array.dtype for array in arrays if array.dtype != np.float32]:
        raise SealedError(f"parameters of type {wrong[0]}; expected float32")

    class Declared(Encoding):
        info = replace(NoPE.info, name=said.name, random=found.random)
        stage = found.stage

    encoding = Declared(setup)
    encoding.weights = nn.ParameterList([torch.from_numpy(array.copy()) for array in arrays])
    return encoding


def revealed_logits(model: Decoder, batch: Batch, announced_length: int, generator: torch.Generator) -> Float[Tensor, "M V"]:
    """Logits of each target token before it is known: the model sees a prompt, predicts, and only then sees the next token.

    Every causal encoding predicts the same in one teacher-forced pass, up to rounding.
    """
    tokens, example_of = batch.tokens.numpy(), batch.example_of.numpy()
    cells = batch.target_rows if batch.layout.cell_of is None else batch.layout.cell_of[batch.target_rows]
    known = cells.numpy() % tokens.shape[1] + 1  # tokens before each target
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
