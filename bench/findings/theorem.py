"""Positions without an encoding, by weights that are constructed by hand (after Kazemnejad et al. 2023, theorems 1 and 2).

A causal decoder without positional encoding sees ``<bos>`` from every token, so attention that is uniform over the keys
gives it the weight 1/(i + 1) at token i. The construction uses ``bench.training.model.Decoder``, with its norms and GELU,
in float64:

1. Layer 0, attention: q = k = 0, so the weights are uniform; v is 1 at ``<bos>`` and 0 elsewhere. The stream gets 1/(i + 1).
2. Layer 0, MLP: a piecewise linear function of that feature, with one hidden unit for each of T positions, so that it takes any
   prescribed values there. It erases 1/(i + 1) and writes u = i/T and w = √(1 − u²), and cos ωi and sin ωi. The position
   **i = T·u is in the residual stream**.
3. Layer 1, attention: u² + w² = cos² + sin² = 1, so the norm divides by the same number at every token, and q and k are
   linear in these features. Head 0 has the logits −λ(i − j), which are those of ALiBi, and head 1 β·cos ω(i − j − 1), a
   rotation as in RoPE, which looks at the token before. **Both depend on i − j alone.**

Every feature f comes with −f, so that the mean that a norm subtracts is 0. Tokens also have a random part, on which nothing
above depends. The MLP grows with the number of positions; the proof of the paper needs that too (universal approximation).
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from bench.encodings import Setup
from bench.encodings.nope import NoPE
from bench.probe.reading import Attention, read_attention, read_states
from bench.suites.parts import ModelSpec
from bench.training.model import Block, Decoder

SYMBOLS, WIDTH, HEADS = 12, 24, 2
HALF, HEAD_WIDTH = WIDTH // 2, WIDTH // HEADS
CONSTANT, BOS, SHARE, U, W, COS, SIN, TOKEN = range(8)
"""Features of the stream; −f is ``HALF`` further, and the last four pairs are the token's."""
EPSILON = 1e-5
"""That of the norms."""
SLOPE, PEAK = 0.5, 1000.0
"""λ of head 0 and β of head 1."""
SEQUENCES = 4
STEEP = 40.0
"""GELU(x) is x or 0 to float64's precision beyond this."""


@dataclass(frozen=True)
class TheoremCheck:
    """What the constructed model computes, and how far it is from the theorem."""

    positions: int
    read: Float[Tensor, " T"]
    """T·u of each token."""
    attention: Float[Tensor, "H T T"]
    """Weights of layer 1."""
    errors: dict[str, float]
    """Claim → largest deviation from it, over several sequences."""


def spec_of(layers: int, width: int, heads: int, mlp_width: int) -> ModelSpec:
    return ModelSpec(
        layers=layers, width=width, heads=heads, mlp_width=mlp_width, norm="pre-layernorm", activation="gelu",
        score_scale="1/sqrt(d)", dropout=0, init="fan-in normal",
    )  # fmt: skip


def set_norm(norm: torch.nn.LayerNorm, pairs: int) -> None:
    """Make a norm the identity on a stream whose pairs have squares that add to ``pairs``."""
    torch.nn.init.constant_(norm.weight, math.sqrt(2 * pairs / WIDTH + EPSILON))


def write(weight: Tensor, feature: int, column: int, value: float | Tensor) -> None:
    """Let a linear map write to a feature and its negative."""
    weight[feature, column], weight[feature + HALF, column] = value, -value


