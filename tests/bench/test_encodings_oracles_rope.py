"""Oracles of RoPE and encodings that rotate by fixed or learned angles: transformers, x-transformers, slow loops."""

import math

import loop_oracles as loops
import pytest
import torch
from helpers import (
    ANNOUNCED_SHAPES,
    HEAD_WIDTH,
    UNEVEN_IDS,
    assert_same,
    attention_at,
    context,
    make_encoding,
    oracle,
    perturbed,
    qkv,
)
from torch import Tensor, nn
from transformers import GPTNeoXConfig
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from x_transformers import x_transformers

from bench.encodings import At
from tasks import InputError

TRAIN = 12
"""L in tokens of every encoding made here."""
LAYER = 1
"""The layer whose parameters are used, of two."""
shapes = pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)
D = HEAD_WIDTH
rope_shapes = pytest.mark.parametrize(
    ("heads", "length", "width"), [(1, 5, 8), (2, 1, 2), (3, 30, 8), (5, 7, 6), (12, 40, 16), (1, 200, 64)]
)


def angles(ids: torch.Tensor, width: int, base: float) -> torch.Tensor:
    """p/base^(2t/d) by Python's own arithmetic."""
    flat = [[p / base ** (2 * t / width) for t in range(width // 2)] for p in ids.flatten().tolist()]
    return torch.tensor(flat, dtype=torch.float64).view(*ids.shape, width // 2)


@oracle("rope", against="transformers apply_rotary_pos_emb (Llama)")
@pytest.mark.parametrize("base", [10000.0, 500.0])
@rope_shapes
def test_rope_equals_llama(heads, length, width, base):
    q, k, _ = qkv(heads, length, head_width=width)
    freqs = angles(torch.arange(length)[None], width, base)
    both = torch.cat([freqs, freqs], -1)
    theirs = modeling_llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    encoding = make_encoding(f"rope(base={base})", heads, width)
    ours = encoding.rotate(q, k, context(encoding, length, length))
    assert_same(torch.stack(ours), torch.stack(theirs), [q, k])


def interleaved(x: torch.Tensor) -> torch.Tensor:
    """Channels t and t + d/2, our pairs, at 2t and 2t + 1, those of the authors."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


@oracle("rope", against="transformers apply_rotary_pos_emb (GPT-J, as ZhuiyiTechnology/roformer)")
@rope_shapes
def test_rope_equals_gptj(heads, length, width):
    q, k, _ = qkv(heads, length, head_width=width)
    sin, cos = modeling_gptj.create_sinusoidal_positions(length, width).chunk(2, -1)
    theirs = [modeling_gptj.apply_rotary_pos_emb(interleaved(x).transpose(1, 2), sin[None], cos[None]) for x in (q, k)]
    encoding = make_encoding("rope", heads, width)
    ours = encoding.rotate(q, k, context(encoding, length, length))
    assert_same(interleaved(torch.stack(ours)), torch.stack(theirs).transpose(2, 3), [q, k], atol=3e-5)


def test_rope_angles_are_exact_at_large_positions():
    # In float32 an angle of 10⁶ radians is off by several hundredths.
    ids = torch.tensor([10**6 + 1])
    cos, sin = make_encoding("rope", 3).prepare(At(announced_length=1, ids=ids))
    expected = angles(ids, HEAD_WIDTH, 10000.0)
    torch.testing.assert_close(cos[0].double(), expected.cos(), atol=1e-6, rtol=0)
    torch.testing.assert_close(sin[0].double(), expected.sin(), atol=1e-6, rtol=0)


def rope(base: float = 1e4) -> Tensor:
    return loops.rope_frequencies(base, D)


# --- hope


@oracle("hope", against="a loop over queries and keys")
@pytest.mark.parametrize("base", [1e4, 30.0])
@shapes
def test_hope_is_the_formula(heads, length, announced_length, base):
    encoding, (q, k, v) = make_encoding(f"hope(base={base})", heads), qkv(heads, length)
    slow = loops.attend(loops.rotary(q, k, torch.arange(length), loops.hope_frequencies(base, D, TRAIN)), v)
    assert_same(attention_at(encoding, q, k, v, context(encoding, length, announced_length)), slow, [q, k, v])


@pytest.mark.parametrize(("name", "thetas"), [("rope", rope()), ("hope", loops.hope_frequencies(1e4, D, TRAIN))])
def test_rotation_by_ids_of_each_row(name, thetas):
    encoding, (q, k, v) = make_encoding(name, 3), qkv(3, 7)
    slow = loops.attend(loops.rotary(q, k, UNEVEN_IDS, thetas), v)
    assert_same(attention_at(encoding, q, k, v, context(encoding, 7, 7, UNEVEN_IDS)), slow, [q, k, v], atol=3e-6)


@oracle("rope_partial", against="transformers apply_rotary_pos_emb (GPT-NeoX)")
@pytest.mark.parametrize(("heads", "length", "width"), [(1, 5, 8), (3, 40, 16), (5, 7, 24)])
def test_rope_partial_equals_gpt_neox(heads, length, width):
    q, k, _ = qkv(heads, length, head_width=width)
    rope_parameters = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    config = GPTNeoXConfig(hidden_size=heads * width, num_attention_heads=heads, rope_parameters=rope_parameters)
    rotary = modeling_gpt_neox.GPTNeoXRotaryEmbedding(config)
    expected = modeling_gpt_neox.apply_rotary_pos_emb(q, k, *rotary(q, torch.arange(length)[None]))
    encoding = make_encoding("rope_partial", heads, width)
    assert_same(torch.stack(encoding.rotate(q, k, context(encoding, length, length))), torch.stack(expected), [q, k], atol=3e-5)


def apart(width: int) -> Tensor:
    """The channels (2t, 2t + 1) of x-transformers as our (t, t + d/2)."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


@pytest.mark.parametrize(("width", "kept"), [(64, [5, 7, 9, 11, 16]), (32, [3, 4, 5, 6, 8]), (16, [2, 2, 3, 3, 4])])
def test_hope_golden_pairs(width, kept):
    for length, pairs in zip((20, 40, 64, 128, 512), kept, strict=True):
        encoding = make_encoding("hope", 1, width, train_tokens=length)
        assert (encoding.thetas(At(length)) > 0).tolist() == [True] * pairs + [False] * (width // 2 - pairs)


# --- xpos


@oracle("xpos", "xpos_scaled", against="x-transformers RotaryEmbedding with use_xpos")
@pytest.mark.parametrize(("name", "scale_base"), [("xpos", 512), ("xpos_scaled", TRAIN / 2)])
@pytest.mark.parametrize(("heads", "length", "width"), [(1, 5, 8), (3, 40, 16), (5, 7, 6)])
def test_xpos_scores_equal_x_transformers(heads, length, width, name, scale_base):
    q, k, _ = qkv(heads, length, head_width=width)
    module = x_transformers.RotaryEmbedding(width, use_xpos=True, scale_base=scale_base).double()
    freqs, scale = module.forward_from_seq_len(length)
    theirs_q = x_transformers.apply_rotary_pos_emb(q, freqs, scale)
    theirs_k = x_transformers.apply_rotary_pos_emb(k, freqs, 1 / scale)
    encoding, order = make_encoding(name, heads, width), apart(width)
    ours = encoding.rotate(q[..., order], k[..., order], context(encoding, length, length))
    assert_same((ours[0] @ ours[1].mT).tril(), (theirs_q @ theirs_k.mT).tril(), [q, k], atol=3e-5)


# --- rope_nope


@oracle("rope_nope", "rope_nope_scaled", against="a loop over queries and keys")
@pytest.mark.parametrize(("name", "window"), [("rope_nope", 4096), ("rope_nope_scaled", 6), ("rope_nope_scaled(window=3)", 3)])
@shapes
def test_rope_nope_layers_are_the_formula(heads, length, announced_length, name, window):
    encoding = perturbed(make_encoding(name, heads))
    q, k, v = qkv(heads, length)
    near = loops.attend(loops.rotary(q, k, torch.arange(length), rope()), v, lambda i, j: i - j < window)
    everything = loops.attend(loops.plain_scores(q, k), v)
    for layer, expected in enumerate((near, everything)):
        assert_same(
            attention_at(encoding, q, k, v, context(encoding, length, announced_length, layer=layer)), expected, [q, k, v]
        )


def test_rope_nope_at_ids_by_row():
    encoding = perturbed(make_encoding("rope_nope_scaled", 3))
    q, k, v = qkv(3, 7)
    scores = loops.rotary(q, k, UNEVEN_IDS, rope())
    rows = []
    for row, ids in enumerate(UNEVEN_IDS):
        one = slice(row, row + 1)
        rows.append(loops.attend(scores[one], v[one], lambda i, j, ids=ids: bool(ids[i] - ids[j] < 6)))
    assert_same(attention_at(encoding, q, k, v, context(encoding, 7, 7, UNEVEN_IDS, layer=0)), torch.cat(rows), [q, k, v])


def test_rope_nope_of_few_layers_ends_in_nope():
    for layers, nope in {1: [0], 2: [1], 3: [2], 4: [3], 7: [3], 9: [3, 7]}.items():
        encoding = make_encoding("rope_nope", 1, layers=layers)
        assert [layer for layer in range(layers) if encoding.is_nope(At(9, layer=layer))] == nope
    alternate = make_encoding("rope_nope(every=2)", 1, layers=6)
    assert [layer for layer in range(6) if alternate.is_nope(At(9, layer=layer))] == [1, 3, 5]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rope_nope(every=0)", "every ≥ 1"),
        ("rope_nope_scaled(window=-1)", "window ≥ 0"),
        ("xpos(scale_base=0)", "must be positive, got 0.0"),
        ("p_rope(p=1.5)", "in \\[0, 1\\], got 1.5"),
        ("rope_partial(share=0)", "in \\(0, 1\\], got 0.0"),
    ],
)
def test_invalid_settings_are_rejected(name, message):
    with pytest.raises(InputError, match=message):
        make_encoding(name, 2)


# --- pope


@oracle("pope", against="x-transformers PolarEmbedding")
@pytest.mark.parametrize(("heads", "length"), [(1, 5), (3, 40), (5, 7)])
def test_pope_equals_x_transformers(heads, length):
    encoding = make_encoding("pope", heads)
    assert (encoding.delta == 0).all(), "initial phases are 0"
    with torch.no_grad():  # some above 0, which both clamp to 0
        encoding.delta.uniform_(1 - 2 * math.pi, 1, generator=torch.Generator().manual_seed(4))
    theirs = x_transformers.PolarEmbedding(D, heads).double()
    theirs.learned_bias = nn.Parameter(encoding.delta[LAYER][:, None].detach().clone())
    q, k, _ = qkv(heads, length)
    freqs, delta = theirs(torch.arange(length))
    their_q, their_k = x_transformers.apply_polar_pos_emb(q, freqs), x_transformers.apply_polar_pos_emb(k, freqs + delta)
    ours = encoding.rotate(q, k, context(encoding, length, length))
    assert_same(torch.stack(ours), torch.stack([their_q, their_k]), [q, k], atol=1e-5)
    weights = torch.randn(ours[1].shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    (found,) = torch.autograd.grad((ours[1] * weights).sum(), encoding.delta)
    (expected,) = torch.autograd.grad((their_k * weights).sum(), theirs.learned_bias)
    assert_same(found[LAYER], expected[:, 0], atol=1e-4)
