"""The model: a pre-norm decoder, the same for every encoding, which calls the encoding's hooks in their order."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from .encodings import At, Encoding, Setup
from .suite import ModelSpec


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

    def forward(self, x: Float[Tensor, "B T D"], encoding: Encoding, at: At, mask: "Mask") -> Float[Tensor, "B T D"]:
        x = encoding.embed(x, at)
        h = self.attention_norm(x)
        at = replace(at, h=h)
        # [B, T, 3D] → three of [B, H, T, d]
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = encoding.rotate(q, k, at)
        bias = mask(encoding.bias(q, k, at), q)
        x = x + self.out(encoding.attend(q, k, v, bias, at).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Mask:
    """Puts −∞ in place of later keys. Layers that share one bias tensor share its masked form too."""

    def __init__(self, causal: bool):
        self.causal = causal
        self.last: tuple[Tensor | None, Tensor | None] = (None, None)

    def __call__(self, bias: Float[Tensor, "*B H T T"] | None, q: Float[Tensor, "B H T d"]) -> Tensor | None:
        """The bias as attention takes it; ``q`` gives T, and the dtype, which autocast may have lowered."""
        if bias is None:
            return None
        if bias is not self.last[0]:
            masked = bias
            if self.causal:
                later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
                masked = torch.where(later, float("-inf"), bias)
            self.last = bias, masked.to(q.dtype)
        return self.last[1]


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
        at = At(nominal, generator=generator, causal=self.causal)
        at = replace(at, ids=self.encoding.positions(tokens, at))
        at = replace(at, shared=self.encoding.prepare(at))
        mask = Mask(self.causal)
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, self.encoding, replace(at, layer=layer), mask)
        return self.norm(x)

    def logits(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Scores of the next token."""
        return self.head(hidden)


def build(spec: ModelSpec, encoding: type[Encoding], setup: Setup, seed: int) -> Decoder:
    """A model whose start hangs on the seed alone, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec, len(setup.symbols), lambda: encoding.make(setup))
