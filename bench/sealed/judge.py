"""The judge's side of a model: embedding, head, loss, weights and optimizer are here.

A sealed process computes the tables of an encoding that needs positions only (``tables``), and the layers of any other one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, ValidationError
from torch import Tensor, nn

from bench.encodings import At, Setup, Stage
from bench.encodings.nope import NoPE
from bench.result import EncodingRecord, Record, first_fault
from bench.runs.run import Run
from bench.runs.run_training import encoding_setup
from bench.training.batches import Batch, Layout
from bench.training.model import Decoder
from bench.training.train import derive_seed, target_logits
from tasks import PAD

from .process import SealedError, SealedProcess
from .tables import FromTables, Tables


class Declaration(Record):
    """What the process says of the encoding."""

    encoding: EncodingRecord
    random: bool
    stage: Stage | None
    tables: tuple[Literal["embed", "rotate", "bias"], ...] | None
    """Hooks that it has tables of; None: it sees content."""
    rotated: Annotated[int, Field(ge=1, le=4096)]
    """Width of queries and keys after ``rotate``."""
    flops: Annotated[int, Field(ge=0, le=2**53)]
    """See ``count_flops``; its own process counts them."""


class SealedModel(Decoder):
    """A model whose weights are here, and whose layers, or tables of the encoding, a sealed process computes.

    For layers the process gets the rows of the embedding, without token ids unless the encoding is declared as ``task-aware``,
    and returns hidden states; it gets their gradients and returns gradients of rows and weights. For tables it gets lengths,
    and gradients of the tables. It chooses the encoding's initial weights.

    Arguments:
        process: runs ``served_model``.
        said: what the submission says of the encoding.
        secret: of which initial weights depend, so that code which knows all seeds cannot train the same model by itself;
            None: they are those of any run.
        tables: whether an encoding that needs positions only may give tables.

    Raises:
        SealedError: the process ended, or declares something impossible or something other than its submission.
    """

    def __init__(self, run: Run, process: SealedProcess, said: EncodingRecord, secret: int | None, tables: bool = True):
        self.process = process
        setup, aware = encoding_setup(run.recipe_suite, run.task), said.ranking == "task-aware"
        shown = setup if aware else replace(setup, symbols=(), roles=())

        def build_encoding() -> Declared:
            if secret is not None:  # else the state of the generator would show the weights
                torch.manual_seed(derive_seed("encoding", run.seed, secret))
            state = torch.get_rng_state().tolist()
            process.send("build", model=run.suite.model.model_dump(), setup=asdict(shown), random_state=state, tables=tables)
            return accepted(said, shown, process, *process.answer("ready"))

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed("init", run.seed, *([] if secret is None else [secret])))
            super().__init__(run.suite.model, len(setup.symbols), build_encoding, shows_tokens=aware)
        self.encoding: Declared
        self.cacheable = False  # tables of long tests take much memory
        self.sees_content = self.encoding.declared.tables is None
        parts = (self.blocks, self.norm, self.encoding) if self.sees_content else (self.encoding,)
        self.form = self.encoding.declared, [p.shape for p in self.encoding.parameters()]
        """What the process says of itself."""
        self.shared_weights = [p for part in parts for p in part.parameters()]
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
        assert rows is not None, "only target rows are asked for"
        if self.training:
            self.send_weights()
        if not self.sees_content:
            return super().packed_states(tokens, layout, announced_length, generator, rows)
        cells = tokens.flatten()
        x = self.embedding(cells if layout.cell_of is None else cells[layout.cell_of])
        shown = tokens if self.shows_tokens else torch.zeros_like(tokens)
        arrays = [part.numpy() for part in (shown, rows, layout.row_of, layout.cell_of) if part is not None]
        asked = [x.detach().numpy(), *arrays], pass_values(announced_length, generator, self.training, self.after_stage)
        shapes = [(len(rows), x.shape[1])]
        return SealedPass.apply(self.process, "states", *asked, shapes, x, *self.shared_weights)[0]


def pass_values(announced_length: int, generator: torch.Generator | None, training: bool, after_stage: bool) -> dict[str, Any]:
    """The values of a message that asks for a computation."""
    assert generator is not None
    seed = generator.initial_seed()
    return {"announced_length": announced_length, "seed": seed, "training": training, "after_stage": after_stage}


class SealedPass(torch.autograd.Function):
    """A computation in a sealed process, forward and backward."""

    @staticmethod
    def forward(ctx, process, kind, arrays, values, shapes, *inputs):
        process.send(kind, arrays, **values)
        ctx.process, ctx.shapes = process, [tuple(tensor.shape) for tensor in inputs]
        return tuple(tensors_in(process.answer(kind)[0], shapes))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        ctx.process.send("gradients", [gradient.numpy() for gradient in gradients])
        return None, None, None, None, None, *tensors_in(ctx.process.answer("gradients")[0], ctx.shapes)


def tensors_in(arrays: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The arrays of a message as tensors; raises ``SealedError`` if they are not float32, or have other shapes."""
    found = [array.shape for array in arrays]
    if found != list(shapes):
        given = next((pair for pair in zip(found, shapes, strict=False) if pair[0] != pair[1]), (len(found), len(shapes)))
        raise SealedError("sent an array of shape {}, expected {}".format(*given))
    if wrong := [array.dtype for array in arrays if array.dtype != np.float32]:
        raise SealedError(f"sent an array of type {wrong[0]}; expected float32")
    return [torch.from_numpy(array.copy()) for array in arrays]


class Declared(FromTables):
    """An encoding as the judge holds it: what its process declares, its weights, and a way to ask for its tables."""

    def __init__(self, setup: Setup, declared: Declaration, process: SealedProcess, weights: Sequence[Tensor]):
        super().__init__(setup)
        self.declared, self.process, self.stage = declared, process, declared.stage  # type: ignore[misc]
        self.info = replace(NoPE.info, name=declared.encoding.name, random=declared.random)  # type: ignore[misc]
        self.weights = nn.ParameterList(weights)

    def prepare(self, at: At) -> Tables:
        """The tables of all layers."""
        setup, count, hooks = self.setup, len(at.positions), self.declared.tables
        if not hooks:
            return [{}] * setup.layers
        turned = (setup.head_width, setup.heads, count, self.declared.rotated)
        known: dict[str, list[tuple[int, ...]]] = {"embed": [(1, count, setup.width)], "rotate": [turned, turned]}
        known |= {"bias": [(1, setup.heads, count, count)]}
        shapes = [shape for hook in hooks for shape in known[hook]] * setup.layers
        asked = pass_values(at.announced_length, at.generator, self.training, at.after_stage) | {"count": count}
        found: Any = iter(SealedPass.apply(self.process, "tables", [], asked, shapes, *self.weights))
        return [{hook: [next(found) for _ in known[hook]] for hook in hooks} for _ in range(setup.layers)]


def accepted(
    said: EncodingRecord, setup: Setup, process: SealedProcess, arrays: Sequence[np.ndarray], declared: Mapping[str, Any]
) -> Declared:
    """The encoding as the judge holds it.

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
    if found.stage and (faults := list(found.stage.faults(said.ranking, plugin=bool(process.code.readable)))):
        raise SealedError("; ".join(faults))
    return Declared(setup, found, process, tensors_in(arrays, [array.shape for array in arrays]))


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
