"""The model: a pre-norm decoder, the same for every encoding, which calls the encoding's hooks in their order."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from .batches import Batch
from .encodings import At, Encoding, Setup, hooks
from .layout import Layout
from .suite import ModelSpec

SHAPES = 64
"""Shapes whose position tables are kept."""

# On a GPU cuDNN's attention is chosen for some encodings and not for others, and with a bias it has given wrong numbers: no
# number for the gradient of q at 64, 192, … tokens (pytorch/pytorch issue 196678), masks misread (191612).
torch.backends.cuda.enable_cudnn_sdp(False)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); no biases in the linear maps, no dropout."""

    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.heads = spec.heads
        self.attention_norm = nn.LayerNorm(spec.width)
        self.qkv = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.out = nn.Linear(spec.width, spec.width, bias=False)
        self.mlp_norm = nn.LayerNorm(spec.width)
        self.up = nn.Linear(spec.width, spec.mlp_width, bias=False)
        self.down = nn.Linear(spec.mlp_width, spec.width, bias=False)

    def forward(
        self, x: Float[Tensor, "N D"], encoding: Encoding, context: "Context", layer: int, rows: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "N D"] | Float[Tensor, "M D"]:
        """
        Arguments:
            rows: the only rows that are wanted. What follows attention is then left out for the others.
        """
        layout = context.layout
        if context.embeds:
            places = [replace(at, layer=layer) for at in context.places]
            x = layout.collect([encoding.embed(part, at) for (part,), at in zip(layout.spread(x), places, strict=True)])
        h = self.attention_norm(x)
        inputs = cache(lambda: [part for (part,) in layout.spread(h)])
        parts = zip(layout.spread(self.qkv(h), self.apart), context.places, context.masks, strict=True)
        mixed = []
        for n, ((q, k, v), at, mask) in enumerate(parts):
            at = replace(at, layer=layer, source=lambda n=n: inputs()[n])  # type: ignore[misc]
            q, k = encoding.rotate(q, k, at)
            bias = mask(encoding.bias(q, k, at), q)
            mixed.append(encoding.attend(q, k, v, bias, at).transpose(1, 2).flatten(2))
        x = (x if rows is None else x[rows]) + self.out(layout.collect(mixed, rows))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))

    def apart(self, qkv: Float[Tensor, "B T 3*D"]) -> tuple[Float[Tensor, "B H T d"], ...]:
        """Queries, keys and values, as views."""
        return qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()


class Mask:
    """Puts −∞ in place of later keys. Layers that share one bias tensor share its masked form too."""

    def __init__(self, causal: bool):
        self.causal = causal
        self.last: tuple[Tensor | None, Tensor | None] = (None, None)

    def __call__(self, bias: Float[Tensor, "*B H T T"] | None, q: Float[Tensor, "B H T d"]) -> Tensor | None:
        """The bias as attention takes it; ``q`` gives T, and the dtype, which autocast may have lowered."""
        if bias is None:
            return None
        last, masked = self.last
        if bias is last and masked is not None and masked.dtype == q.dtype:
            return masked
        masked = bias
        if self.causal:
            later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
            masked = torch.where(later, float("-inf"), bias)
        masked = masked.to(q.dtype)
        if bias.ndim < 4 or len(bias) == 1:  # one that holds for a single batch would only be kept from being freed
            self.last = bias, masked
        return masked


@dataclass(frozen=True)
class Context:
    """What all layers of one forward pass share."""

    layout: Layout
    places: list[At]
    """Of each rectangle, with position ids and what ``prepare`` made of them."""
    masks: list[Mask]
    embeds: bool
    """Whether the encoding touches the residual stream at all."""


class Decoder(nn.Module):
    """A decoder of ``spec`` over a vocabulary, with an encoding in its hooks.

    Arguments:
        make_encoding: called last, so that at equal seeds the rest of the model starts the same whatever the encoding.
        causal: False only for the check of permutation equivariance.
    """

    def __init__(self, spec: ModelSpec, symbols: int, make_encoding: Callable[[], Encoding], causal: bool = True):
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(symbols, spec.width)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, symbols, bias=False)
        self.init(spec)
        self.encoding = make_encoding()
        used = hooks(type(self.encoding))
        self.embeds = "embed" in used
        # Without parameters and draws, what ids 0 … T − 1 give is the same in every pass, and is kept by shape.
        parameters = any(True for _ in self.encoding.parameters())
        self.fixed = not (parameters or self.encoding.info.random or "positions" in used)
        self.known: dict[Hashable, tuple[At, Mask]] = {}

    def init(self, spec: ModelSpec) -> None:
        """ "fan-in normal": N(0, 1/inputs) for every matrix, the two that write to the stream scaled by 1/√(2·layers)."""
        nn.init.normal_(self.embedding.weight)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2 and name != "embedding.weight":
                scale = (2 * spec.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                nn.init.normal_(parameter, std=scale * parameter.shape[1] ** -0.5)

    def forward(
        self, tokens: Int[Tensor, "B T"], nominal: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "B T D"]:
        """Hidden states after the last norm; ``logits`` reads tokens from any rows of them.

        Arguments:
            nominal: tokens the sequences were announced to have (see ``At.nominal``).
            generator: the only source of randomness for encodings that draw.
        """
        layout = Layout(((tokens.shape[0], tokens.shape[1]),))
        return self.states((tokens,), layout, nominal, generator).view(*tokens.shape, -1)

    def read(self, batch: Batch, nominal: int, generator: torch.Generator | None = None) -> Float[Tensor, "M D"]:
        """Hidden states at the batch's places alone, where the answer is predicted."""
        return self.states(batch.tokens, batch.layout, nominal, generator, batch.places)

    def states(
        self,
        tokens: Sequence[Int[Tensor, "B T"]],
        layout: Layout,
        nominal: int,
        generator: torch.Generator | None = None,
        rows: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "N D"] | Float[Tensor, "M D"]:
        context = self.context(tokens, layout, nominal, generator)
        cells = torch.cat([part.flatten() for part in tokens])
        x = self.embedding(cells if layout.cell_of is None else cells[layout.cell_of])
        for layer, block in enumerate(self.blocks):
            x = block(x, self.encoding, context, layer, rows if layer == len(self.blocks) - 1 else None)
        return self.norm(x)

    def context(
        self, tokens: Sequence[Int[Tensor, "B T"]], layout: Layout, nominal: int, generator: torch.Generator | None
    ) -> Context:
        """Position ids, what ``prepare`` makes of them, and masks, for each rectangle."""
        places, masks = [], []
        for part in tokens:
            key = (part.shape[1], nominal, part.device, torch.is_inference_mode_enabled())
            if self.fixed and key in self.known:
                at, mask = self.known[key]
            else:
                at, mask = At(nominal, generator=generator, causal=self.causal), Mask(self.causal)
                at = replace(at, ids=self.encoding.positions(part, at))
                at = replace(at, shared=self.encoding.prepare(at))
                if self.fixed:
                    self.known[key] = at, mask
                    if len(self.known) > SHAPES:
                        del self.known[next(iter(self.known))]
            places.append(replace(at, generator=generator))
            masks.append(mask)
        return Context(layout, places, masks, self.embeds)

    def logits(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Scores of the next token."""
        return self.head(hidden)


def build(spec: ModelSpec, encoding: type[Encoding], setup: Setup, seed: int) -> Decoder:
    """A model whose start hangs on the seed alone, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec, len(setup.symbols), lambda: encoding.make(setup))
