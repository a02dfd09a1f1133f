"""Oracles of rotary encodings and gates that depend on content: selective RoPE, GRAPE-A."""

import math

import loop_content as content
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
    random_tokens,
    tiny_model,
)
from torch import Tensor, nn

from bench.encodings import At, alibi

TRAIN = 12
"""L in tokens of every encoding made here."""
LAYER = 1
"""The layer whose parameters are used, of two."""
D = HEAD_WIDTH
shapes = pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)


# --- selective_rope


def test_selective_rope_is_initialised_as_in_the_authors_models():
    encoding = make_encoding("selective_rope", 16)
    for parameter in (encoding.down, encoding.up, encoding.kernel):
        assert parameter.std().item() == pytest.approx(0.02, rel=0.1)
    assert encoding.down.shape == (2, 32, 128) and encoding.up.shape == (2, 64, 32) and encoding.kernel.shape == (2, 64, 4)
    gated = make_encoding("selective_rope_gated", 16)
    for parameter in (gated.down, gated.up, gated.gate):
        assert parameter.std().item() == pytest.approx(0.02, rel=0.1)
    assert not gated.gate_bias.any() and not gated.log_step.any()


def unit_heads(h: Tensor, heads: int) -> Tensor:
    return torch.cat([x / (x * x).sum(-1, keepdim=True).sqrt() for x in h.chunk(heads, -1)], -1)


def assert_selective(encoding, phi, thetas, parameters, q, k, v, at):
    """Attention, its gradients and those of the parameters of ``LAYER`` equal the loop's with increments phi [B, T, P]."""
    phi = phi.unflatten(-1, (q.shape[1], -1)).transpose(1, 2)
    slow = loops.attend(content.selective_rope(q, k, phi, thetas), v)
    ours = attention_at(encoding, q, k, v, at)
    assert_same(ours, slow, [q, k, v] + ([at.h] if q.shape[2] > 1 else []))
    if q.shape[2] > 1:
        mine, theirs = zip(*parameters, strict=True)
        found = torch.autograd.grad(ours.square().sum(), mine)
        expected = torch.autograd.grad(slow.square().sum(), theirs)
        for one, other in zip(found, expected, strict=True):
            assert_same(one[LAYER], other.view_as(one[LAYER]), atol=1e-5)


@oracle("selective_rope", against="torch's Linear and Conv1d, then a loop over queries and keys")
@shapes
def test_selective_rope_is_the_formula(heads, length, announced_length):
    encoding = perturbed(make_encoding("selective_rope", heads))
    q, k, v = qkv(heads, length)
    at = context(encoding, length, announced_length)
    pairs = heads * D // 2
    down, up = nn.Linear(heads * D, 32, bias=False), nn.Linear(32, pairs, bias=False)
    conv = nn.Conv1d(pairs, pairs, 4, padding=3, groups=pairs, bias=False)
    mine = [encoding.down, encoding.up, encoding.kernel]
    down.weight, up.weight, conv.weight = (nn.Parameter(x[LAYER].clone()) for x in (*mine[:2], encoding.kernel[:, :, None]))
    phi = conv(up(down(unit_heads(at.h, heads))).mT)[..., :length].mT
    weights = zip(mine, (down.weight, up.weight, conv.weight), strict=True)
    assert_selective(encoding, phi, loops.rope_frequencies(5e5, D), weights, q, k, v, at)


