"""Encodings against other libraries: transformers, x-transformers and modules of torch."""

import math
from dataclasses import replace

import pytest
import torch
from helpers import (
    HEAD_WIDTH,
    NAMES,
    assert_same,
    assert_same_rotation,
    context,
    make_encoding,
    oracle,
    perturbed,
    qkv,
)
from torch import Tensor
from torch.nn import functional as F
from transformers import GPTNeoXConfig, LlamaConfig, T5Config
from transformers.masking_utils import sliding_window_causal_mask_function
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers.x_transformers import AlibiPositionalBias

from bench.encodings import At, t5
from bench.encodings.interpolation import stretch_factor

TRAIN = 12
"""L in tokens of the encodings here, unless a test says otherwise."""

# --- rotary: frequencies of transformers


def theirs(kind: str, width: int, seq_len: int | None = None, base: float = 1e4, **parameters: float) -> tuple[Tensor, float]:
    """θ_t and the factor of cos and sin from transformers, in float32."""
    rope_parameters = {"rope_type": kind, "rope_theta": base, **parameters}
    length = int(parameters.get("original_max_position_embeddings", TRAIN))
    config = LlamaConfig(
        hidden_size=2 * width,
        num_attention_heads=2,
        head_dim=width,
        max_position_embeddings=length,
        rope_parameters=rope_parameters,
    )
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=seq_len)


def half_turning(length: int) -> float:
    """The base for which pair t = d/4, of angle base^(−1/2) a token, makes one turn over the length."""
    turn = 2 * math.pi / length
    return turn**-2


# Encoding → frequencies of transformers, from head width, L, L′ and N.
PUBLISHED = {
    "rope": lambda d, L, M, N: theirs("linear", d, factor=1.0),
    "rope(base=500.0)": lambda d, L, M, N: theirs("linear", d, base=500.0, factor=1.0),
    "rope_scaled": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=1.0),
    "interpolated(rope,fixed=True)": lambda d, L, M, N: theirs("linear", d, factor=M / L if N > L else 1.0),
    "interpolated(rope_scaled)": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=max(1, N / L)),
    "ntk_scaled": lambda d, L, M, N: theirs(
        "dynamic", d, M if N > L else L, base=half_turning(L), factor=1.0, original_max_position_embeddings=L
    ),
    "yarn_scaled": lambda d, L, M, N: theirs(
        "yarn", d, base=half_turning(L), factor=M / L if N > L else 1.0, original_max_position_embeddings=L
    ),
    "llama3": lambda d, L, M, N: theirs(
        "llama3",
        d,
        factor=M / L if N > L else 1.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=L,
    ),
    "finetuned(rope)": lambda d, L, M, N: theirs("linear", d, factor=1.0),
    "finetuned(interpolated(rope,fixed=True))": lambda d, L, M, N: theirs("linear", d, factor=M / L if N > L else 1.0),
    "finetuned(yarn)": lambda d, L, M, N: theirs("yarn", d, factor=M / L if N > L else 1.0, original_max_position_embeddings=L),
    "p_rope": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.75),
    "p_rope(p=0.25)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.25),
}


@oracle(*(name for name in PUBLISHED if name in NAMES), against="transformers ROPE_INIT_FUNCTIONS and apply_rotary_pos_emb")
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(("width", "L", "M", "N"), [(8, 12, 120, 9), (16, 23, 115, 40), (64, 2048, 8192, 3000)])
def test_rotation_equals_transformers(name, width, L, M, N):
    encoding, (q, k, _) = make_encoding(name, 3, width, train_tokens=L, longest_tokens=M), qkv(3, 40, head_width=width)
    theta, m = PUBLISHED[name](width, L, M, N)
    angles = torch.arange(40)[None, :, None] * theta.double()
    cos, sin = (m * torch.cat([x, x], -1) for x in (angles.cos(), angles.sin()))
    assert_same_rotation(encoding, q, k, modeling_llama.apply_rotary_pos_emb(q, k, cos, sin), context(encoding, 40, N))


@oracle("rope_partial", against="transformers apply_rotary_pos_emb (GPT-NeoX)")
@pytest.mark.parametrize(("heads", "width"), [(1, 8), (3, 16), (5, 24)])
def test_rope_partial_equals_gpt_neox(heads, width):
    encoding, (q, k, _) = make_encoding("rope_partial", heads, width), qkv(heads, 40, head_width=width)
    rope_parameters = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    config = GPTNeoXConfig(hidden_size=heads * width, num_attention_heads=heads, rope_parameters=rope_parameters)
    rotary = modeling_gpt_neox.GPTNeoXRotaryEmbedding(config)
    expected = modeling_gpt_neox.apply_rotary_pos_emb(q, k, *rotary(q, torch.arange(40)[None]))
    assert_same_rotation(encoding, q, k, expected, context(encoding, 40))


def test_stretch_factor():
    setup = make_encoding("yarn", 1, train_tokens=20, longest_tokens=100).setup
    assert [stretch_factor(setup, At(n), dynamic=True) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 1.05, 2.5, 5, 20]
    assert [stretch_factor(setup, At(n), dynamic=False) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 5, 5, 5, 5]


# --- t5


