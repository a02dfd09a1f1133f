"""The model: a pre-norm decoder-only transformer, the same for every encoding, which calls the encoding's hooks.

Shape legend: see ``layout``; H heads of width d, D = H·d features of the residual stream, V symbols of the vocabulary.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from bench.encodings import At, Encoding, Setup, hooks
from bench.suites.suite import ModelSpec
from tasks import InputError

from .batches import Batch
from .layers import Embedding, LayerNorm, Linear
from .layout import Layout

MAX_CACHED_SHAPES = 64
"""Number of shapes whose position tables are cached."""

# torch would use cuDNN's attention for some encodings only, and with a bias it has given wrong numbers: NaN in the gradient of
# q at 64, 192, … tokens (pytorch/pytorch issue 196678), masks misread (191612).
torch.backends.cuda.enable_cudnn_sdp(False)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); no biases in the linear maps, no dropout."""

    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.heads = spec.heads
        self.attention_norm = LayerNorm(spec.width)
        self.qkv = Linear(spec.width, 3 * spec.width)
        self.out = Linear(spec.width, spec.width)
        self.mlp_norm = LayerNorm(spec.width)
        self.up = Linear(spec.width, spec.mlp_width)
        self.down = Linear(spec.mlp_width, spec.width)

    def forward(
        self, x: Float[Tensor, "N D"], encoding: Encoding, context: "Context", layer: int, rows: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "N D"] | Float[Tensor, "M D"]:
        """One layer; every hook sees padded buckets, and the rest works on packed rows.

        Arguments:
            rows: the rows to return, by default all. Everything after attention is computed for these only.
        """
        layout = context.layout
        if context.embeds:
            parts = [part for (part,) in layout.pad(x)]
            embedded = [encoding.embed(part, replace(at, layer=layer)) for part, at in zip(parts, context.ats, strict=True)]
            if any(new is not old for new, old in zip(embedded, parts, strict=True)):  # most change the first layer only
                x = layout.unpad(embedded)
        h = self.attention_norm(x)
        inputs = cache(lambda: [part for (part,) in layout.pad(h)])
        mixed = []
        for n, ((q, k, v), at) in enumerate(zip(layout.pad(self.qkv(h), self.split_heads), context.ats, strict=True)):
            at = replace(at, layer=layer, source=lambda n=n: inputs()[n])  # type: ignore[misc]
            q, k = encoding.rotate(q, k, at)
            # By default softmax(q·kᵀ/√d + bias)·v over keys j ≤ i, see ``bench.encodings.attention_kernel``.
            mixed.append(encoding.attend(q, k, v, encoding.bias(q, k, at), at).transpose(1, 2).flatten(2))
        x = (x if rows is None else x.index_select(0, rows)) + self.out(layout.unpad(mixed, rows))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))

    def split_heads(self, qkv: Float[Tensor, "B T 3*D"]) -> tuple[Float[Tensor, "B H T d"], ...]:
        """Queries, keys and values of all heads, as views."""
        return qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()


@dataclass(frozen=True)
class Context:
    """Values that all layers of a forward pass share."""

    layout: Layout
    ats: list[At]
    """For each bucket: position ids, and what ``prepare`` returned for them."""
    embeds: bool
    """Whether the encoding overrides ``embed``."""


