"""Oracles of biases that depend on content and of replacements of the softmax."""

import math
from dataclasses import replace

import loop_content as content
import loop_oracles as loops
import pytest
import torch
from helpers import HEAD_WIDTH, assert_same, attention, attention_at, make_encoding, oracle, perturbed, qkv
from torch import Tensor, nn
from x_transformers import x_transformers

from bench.encodings import At, Encoding, alibi
from bench.encodings.asentmax import Entmax
from bench.encodings.path_kernel import reflection

SHAPES = [(1, 5, 0), (2, 1, 1), (3, 20, 1), (5, 7, 0), (4, 16, 1)]
"""Heads, tokens and layer: odd head counts, a single token, lengths below and past the train length of 12."""
shapes = pytest.mark.parametrize(("heads", "length", "layer"), SHAPES)


def states(heads: int, length: int, rows: int = 2) -> Tensor:
    """Random input of the attention, [B, T, D]."""
    shape = rows, length, heads * HEAD_WIDTH
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()


def attention_from(encoding: Encoding, h: Tensor, q: Tensor, k: Tensor, v: Tensor, layer: int = 0) -> Tensor:
    """``attention`` for encodings that use ``at.h``."""
    at = At(announced_length=q.shape[2], ids=torch.arange(q.shape[2]), source=lambda: h, layer=layer)
    return attention_at(encoding, q, k, v, replace(at, shared=encoding.prepare(at)))


# --- cope


@oracle("cope_half", against="x-transformers CoPE")
@pytest.mark.parametrize("rows", [1, 3, 40])
@shapes
def test_cope_half_equals_x_transformers(heads, length, layer, rows):
    encoding = perturbed(make_encoding(f"cope_half(p_max={rows})", heads))
    theirs = x_transformers.CoPE(HEAD_WIDTH, heads, rows).double()
    del theirs.pos_emb
    theirs.pos_emb = encoding.table[layer]
    q, k, v = qkv(heads, length)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    s = (q @ k.mT / math.sqrt(HEAD_WIDTH)).masked_fill(later, -torch.finfo(q.dtype).max)
    expected = (s + theirs(q, s)).softmax(-1) @ v
    assert_same(attention(encoding, q, k, v, layer=layer), expected, [q, k, v, encoding.table], atol=1e-10)


def test_cope_divides_both_terms_by_the_root_of_the_head_width():
    scaled, plain = (perturbed(make_encoding(f"{name}(p_max=5)", 3)) for name in ("cope", "cope_half"))
    with torch.no_grad():
        plain.table.copy_(scaled.table / math.sqrt(HEAD_WIDTH))
    q, k, v = qkv(3, 9)
    inputs = [q, k, v]
    assert_same(attention(scaled, *inputs), attention(plain, *inputs), inputs, atol=1e-12)