@torch.no_grad()
def construct(positions: int) -> Decoder:
    """The model for up to ``positions`` tokens, ``<bos>`` (token 0) included."""
    setup = Setup(2, WIDTH, HEADS, HEAD_WIDTH, positions, positions, positions, positions)
    model = Decoder(spec_of(2, WIDTH, HEADS, positions), SYMBOLS, partial(NoPE, setup)).double()
    first, second = (block for block in model.blocks if isinstance(block, Block))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and name != "embedding.weight":
            parameter.zero_()
    random = torch.randn(SYMBOLS, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    embedding = torch.zeros(SYMBOLS, HALF, dtype=torch.float64)
    embedding[:, CONSTANT], embedding[:, BOS] = 1, -1
    embedding[0, BOS] = 1
    embedding[:, TOKEN + 1 :] = random / random.norm(dim=1, keepdim=True)
    model.embedding.weight.copy_(torch.cat([embedding, -embedding], 1))

    # Layer 0, attention: head 0 averages (constant + bos)/2 over the keys.
    set_norm(first.attention_norm, 3)
    first.qkv.weight[2 * WIDTH, [CONSTANT, BOS]] = 0.5
    write(first.out.weight, SHARE, 0, 1.0)

    # Layer 0, MLP: the norm keeps only the share, as y, and puts a 1 in place of the constant.
    i = torch.arange(positions, dtype=torch.float64)
    share = 1 / (i + 1)
    y = share / ((3 + share**2) * 2 / WIDTH + EPSILON).sqrt()
    first.mlp_norm.weight.zero_()
    first.mlp_norm.bias.zero_()
    first.mlp_norm.weight[SHARE] = first.mlp_norm.bias[CONSTANT] = 1
    u, omega = i / positions, 2 * math.pi / positions
    wanted = {SHARE: -share, U: u, W: (1 - u**2).sqrt(), COS: (omega * i).cos(), SIN: (omega * i).sin()}
    y, order = y.flip(0), i.long().flip(0)  # ascending
    steep = STEEP / float(y.diff().min())
    first.up.weight[:, SHARE] = steep
    first.up.weight[:, CONSTANT] = -steep * torch.cat([y[:1], y[:-1]])  # unit m > 0 is steep·max(0, y − y[m − 1]) …
    first.up.weight[0] = 0
    first.up.weight[0, CONSTANT] = STEEP  # … and unit 0 is a constant
    for feature, values in wanted.items():
        values = values[order]
        slopes = values.diff() / y.diff()
        bends = torch.cat([slopes[:1], slopes.diff()]) / steep
        for row, sign in ((feature, 1), (feature + HALF, -1)):
            first.down.weight[row, 0] = sign * values[0] / STEEP
            first.down.weight[row, 1:] = sign * bends

    # Layer 1, attention.
    set_norm(second.attention_norm, 5)
    q, k = second.qkv.weight[:WIDTH], second.qkv.weight[WIDTH : 2 * WIDTH]
    scale = math.sqrt(HEAD_WIDTH)
    q[0, U], k[0, CONSTANT] = -scale * SLOPE * positions, 1
    q[1, CONSTANT], k[1, U] = scale * SLOPE * positions, 1
    c, s = math.cos(omega), math.sin(omega)
    q[HEAD_WIDTH, COS], q[HEAD_WIDTH, SIN], k[HEAD_WIDTH, COS] = scale * PEAK * c, scale * PEAK * s, 1
    q[HEAD_WIDTH + 1, SIN], q[HEAD_WIDTH + 1, COS], k[HEAD_WIDTH + 1, SIN] = scale * PEAK * c, -scale * PEAK * s, 1
    return model.eval()


def run_theorem(positions: int = 64, seed: int = 1) -> TheoremCheck:
    """Construct the model and check it on random sequences, which depend on the seed."""
    model = construct(positions)
    tokens = torch.randint(1, SYMBOLS, (SEQUENCES, positions), generator=torch.Generator().manual_seed(seed))
    tokens[:, 0] = 0
    layers: list[Attention] = []
    read_attention(model, tokens, positions, None, layers.append)
    states = read_states(model, tokens, positions, None)
    i = torch.arange(positions, dtype=torch.float64)
    read = positions * states[1][..., U]
    uniform, pattern = (attention.weights for attention in layers)
    assert uniform is not None and pattern is not None
    later = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    back = i[:, None] - i
    logits = torch.stack([-SLOPE * back, PEAK * torch.cos(2 * math.pi / positions * (back - 1))])
    expected = logits.masked_fill(later, -math.inf).softmax(-1)
    errors = {
        "layer 0: uniform attention, 1/(i + 1)": (uniform - (1 / (i + 1))[:, None].masked_fill(later, 0)).abs().max(),
        "layer 0: the position in the residual stream": (read - i).abs().max(),
        "layer 1, head 0: softmax of −λ(i − j), as ALiBi": (pattern[:, 0] - expected[0]).abs().max(),
        "layer 1, head 1: softmax of β cos ω(i − j − 1)": (pattern[:, 1] - expected[1]).abs().max(),
        "layer 1: the same attention whatever the tokens": (pattern - pattern[:1]).abs().max(),
    }
    return TheoremCheck(positions, read[0], pattern[0], {claim: float(error) for claim, error in errors.items()})


@torch.inference_mode()
def permutation_errors(seed: int = 0) -> dict[bool, float]:
    """Causal or not → largest difference of the hidden states of permuted tokens and the permuted hidden states.

    It is relative to the largest hidden state. The model has random weights and no encoding.
    """
    length, errors = 24, {}
    for causal in (False, True):
        setup = Setup(3, 64, 4, 16, length, length, length, length)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Decoder(spec_of(3, 64, 4, 256), SYMBOLS, partial(NoPE, setup), causal).eval()
            tokens, order = torch.randint(SYMBOLS, (4, length)), torch.randperm(length)
        states, permuted = model(tokens, length), model(tokens[:, order], length)
        errors[causal] = float((permuted - states[:, order]).abs().max() / states.abs().max())
    return errors