class Decoder(nn.Module):
    """A decoder over a vocabulary of ``symbols``, with an encoding.

    Arguments:
        make_encoding: called last, so that the initial weights of the rest depend only on the seed and not on the encoding.
        causal: False only to check permutation equivariance.
        shows_tokens: whether ``positions`` gets the tokens; otherwise zeros in their shape.
    """

    def __init__(
        self,
        spec: ModelSpec,
        symbols: int,
        make_encoding: Callable[[], Encoding],
        causal: bool = True,
        shows_tokens: bool = False,
    ):
        super().__init__()
        self.causal, self.shows_tokens = causal, shows_tokens
        self.embedding = Embedding(symbols, spec.width)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, symbols, bias=False)
        self.init(spec)
        self.encoding = make_encoding()
        used = hooks(type(self.encoding))
        self.embeds = "embed" in used
        self.in_stage = False
        """Whether the present training step is one of an extra stage."""
        self.before_stage = False
        """Whether to evaluate as before that stage, to compare with its training."""
        # Without parameters, randomness and its own position ids, `prepare` depends only on the shape.
        parameters = any(True for _ in self.encoding.parameters())
        self.cacheable = not (parameters or self.encoding.info.random or "positions" in used)
        self.cache: dict[Hashable, At] = {}

    def init(self, spec: ModelSpec) -> None:
        """Embeddings are N(0, 1), matrices N(0, 1/inputs); the two that write to the stream are scaled by 1/√(2·layers)."""
        nn.init.normal_(self.embedding.weight)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2 and name != "embedding.weight":
                scale = (2 * spec.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                nn.init.normal_(parameter, std=scale * parameter.shape[1] ** -0.5)

    def forward(
        self, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "B T D"]:
        """Hidden states after the last norm, the input of ``logits``.

        Arguments:
            announced_length: see ``At.announced_length``, in tokens.
            generator: the only source of randomness of encodings that draw random numbers.
        """
        layout = Layout(((tokens.shape[0], tokens.shape[1]),))
        return self.packed_states((tokens,), layout, announced_length, generator).view(*tokens.shape, -1)

    def target_states(
        self, batch: Batch, announced_length: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "M D"]:
        """Hidden states of the batch's target rows, which predict the answer."""
        return self.packed_states(batch.tokens, batch.layout, announced_length, generator, batch.target_rows)

    def packed_states(
        self,
        tokens: Sequence[Int[Tensor, "B T"]],
        layout: Layout,
        announced_length: int,
        generator: torch.Generator | None = None,
        rows: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "N D"] | Float[Tensor, "M D"]:
        """Hidden states of all packed rows, or of the given ones."""
        context = self.context(tokens, layout, announced_length, generator)
        cells = torch.cat([part.flatten() for part in tokens])
        x = self.embedding(cells if layout.cell_of is None else cells[layout.cell_of])
        for layer, block in enumerate(self.blocks):
            x = block(x, self.encoding, context, layer, rows if layer == len(self.blocks) - 1 else None)
        return self.norm(x)

    @property
    def after_stage(self) -> bool:
        """See ``At.after_stage``: an encoding with a stage is always tested after it."""
        return self.in_stage or (self.encoding.stage is not None and not self.training and not self.before_stage)

    def context(
        self, tokens: Sequence[Int[Tensor, "B T"]], layout: Layout, announced_length: int, generator: torch.Generator | None
    ) -> Context:
        """Position ids and results of ``prepare`` for each bucket, cached where possible."""
        ats = []
        for part in tokens:
            key = (part.shape[1], announced_length, self.after_stage, part.device, torch.is_inference_mode_enabled())
            if self.cacheable and key in self.cache:
                at = self.cache[key]
            else:
                at = At(announced_length, self.after_stage, generator=generator, causal=self.causal)
                at = replace(at, ids=self.encoding.positions(part if self.shows_tokens else torch.zeros_like(part), at))
                at = replace(at, shared=self.encoding.prepare(at))
                if self.cacheable:
                    self.cache[key] = at
                    if len(self.cache) > MAX_CACHED_SHAPES:
                        del self.cache[next(iter(self.cache))]
            ats.append(replace(at, generator=generator))
        return Context(layout, ats, self.embeds)

    def logits(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Logits of the next token."""
        return self.head(hidden)


def build_decoder(spec: ModelSpec, encoding: type[Encoding], setup: Setup, seed: int) -> Decoder:
    """A model with initial weights that depend only on the arguments, not on the global random state.

    Raises:
        InputError: the encoding's ``make`` returns an instance of another class, which may declare something else.
    """
    shown = task_aware(encoding)  # as the class says, in which results look it up, and before any of its code runs

    def make() -> Encoding:
        made = encoding.make(shown_setup(encoding, setup))
        if type(made) is not encoding:
            raise InputError(f"`make` of {encoding.info.name} returns a {type(made).__name__}; expected a {encoding.__name__}")
        return made

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec, len(setup.symbols), make, shows_tokens=shown)


def task_aware(encoding: type[Encoding]) -> bool:
    return encoding.info.ranking == "task-aware"


def shown_setup(encoding: type[Encoding], setup: Setup) -> Setup:
    """The setup as an encoding sees it: without the vocabulary unless it is ``task-aware``."""
    return setup if task_aware(encoding) else replace(setup, symbols=(), roles=())


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