def test_cope_has_rows_for_the_training_length_and_starts_as_nope():
    inputs = qkv(3, 9)
    for tokens in (12, 13, 1):
        for name, rows in (("cope", tokens + 1), ("cope_half", (tokens + 1) // 2)):
            encoding = make_encoding(name, 3, train_tokens=tokens)
            assert encoding.table.shape == (2, rows, HEAD_WIDTH)
            assert_same(attention(encoding, *inputs), attention(make_encoding("nope", 3), *inputs), atol=1e-12)


# --- fox


@oracle("fox", against="x-transformers DataDependentAlibi")
@shapes
def test_fox_bias_equals_x_transformers(heads, length, layer):
    encoding = perturbed(make_encoding("fox", heads))
    theirs = x_transformers.DataDependentAlibi(heads * HEAD_WIDTH, heads).double()
    linear = theirs.to_forget_gates[0]
    del linear.weight, linear.bias
    linear.weight, linear.bias = encoding.weight[layer], encoding.offset[layer]
    h = states(heads, length)
    ours = encoding.bias(h, h, At(announced_length=length, source=lambda: h, layer=layer))
    inputs = [h, encoding.weight, encoding.offset] if length > 1 else []
    assert_same(ours.tril(), theirs(h).tril(), inputs, atol=1e-10)


def test_fox_starts_half_open_and_sums_in_float32():
    encoding = make_encoding("fox", 3)
    assert (encoding.offset == 0).all()
    assert encoding.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert (make_encoding("fox(gate_bias=5.0)", 3).offset == 5).all()
    low = make_encoding("fox", 3).bfloat16()  # 2,000 gates of ½: in bf16 their sum moves in steps of 8
    bias = low.bias(None, None, At(announced_length=2000, source=lambda: torch.zeros(1, 2000, 24, dtype=torch.bfloat16)))
    assert bias[0, 0, 1999, 1998].item() == pytest.approx(-math.log(2), rel=1e-2)


# --- stick-breaking


@oracle("stick_breaking", against="a loop over queries and keys")
@shapes
def test_stick_breaking_is_the_formula(heads, length, layer):
    inputs = qkv(heads, length)
    ours = attention(make_encoding("stick_breaking", heads), *inputs, layer=layer)
    assert_same(ours, content.stick_breaking(*inputs), inputs if length > 1 else (), atol=1e-10)


def test_stick_breaking_weights_sum_to_one_at_any_score():
    encoding = make_encoding("stick_breaking", 1)
    for size in (1, 30, 1000):
        q, k, _ = (size * x for x in qkv(1, 40))
        v = torch.ones(2, 1, 40, HEAD_WIDTH, dtype=torch.float64)
        out = attention(encoding, q, k, v)
        torch.testing.assert_close(out, v, atol=1e-9, rtol=0)
        (gradient,) = torch.autograd.grad(attention(encoding, q, k, k).sum(), k)
        assert gradient.isfinite().all()


# --- path


def test_path_starts_as_the_authors_code():
    encoding = make_encoding("path_fox", 3, head_width=16)
    for name, parameter in encoding.named_parameters():
        if "offset" in name:
            assert (parameter == 0).all()
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.2), name
    h = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    w, _, beta = reflection(*encoding.reflections(At(announced_length=9, source=lambda: h)))
    raw, _ = Reflections(encoding, 0).unscaled(h)
    torch.testing.assert_close(w.norm(dim=-1), (raw.square().sum(-1) / (raw.square().sum(-1) + 1e-6)).sqrt(), atol=1e-9, rtol=0)
    assert (beta - 1).abs().mean() < 0.15


class Reflections(nn.Module):
    """w and β of PaTH, computed by torch modules."""

    def __init__(self, encoding: Encoding, layer: int):
        super().__init__()
        _, channels, rank = encoding.up.shape
        heads, width = encoding.strength.shape[1:]
        self.heads = heads
        self.low_rank = nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, channels, bias=False)).double()
        self.conv = nn.Conv1d(channels, channels, 3, padding=2, groups=channels, bias=False).double()
        self.strength = nn.Linear(width, heads).double()
        own = [*self.low_rank.parameters(), self.conv.weight, self.strength.weight, self.strength.bias]
        given = [encoding.down, encoding.up, encoding.taps, encoding.strength, encoding.offset]
        for mine, theirs in zip(own, given, strict=True):
            mine.data = theirs[layer].detach().clone()
        self.pairs = list(zip(own, given, strict=True))

    def unscaled(self, h: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(self.low_rank(h).transpose(1, 2))[..., : h.shape[1]]
        x = x * torch.sigmoid(x)
        w = x.transpose(1, 2).reshape(*h.shape[:2], self.heads, -1)
        return w.transpose(1, 2), 2 * torch.sigmoid(self.strength(h)).transpose(1, 2)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        w, beta = self.unscaled(h)
        return w / ((w * w).sum(-1, keepdim=True) + 1e-6).sqrt(), beta


@oracle("path", against="explicit products of Householder matrices; torch's Linear and Conv1d")
@shapes
def test_path_is_the_formula(heads, length, layer):
    encoding = perturbed(make_encoding("path", heads))
    h, (q, k, v) = states(heads, length), qkv(heads, length)
    theirs = Reflections(encoding, layer)
    ours, slow = attention_from(encoding, h, q, k, v, layer=layer), loops.attend(content.path_scores(q, k, *theirs(h)), v)
    assert_same(ours, slow, [h, q, k, v] if length > 1 else (), atol=1e-9)
    if length > 1:
        weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        found = torch.autograd.grad((ours * weights).sum(), [given for _, given in theirs.pairs])
        expected = torch.autograd.grad((slow * weights).sum(), [own for own, _ in theirs.pairs])
        for grad, grad_expected in zip(found, expected, strict=True):
            torch.testing.assert_close(grad[layer], grad_expected, atol=1e-9, rtol=1e-9)
            assert (grad[1 - layer] == 0).all(), "parameters of the other layer"


@oracle("path_fox", against="explicit products of Householder matrices; a loop over gates")
@shapes
def test_path_fox_is_the_formula(heads, length, layer):
    encoding = perturbed(make_encoding("path_fox", heads))
    h, (q, k, v) = states(heads, length), qkv(heads, length)
    gates = torch.sigmoid(h @ encoding.gate[layer].mT + encoding.gate_offset[layer]).mT
    forgotten = content.forget_bias(gates) / math.sqrt(HEAD_WIDTH)
    slow = loops.attend(content.path_scores(q, k, *Reflections(encoding, layer)(h)) + forgotten, v)
    tensors = [h, q, k, v, encoding.gate, encoding.gate_offset] if length > 1 else []
    assert_same(attention_from(encoding, h, q, k, v, layer=layer), slow, tensors, atol=1e-9)


def test_path_is_accurate_over_a_thousand_tokens_in_float32():
    # The recursion key by key in float64: k_j ← H_i k_j as i goes on. A reflection never makes a key longer.
    length = 1000
    encoding = make_encoding("path", 3)
    h, (q, k, _) = states(3, length, rows=1), qkv(3, length, rows=1)
    at = At(announced_length=length, source=lambda: h)
    w, _, beta = reflection(*encoding.reflections(at))
    carried, bias = k.clone(), []
    with torch.no_grad():
        for i in range(length):
            w_i = w[:, :, i, None]
            carried[:, :, :i] -= beta[:, :, i, None] * (carried[:, :, :i] * w_i).sum(-1, keepdim=True) * w_i
            bias.append((q[:, :, i, None] * (carried - k)).sum(-1) / math.sqrt(HEAD_WIDTH))
    expected = torch.stack(bias, 2)
    single = encoding.float().bias(q.float(), k.float(), replace(at, source=lambda: h.float()))
    torch.testing.assert_close(single.double().tril(), expected.tril(), atol=1e-4, rtol=1e-4)


def test_path_without_reflections_is_nope():
    encoding, h = perturbed(make_encoding("path", 3)), states(3, 20)
    q, k, v = qkv(3, 20)
    encoding.strength.data.zero_()
    encoding.offset.data.fill_(-100)  # β = 0: H = I
    assert_same(attention_from(encoding, h, q, k, v), attention(make_encoding("nope", 3), q, k, v), atol=1e-12)
    encoding.offset.data.fill_(100)  # β = 2: H turns w to −w and is its own inverse
    at = At(announced_length=20, source=lambda: h)
    same_key = k[:, :, :1].expand_as(k)
    w, _, beta = reflection(*encoding.reflections(at))
    H = torch.eye(HEAD_WIDTH) - beta.squeeze(-1)[..., None, None] * w[..., :, None] * w[..., None, :]
    torch.testing.assert_close(H @ H, torch.eye(HEAD_WIDTH, dtype=H.dtype).expand_as(H), atol=1e-5, rtol=0)
    bias = encoding.bias(same_key, k, at)
    assert bias.diagonal(dim1=-2, dim2=-1).abs().max() < 1e-12, "a query's own key is not reflected"


# --- grape_ap


@oracle("grape_ap", against="a loop over queries, keys and tokens between them")
@shapes
def test_grape_ap_is_the_formula(heads, length, layer):
    encoding = perturbed(make_encoding("grape_ap", heads))
    h, (q, k, v) = states(heads, length), qkv(heads, length)
    p = (h @ encoding.weight[layer].mT).reshape(*h.shape[:2], heads, 8).transpose(1, 2)
    slow = loops.attend(loops.plain_scores(q, k) + content.grape_ap(p, alibi.slopes(heads)), v)
    tensors = [h, q, k, v, encoding.weight] if length > 1 else []
    assert_same(attention_from(encoding, h, q, k, v, layer=layer), slow, tensors, atol=1e-6)


# --- asentmax


def scaled_queries(encoding: Encoding, q: Tensor, h: Tensor, layer: int) -> Tensor:
    """Queries of ASEntmax: those of the second half of the heads are scaled, one query at a time."""
    biased = q.shape[1] // 2
    rows = []
    for i in range(q.shape[2]):
        beta = torch.log1p(torch.exp(h[:, i] @ encoding.beta[layer].mT + encoding.beta_offset[layer]))
        gamma = 2 * torch.tanh(h[:, i] @ encoding.gamma[layer].mT + encoding.gamma_offset[layer])
        scale = 1 + beta * math.log(i + 2) ** gamma
        rows.append(torch.cat([q[:, :biased, i], q[:, biased:, i] * scale[..., None]], 1))
    return torch.stack(rows, 2)


@oracle("asentmax", against="a loop over queries and supports")
@shapes
def test_asentmax_is_the_formula(heads, length, layer):
    encoding = perturbed(make_encoding("asentmax", heads))
    h, (q, k, v) = states(heads, length), qkv(heads, length)
    slopes = torch.tensor([1 / (n + 1) if n < heads // 2 else 0.0 for n in range(heads)], dtype=torch.float64)
    scores = loops.plain_scores(scaled_queries(encoding, q, h, layer), k) + loops.alibi(torch.arange(length), slopes)
    slow = torch.cat([content.entmax(scores[:, :, i : i + 1, : i + 1]) @ v[:, :, : i + 1] for i in range(length)], 2)
    tensors = [h, q, k, v, *encoding.parameters()] if length > 1 else []
    assert_same(attention_from(encoding, h, q, k, v, layer=layer), slow, tensors, atol=2e-6)  # ALiBi's bias is in float32


@pytest.mark.parametrize("keys", [1, 2, 17, 1000])
@pytest.mark.parametrize("size", [0.0, 0.01, 1.0, 100.0])
def test_entmax_converges_and_is_sparse(keys, size):
    s = size * torch.randn(50, keys, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = Entmax.apply(s)
    torch.testing.assert_close(weights.sum(-1), torch.ones(50, dtype=s.dtype), atol=1e-5, rtol=0)
    assert (weights >= 0).all()
    assert size < 100 or keys < 17 or (weights == 0).double().mean() > 0.8