@oracle("t5", "t5_scaled", against="transformers T5Attention.compute_bias")
@pytest.mark.parametrize(
    ("name", "furthest", "count"),  # of t5_scaled, the first is L in tokens
    [("t5", 128, 32), ("t5(buckets=16,max_distance=64)", 64, 16), ("t5_scaled", 23, 11), ("t5_scaled", 300, 32)],
)
def test_t5_bias_equals_transformers(name, furthest, count):
    heads, length = 5, 200
    config = T5Config(
        num_heads=heads,
        d_kv=HEAD_WIDTH,
        d_model=heads * HEAD_WIDTH,
        relative_attention_num_buckets=count,
        relative_attention_max_distance=furthest,
        is_decoder=True,
    )
    module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    encoding = perturbed(make_encoding(name, heads, train_tokens=furthest))
    assert encoding.table.shape == (count, heads)
    module.relative_attention_bias.weight = encoding.table
    ours, expected = context(encoding, length).shared, module.compute_bias(length, length)[0]
    assert_same(ours.tril(), expected.tril(), [encoding.table], atol=1e-12)


def test_t5_scaled_has_no_untrained_bucket():
    for train in (*range(4, 80), 100, 128, 200, 1000):
        encoding = make_encoding("t5_scaled", 1, train_tokens=train)
        # The last token predicts nothing, so the largest distance in training is L − 2.
        trained = t5.buckets(torch.arange(train - 1), encoding.count, encoding.max_distance).unique()
        beyond = t5.buckets(torch.arange(train - 1, 10 * train), encoding.count, encoding.max_distance).unique()
        assert beyond.tolist() == [encoding.count - 1] and beyond[0] in trained, train


# --- alibi


@oracle("alibi_learned", "alibi_half", against="x-transformers AlibiPositionalBias, whose heads may be fewer than in total")
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_variants_of_alibi_equal_x_transformers(heads):
    learned, half = make_encoding("alibi_learned", heads), make_encoding("alibi_half", heads)
    slopes = torch.linspace(-6, 1, heads)
    with torch.no_grad():
        learned.log_slopes.copy_(slopes)
    for encoding, module in (
        (make_encoding("alibi_learned", heads), AlibiPositionalBias(heads)),
        (learned, AlibiPositionalBias(heads, slopes=slopes.exp().tolist())),
        (half, AlibiPositionalBias(math.ceil(heads / 2), total_heads=heads)),
    ):
        ours = context(encoding, 40).shared
        torch.testing.assert_close(ours.tril(), module(40, 40).to(ours.dtype).tril(), atol=1e-5, rtol=1e-6)


@oracle("interpolated(alibi)", against="x-transformers AlibiPositionalBias at fractional positions")
@pytest.mark.parametrize(("heads", "length", "announced_length"), [(1, 5, 5), (3, 20, 20), (3, 9, 120)])
def test_interpolated_alibi_equals_x_transformers(heads, length, announced_length):
    encoding = make_encoding("interpolated(alibi)", heads)
    fractions = torch.arange(length).double() / max(1, announced_length / TRAIN)
    ours = encoding.bias(None, None, context(encoding, length, announced_length))
    torch.testing.assert_close(
        ours.tril(), AlibiPositionalBias(heads).forward_custom_pos(fractions).tril(), atol=1e-5, rtol=1e-5, check_dtype=False
    )


@oracle("window(nope)", "window(nope,share=0.25)", "window(rope)", "window(rope,tests_only=True)", against="transformers' mask")
@pytest.mark.parametrize(("name", "width"), [("window(nope)", TRAIN), ("window(rope,share=0.25)", 3)])
def test_windows_equal_transformers(name, width):
    q, k, _ = qkv(1, 40)
    i, j = torch.meshgrid(torch.arange(40), torch.arange(40), indexing="ij")
    visible = make_encoding(name, 1).bias(q, k, context(make_encoding(name, 1), 40))[0, 0] == 0
    assert torch.equal(visible.tril(), sliding_window_causal_mask_function(width)(0, 0, i, j))


# --- what is added to the residual stream


def waves(positions: Tensor, width: int) -> Tensor:
    """Sine, cosine, sine, cosine … of the positions, by Python's own arithmetic."""
    rows = [[p / 10000 ** (2 * t / width) for t in range(width // 2)] for p in positions.tolist()]
    return torch.tensor([[f(a) for a in row for f in (math.sin, math.cos)] for row in rows], dtype=torch.float64)


# Encoding → what it adds to x in a layer, from the encoding, context, and whether it is the first layer.
ADDED = {
    "learned": lambda e, at, first: first * F.embedding(at.ids, e.table),
    "learned_offset": lambda e, at, first: first * F.embedding(at.ids, e.table),
    "learned_per_layer": lambda e, at, first: F.embedding(at.ids, e.table[at.layer]),
    "abacus": lambda e, at, first: first * F.embedding(at.ids, e.table),
    "position_coupling": lambda e, at, first: first * F.embedding(at.ids, e.table),
    "sinusoidal": lambda e, at, first: first * waves(at.ids, e.setup.width),
    "sinusoidal_every_layer": lambda e, at, first: waves(at.ids, e.setup.width),
    "interpolated(sinusoidal)": lambda e, at, first: first * waves(torch.arange(20) / (at.announced_length / TRAIN), 24),
}


@oracle("learned", "learned_offset", "learned_per_layer", against="torch.nn.functional.embedding")
@oracle("sinusoidal_every_layer", "interpolated(sinusoidal)", against="Python's sine and cosine")
@pytest.mark.parametrize("name", ADDED)
def test_the_residual_stream_changes_as_by_torch(name):
    encoding = perturbed(make_encoding(name, 3))
    at = context(encoding, 20, 40)
    for layer in (0, 1):
        at = replace(at, layer=layer)
        expected = at.h + ADDED[name](encoding, at, layer == 0)
        assert_same(encoding.embed(at.h, at), expected, [at.h], atol=1e-6)
