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
from functools import partial

import torch
from torch.nn import functional as F

from bench.encodings import Setup
from bench.encodings.nope import NoPE
from bench.probe.reading import Attention, read_attention, read_states
from bench.suites.suite import load_suite
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


def set_norm(norm: torch.nn.LayerNorm, pairs: int) -> None:
    """Make a norm the identity on a stream whose pairs have squares that add to ``pairs``."""
    torch.nn.init.constant_(norm.weight, math.sqrt(2 * pairs / WIDTH + EPSILON))


@torch.no_grad()
def construct(positions: int) -> Decoder:
    """The model for up to ``positions`` tokens, ``<bos>`` (token 0) included."""
    setup = Setup(2, WIDTH, HEADS, HEAD_WIDTH, positions, positions, positions, positions)
    spec = load_suite("small").model.model_copy(update={"layers": 2, "width": WIDTH, "heads": HEADS, "mlp_width": positions})
    model = Decoder(spec, SYMBOLS, partial(NoPE, setup)).double()
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
    first.out.weight[SHARE, 0], first.out.weight[SHARE + HALF, 0] = 1, -1

    # Layer 0, MLP: the norm keeps only the share, as y, and puts a 1 in place of the constant.
    i = torch.arange(positions, dtype=torch.float64)
    share, u, omega = 1 / (i + 1), i / positions, 2 * math.pi / positions
    y = share / ((3 + share**2) * 2 / WIDTH + EPSILON).sqrt()
    first.mlp_norm.weight.zero_()
    first.mlp_norm.bias.zero_()
    first.mlp_norm.weight[SHARE] = first.mlp_norm.bias[CONSTANT] = 1
    gap = y.diff().abs().min()
    bends = torch.cat([y[1:], y[-1:] - gap])  # unit m is 0 after position m, and linear in y up to it
    first.up.weight[:, SHARE], first.up.weight[:, CONSTANT] = STEEP / gap, -bends * STEEP / gap
    hidden = F.gelu(first.up.weight[:, SHARE] * y[:, None] + first.up.weight[:, CONSTANT])
    wanted = torch.stack([-share, u, (1 - u**2).sqrt(), (omega * i).cos(), (omega * i).sin()], 1)
    written = torch.linalg.solve(hidden, wanted).T
    first.down.weight[SHARE : SIN + 1], first.down.weight[SHARE + HALF : SIN + 1 + HALF] = written, -written

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


def measure(seed: int, positions: int = 64) -> dict[str, float]:
    """Claim → largest deviation from it, over random sequences."""
    model, layers = construct(positions), list[Attention]()
    tokens = torch.randint(1, SYMBOLS, (SEQUENCES, positions), generator=torch.Generator().manual_seed(seed))
    tokens[:, 0] = 0
    read_attention(model, tokens, positions, None, layers.append)
    weights = layers[1].weights
    assert weights is not None
    i = torch.arange(positions, dtype=torch.float64)
    back = i[:, None] - i
    logits = torch.stack([-SLOPE * back, PEAK * torch.cos(2 * math.pi / positions * (back - 1))])
    expected = logits.masked_fill(back < 0, -math.inf).softmax(-1)
    errors = {
        "layer 0: the position in the residual stream": positions * read_states(model, tokens, positions, None)[1][..., U] - i,
        "layer 1, head 0: softmax of −λ(i − j), as ALiBi": weights[:, 0] - expected[0],
        "layer 1, head 1: softmax of β cos ω(i − j − 1)": weights[:, 1] - expected[1],
        "layer 1: the same attention whatever the tokens": weights - weights[:1],
    }
    return {claim: float(error.abs().max()) for claim, error in errors.items()}