@oracle("selective_rope_gated", against="torch's Linear, then a loop over queries and keys")
@shapes
def test_selective_rope_gated_is_the_formula(heads, length, announced_length):
    encoding = perturbed(make_encoding("selective_rope_gated", heads), 0.3)
    q, k, v = qkv(heads, length)
    at = context(encoding, length, announced_length)
    mine = [encoding.down, encoding.up, encoding.gate, encoding.gate_bias, encoding.log_step]
    down, up, gate, gate_bias, log_step = theirs = [nn.Parameter(x[LAYER].clone()) for x in mine]
    h = unit_heads(at.h, heads)
    x = h @ down.T @ up.T
    g = (1 / (1 + torch.exp(-(h @ gate.T + gate_bias)))).repeat_interleave(D // 2, -1)
    steps = torch.cat([x[:, :1], x[:, 1:] - x[:, :-1]], 1) + torch.exp(log_step)
    slopes = [math.tan(0.9999 * math.pi * t / (D - 2)) for t in range(D // 2)]
    thetas = torch.tensor([0.25 * slope / slopes[-1] for slope in slopes], dtype=torch.float64)
    assert_selective(encoding, g * steps, thetas, zip(mine, theirs, strict=True), q, k, v, at)


def test_selective_rope_with_equal_increments_is_rope():
    encoding = make_encoding("selective_rope(base=10000.0)", 3)
    encoding.phi = lambda h, at: h.new_ones(*h.shape[:2], encoding.pairs)
    plain = make_encoding("rope", 3)
    q, k, v = qkv(3, 20)
    assert_same(
        attention_at(encoding, q, k, v, context(encoding, 20, 20)),
        attention_at(plain, q, k, v, context(plain, 20, 20)),
        [q, k, v],
    )


@pytest.mark.parametrize(("name", "start"), [("selective_rope", 0.0), ("selective_rope_gated", 0.5)])
def test_selective_rope_starts_near_nope_and_its_gated_form_near_rope(name, start):
    model = tiny_model(name)
    seen = []
    phi = model.encoding.phi
    model.encoding.phi = lambda h, at: seen.append(phi(h, at)) or seen[-1]
    model(random_tokens(2, TRAIN), TRAIN)
    for x in seen:
        torch.testing.assert_close(x, torch.full_like(x, start), atol=0.05, rtol=0)


# --- grape_a


@oracle("grape_a", against="a loop over queries and keys")
@shapes
def test_grape_a_attention_is_the_formula(heads, length, announced_length):
    encoding = perturbed(make_encoding("grape_a", heads))
    q, k, v = qkv(heads, length)
    slopes = torch.tensor(alibi.slopes(heads), dtype=torch.float64)
    bias = loops.grape_a(q, k, torch.arange(length), slopes, encoding.omega[LAYER], encoding.u[LAYER])
    inputs = [q, k, v] + ([encoding.omega, encoding.u] if length > 1 else [])
    assert_same(
        attention_at(encoding, q, k, v, context(encoding, length, announced_length)), loops.biased(q, k, v, bias), inputs
    )


def test_grape_a_at_ids_by_row():
    encoding = perturbed(make_encoding("grape_a", 3))
    q, k, v = qkv(3, 7)
    slopes = torch.tensor(alibi.slopes(3), dtype=torch.float64)
    bias = loops.grape_a(q, k, UNEVEN_IDS, slopes, encoding.omega[LAYER], encoding.u[LAYER])
    slow = loops.biased(q, k, v, bias)
    assert_same(
        attention_at(encoding, q, k, v, context(encoding, 7, 7, UNEVEN_IDS)), slow, [q, k, v, encoding.omega, encoding.u]
    )


def test_grape_a_starts_as_alibi_times_the_gate():
    encoding = make_encoding("grape_a", 24)
    assert torch.nn.functional.softplus(encoding.omega).detach().flatten().tolist() == pytest.approx([1] * 48, abs=1e-6)
    assert encoding.u.std().item() == pytest.approx(D**-0.5, rel=0.1)
    # A key at right angles to u has the gate softplus(0) = ln 2.
    q, k, _ = qkv(24, 9)
    alibi = make_encoding("alibi", 24)
    expected = math.log(2) * alibi.prepare(At(9, ids=torch.arange(9)))
    assert_same(encoding.bias(q, 0 * k, context(encoding, 9, 9)), expected.expand(2, -1, -1, -1))
