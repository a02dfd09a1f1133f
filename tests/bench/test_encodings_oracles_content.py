"""Oracles of encodings that look at content, replace the softmax, scale scores or choose position ids."""

import math
from dataclasses import replace

import loop_oracles as loops
import numpy as np
import pytest
import torch
from helpers import HEAD_WIDTH, assert_same, attention, make_encoding, oracle, qkv, random_tokens, setup_of, spec_of
from torch import Tensor, nn
from x_transformers import x_transformers

import tasks
from bench import encodings
from bench.encodings import At, Encoding
from bench.model import Mask

SHAPES = [(1, 5), (2, 1), (3, 30), (5, 7), (4, 16)]
"""Heads and tokens: odd head counts, a single token, lengths below and past the train length of 12."""
shapes = pytest.mark.parametrize(("heads", "length"), SHAPES)
layers = pytest.mark.parametrize("layer", [0, 1])


def stirred(encoding: Encoding, scale: float = 0.5) -> Encoding:
    """Every parameter moved off its start, since zeros hide mistakes."""
    source = torch.Generator().manual_seed(5)
    for parameter in encoding.parameters():
        parameter.data += scale * torch.randn(parameter.shape, generator=source, dtype=parameter.dtype)
    return encoding


def states(heads: int, length: int, rows: int = 2) -> Tensor:
    """What the attention of a layer reads, [B, T, D]."""
    shape = rows, length, heads * HEAD_WIDTH
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()


def attention_from(encoding: Encoding, h: Tensor, q: Tensor, k: Tensor, v: Tensor, layer: int = 0) -> Tensor:
    """``attention`` for encodings that read h as well."""
    at = At(nominal=q.shape[2], ids=torch.arange(q.shape[2]), source=lambda: h, layer=layer)
    at = replace(at, shared=encoding.prepare(at))
    q, k = encoding.rotate(q, k, at)
    return encoding.attend(q, k, v, Mask(causal=True)(encoding.bias(q, k, at), q), at)


# --- cope


@oracle("cope", against="a loop over queries and keys")
@pytest.mark.parametrize("rows", [1, 3, 40])
@layers
@shapes
def test_cope_is_the_formula(heads, length, layer, rows):
    encoding = stirred(make_encoding(f"cope(p_max={rows})", heads))
    inputs = qkv(heads, length)
    slow = loops.cope(*inputs, encoding.table[layer])
    assert_same(attention(encoding, *inputs, layer=layer), slow, [*inputs, encoding.table], atol=1e-10)


@oracle("cope", against="x-transformers CoPE")
@shapes
def test_cope_equals_x_transformers(heads, length):
    encoding = stirred(make_encoding("cope(p_max=5)", heads))
    theirs = x_transformers.CoPE(HEAD_WIDTH, heads, 5).double()
    theirs.pos_emb = nn.Parameter(encoding.table[1].detach())
    q, k, v = qkv(heads, length)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    s = (q @ k.mT / math.sqrt(HEAD_WIDTH)).masked_fill(later, -torch.finfo(q.dtype).max)
    expected = (s + theirs(q, s)).softmax(-1) @ v
    assert_same(attention(encoding, q, k, v, layer=1), expected, [q, k, v], atol=1e-10)


def test_cope_has_rows_for_half_the_train_length_and_starts_as_nope():
    for tokens, rows in ((12, 6), (13, 7), (1, 1)):
        assert make_encoding("cope", 3, train_tokens=tokens).table.shape == (2, rows, HEAD_WIDTH)
    inputs = qkv(3, 9)
    assert_same(attention(make_encoding("cope", 3), *inputs), attention(make_encoding("nope", 3), *inputs), atol=1e-12)


# --- fox


def log_gates(encoding: Encoding, h: Tensor, layer: int) -> Tensor:
    """[B, H, T], one token and one head at a time."""
    w, b = encoding.weight[layer], encoding.offset[layer]
    gates = [[torch.sigmoid((h[:, t] * w[n]).sum(-1) + b[n]).log() for t in range(h.shape[1])] for n in range(len(w))]
    return torch.stack([torch.stack(row, -1) for row in gates], 1)


@oracle("fox", against="a loop over queries and keys")
@layers
@shapes
def test_fox_is_the_formula(heads, length, layer):
    encoding = stirred(make_encoding("fox", heads))
    h, inputs = states(heads, length), qkv(heads, length)
    slow = loops.fox(*inputs, log_gates(encoding, h, layer))
    ours = attention_from(encoding, h, *inputs, layer=layer)
    tensors = [h, *inputs, encoding.weight, encoding.offset] if length > 1 else inputs
    assert_same(ours, slow, tensors, atol=1e-10)


@oracle("fox", against="x-transformers DataDependentAlibi")
@shapes
def test_fox_bias_equals_x_transformers(heads, length):
    encoding = stirred(make_encoding("fox", heads))
    theirs = x_transformers.DataDependentAlibi(heads * HEAD_WIDTH, heads).double()
    linear = theirs.to_forget_gates[0]
    linear.weight, linear.bias = nn.Parameter(encoding.weight[1].detach()), nn.Parameter(encoding.offset[1].detach())
    h = states(heads, length)
    ours = encoding.bias(h, h, At(nominal=length, source=lambda: h, layer=1))
    assert_same(ours.tril(), theirs(h).tril(), [h] if length > 1 else [], atol=1e-10)


def test_fox_starts_half_open_and_sums_in_float32():
    encoding = make_encoding("fox", 3)
    assert (encoding.offset == 0).all()
    assert encoding.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert (make_encoding("fox(gate_bias=5.0)", 3).offset == 5).all()
    low = make_encoding("fox", 3).bfloat16()  # 2,000 gates of ½: in bf16 their sum moves in steps of 8
    bias = low.bias(None, None, At(nominal=2000, source=lambda: torch.zeros(1, 2000, 24, dtype=torch.bfloat16)))
    assert bias[0, 0, 1999, 1998].item() == pytest.approx(-math.log(2), rel=1e-2)


# --- stick-breaking


@oracle("stick_breaking", against="a loop over queries and keys")
@shapes
def test_stick_breaking_is_the_formula(heads, length):
    inputs = qkv(heads, length)
    tensors = inputs if length > 1 else inputs[2:]
    ours = attention(make_encoding("stick_breaking", heads), *inputs)
    slow = loops.stick_breaking(*inputs)
    assert_same(ours, slow, tensors if length > 1 else (), atol=1e-10)


def test_stick_breaking_golden_weights():
    q = k = torch.zeros(1, 1, 5, HEAD_WIDTH, dtype=torch.float64)
    v = torch.eye(5, HEAD_WIDTH, dtype=torch.float64).expand(1, 1, 5, HEAD_WIDTH)
    weights = attention(make_encoding("stick_breaking", 1), q, k, v)[0, 0, :, :5]
    assert weights[4].tolist() == pytest.approx([0.0625, 0.125, 0.25, 0.5, 0.0625])
    assert weights[0].tolist() == pytest.approx([1, 0, 0, 0, 0])


def test_stick_breaking_keeps_its_stick_whole_at_any_score():
    encoding = make_encoding("stick_breaking", 1)
    for size in (1, 30, 1000):
        q, k, _ = (size * x for x in qkv(1, 40))
        v = torch.ones(2, 1, 40, HEAD_WIDTH, dtype=torch.float64)
        out = attention(encoding, q, k, v)
        torch.testing.assert_close(out, v, atol=1e-9, rtol=0)
        (gradient,) = torch.autograd.grad(attention(encoding, q, k, k).sum(), k)
        assert gradient.isfinite().all()


# --- path


class Reflections(nn.Module):
    """w and β of PaTH as torch's own modules make them."""

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

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(self.low_rank(h).transpose(1, 2))[..., : h.shape[1]]
        x = x * torch.sigmoid(x)
        w = x.transpose(1, 2).reshape(*h.shape[:2], self.heads, -1)
        w = w / (w * w).sum(-1, keepdim=True).sqrt()
        return w.transpose(1, 2), 2 * torch.sigmoid(self.strength(h)).transpose(1, 2)


@oracle("path", against="explicit products of Householder matrices; torch's Linear and Conv1d")
@layers
@shapes
def test_path_is_the_formula(heads, length, layer):
    encoding = stirred(make_encoding("path", heads))
    h, (q, k, v) = states(heads, length), qkv(heads, length)
    theirs = Reflections(encoding, layer)
    ours, slow = attention_from(encoding, h, q, k, v, layer=layer), loops.path(q, k, v, *theirs(h))
    assert_same(ours, slow, [h, q, k, v] if length > 1 else (), atol=1e-9)
    if length > 1:
        weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        found = torch.autograd.grad((ours * weights).sum(), [given for _, given in theirs.pairs])
        expected = torch.autograd.grad((slow * weights).sum(), [own for own, _ in theirs.pairs])
        for grad, grad_expected in zip(found, expected, strict=True):
            torch.testing.assert_close(grad[layer], grad_expected, atol=1e-9, rtol=1e-9)
            assert (grad[1 - layer] == 0).all(), "parameters of the other layer"


def test_path_carries_keys_over_a_thousand_tokens_in_float32():
    # The recursion key by key in float64: k_j ← H_i k_j as i goes on. A reflection never makes a key longer.
    length = 1000
    encoding = make_encoding("path", 3)
    h, (q, k, _) = states(3, length, rows=1), qkv(3, length, rows=1)
    at = At(nominal=length, source=lambda: h)
    w, beta = encoding.reflections(at)
    carried, bias = k.clone(), []
    with torch.no_grad():
        for i in range(length):
            w_i = w[:, :, i, None]
            carried[:, :, :i] -= beta[..., i, None] * (carried[:, :, :i] * w_i).sum(-1, keepdim=True) * w_i
            bias.append((q[:, :, i, None] * (carried - k)).sum(-1) / math.sqrt(HEAD_WIDTH))
    expected = torch.stack(bias, 2)
    single = encoding.float().bias(q.float(), k.float(), replace(at, source=lambda: h.float()))
    torch.testing.assert_close(single.double().tril(), expected.tril(), atol=1e-4, rtol=1e-4)


def test_path_with_full_reflections_keeps_scores_and_without_them_is_nope():
    encoding, h = make_encoding("path", 3), states(3, 20)
    q, k, v = qkv(3, 20)
    encoding.strength.data.zero_()
    encoding.offset.data.fill_(-100)  # β = 0: H = I
    assert_same(attention_from(encoding, h, q, k, v), attention(make_encoding("nope", 3), q, k, v), atol=1e-12)
    encoding.offset.data.fill_(100)  # β = 2: H turns w to −w and is its own inverse
    at = At(nominal=20, source=lambda: h)
    same_key = k[:, :, :1].expand_as(k)
    w, beta = encoding.reflections(at)
    H = torch.eye(HEAD_WIDTH) - beta.squeeze(-2)[..., None, None] * w[..., :, None] * w[..., None, :]
    torch.testing.assert_close(H @ H, torch.eye(HEAD_WIDTH, dtype=H.dtype).expand_as(H), atol=1e-9, rtol=0)
    bias = encoding.bias(same_key, k, at)
    assert bias.diagonal(dim1=-2, dim2=-1).abs().max() < 1e-12, "a query's own key is not carried"


# --- dape


def check_dape(name: str, heads: int, length: int, layer: int, bias) -> None:
    encoding = stirred(make_encoding(name, heads))
    for parameter in encoding.base.parameters():
        parameter.data = parameter.data.abs() + 0.02  # clear of KERPLE's clamp, below which its gradients are its own matter
    inputs = qkv(heads, length)
    network = [parameter[layer] for parameter in (encoding.w1, encoding.b1, encoding.w2, encoding.b2)]
    slow = loops.dape(*inputs, bias(encoding.base, torch.arange(length)), *network)
    ours = attention(encoding, *inputs, layer=layer)
    tensors = [*inputs, *encoding.parameters()] if length > 1 else ()
    assert_same(ours, slow, tensors, atol=2e-6)  # ALiBi's and KERPLE's biases are made in float32


@oracle("dape(alibi)", against="a loop over queries and keys")
@layers
@shapes
def test_dape_around_alibi_is_the_formula(heads, length, layer):
    slopes = torch.tensor(loops.alibi_slopes(heads), dtype=torch.float64)
    check_dape("dape(alibi)", heads, length, layer, lambda base, ids: loops.alibi(ids, slopes))


@oracle("dape(kerple_log)", against="a loop over queries and keys")
@layers
@shapes
def test_dape_around_kerple_is_the_formula(heads, length, layer):
    def kerple(base, ids):
        return loops.kerple_log(ids, *(p.clamp(min=0.01)[:, 0, 0] for p in (base.a, base.p)))

    check_dape("dape(kerple_log)", heads, length, layer, kerple)


def test_dape_without_a_bias_inside_takes_zeros():
    encoding = stirred(make_encoding("dape(rope)", 3))
    q, k, v = qkv(3, 10)
    at = At(nominal=10, ids=torch.arange(10))
    turned = encoding.rotate(q, k, replace(at, shared=encoding.prepare(at)))
    network = [parameter[0] for parameter in (encoding.w1, encoding.b1, encoding.w2, encoding.b2)]
    slow = loops.dape(*turned, v, torch.zeros(3, 10, 10, dtype=torch.float64), *network)
    assert_same(attention(encoding, q, k, v), slow, atol=1e-9)


def test_dape_has_the_published_count_of_parameters_and_the_start_of_linear():
    for heads in (3, 8):
        encoding = make_encoding("dape(alibi)", heads, layers=1)
        assert sum(p.numel() for p in encoding.parameters()) == 97 * heads + 32
        assert encoding.w1.abs().max() <= (2 * heads) ** -0.5
        assert encoding.w2.abs().max() <= 32**-0.5
    assert make_encoding("dape(alibi)", 64).w1.std().item() == pytest.approx(128**-0.5 / math.sqrt(3), rel=0.05)


# --- ssmax, logn


def rotary_scores(q: Tensor, k: Tensor, ids: Tensor | None = None) -> Tensor:
    ids = torch.arange(q.shape[2]) if ids is None else ids
    return loops.rotary(q, k, ids, loops.rope_frequencies(10000.0, q.shape[-1]))


def by_query(scores: Tensor, factor) -> Tensor:
    """Row i of the scores times ``factor(i + 1)``."""
    return torch.stack([scores[:, :, i] * factor(i + 1) for i in range(scores.shape[2])], 2)


@oracle("ssmax(nope)", against="a loop over queries and keys")
@layers
@shapes
def test_ssmax_is_the_formula(heads, length, layer):
    encoding = stirred(make_encoding("ssmax(nope)", heads))
    inputs = qkv(heads, length)
    tensors = [*inputs, encoding.s] if length > 1 else ()
    assert_same(attention(encoding, *inputs, layer=layer), loops.ssmax(*inputs, encoding.s[layer]), tensors, atol=1e-10)


@oracle("ssmax(rope)", against="a loop over queries and keys")
@layers
@shapes
def test_ssmax_around_rope_is_the_formula(heads, length, layer):
    encoding = stirred(make_encoding("ssmax(rope)", heads))
    q, k, v = qkv(heads, length)
    slow = loops.attend(by_query(rotary_scores(q, k), lambda n: encoding.s[layer][:, None] * math.log(n)), v)
    tensors = [q, k, v, encoding.s] if length > 1 else ()
    assert_same(attention(encoding, q, k, v, layer=layer), slow, tensors)


@oracle("logn(nope)", against="a loop over queries and keys")
@pytest.mark.parametrize("always", [True, False])
@shapes
def test_logn_is_the_formula(heads, length, always):
    name = "logn(nope)" if always else "logn(nope, only_past=True)"
    inputs = qkv(heads, length)
    slow = loops.logn(*inputs, train_tokens=12, always=always)
    assert_same(attention(make_encoding(name, heads), *inputs), slow, inputs if length > 1 else (), atol=1e-10)


@oracle("logn(rope)", against="a loop over queries and keys")
@shapes
def test_logn_around_rope_is_the_formula(heads, length):
    q, k, v = qkv(heads, length)
    slow = loops.attend(by_query(rotary_scores(q, k), lambda n: math.log(n) / math.log(12)), v)
    assert_same(attention(make_encoding("logn(rope)", heads), q, k, v), slow, [q, k, v] if length > 1 else ())


def test_ssmax_golden_starts():
    for tokens, start in ((40, 0.36258), (64, 0.31194), (1024, 0.16847)):
        s = make_encoding("ssmax(nope)", 3, train_tokens=tokens, longest_tokens=2000).s
        assert s.shape == (2, 3)
        assert (s - start).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["ssmax", "logn"])
def test_the_number_of_keys_is_told_by_the_place_and_not_by_the_ids(name):
    q, k, v = qkv(3, 12)
    ids = torch.arange(12) * 7 + 3
    assert torch.equal(
        attention(make_encoding(f"{name}(nope)", 3), q, k, v, ids), attention(make_encoding(f"{name}(nope)", 3), q, k, v)
    )
    encoding = make_encoding(f"{name}(randomised(rope))", 3)
    at = At(nominal=12, ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    turned, _ = encoding.rotate(q, k, at)
    plain, _ = make_encoding("rope", 3).rotate(q, k, at)
    ratio = (turned / plain)[0, 0, :, 0]
    expected = torch.arange(1, 13, dtype=torch.float64).log()
    torch.testing.assert_close(ratio / ratio[-1], expected / expected[-1], atol=1e-6, rtol=0)


# --- randomised


def drawn(encoding: Encoding, length: int, nominal: int, seed: int = 0) -> Tensor:
    return encoding.positions(
        torch.zeros(2, length, dtype=torch.long), At(nominal, generator=torch.Generator().manual_seed(seed))
    )


def given_ids(name: str, length: int, **sizes) -> tuple[Encoding, Tensor]:
    """An encoding, and the ids that ``attention`` has it draw (seed 0, as many as there are tokens)."""
    encoding = stirred(make_encoding(name, 3, **sizes))
    ids = drawn(encoding, length, length)
    assert loops.are_randomised_ids(ids, 120)
    assert torch.equal(ids, torch.arange(length)) == (length == 120), "the longest length leaves none out"
    return encoding, ids


@oracle("randomised(rope)", against="a loop over queries and keys")
@pytest.mark.parametrize("length", [1, 12, 30, 120])
def test_randomised_rope_is_rope_at_the_ids_drawn(length):
    encoding, ids = given_ids("randomised(rope)", length)
    q, k, v = qkv(3, length)
    ours, slow = attention(encoding, q, k, v), loops.attend(rotary_scores(q, k, ids), v)
    assert_same(ours, slow, [q, k, v] if 1 < length < 100 else ())


@oracle("randomised(alibi)", against="a loop over queries and keys")
@pytest.mark.parametrize("length", [1, 12, 30])
def test_randomised_alibi_is_alibi_at_the_ids_drawn(length):
    encoding, ids = given_ids("randomised(alibi)", length)
    q, k, v = qkv(3, length)
    slopes = torch.tensor(loops.alibi_slopes(3), dtype=torch.float64)
    slow = loops.biased(q, k, v, loops.alibi(ids, slopes))
    assert_same(attention(encoding, q, k, v), slow, [q, k, v] if length > 1 else ())


@oracle("randomised(t5)", against="a loop over queries and keys")
@pytest.mark.parametrize("length", [1, 12, 30])
def test_randomised_t5_is_t5_at_the_ids_drawn(length):
    encoding, ids = given_ids("randomised(t5)", length)
    q, k, v = qkv(3, length)
    slow = loops.biased(q, k, v, loops.t5_bias(ids, encoding.base.table))
    assert_same(attention(encoding, q, k, v), slow, [q, k, v, encoding.base.table] if length > 1 else (), atol=1e-10)


@oracle("randomised(fire)", against="a loop over queries and keys")
@layers
@pytest.mark.parametrize("length", [12, 30])
def test_randomised_fire_is_fire_at_the_ids_drawn(length, layer):
    encoding, ids = given_ids("randomised(fire)", length)
    base, (q, k, v) = encoding.base, qkv(3, length)
    base.m.data.fill_(0.1)  # T₀ = 51.2, which some ids are past and some are not
    network = base.w1[layer, :, None], base.b1[layer], base.w2[layer], torch.zeros(3, dtype=torch.float64)
    slow = loops.biased(q, k, v, loops.fire(ids, *network, c=base.c[layer], T0=(base.m[layer] * 512).abs()))
    tensors = [q, k, v, base.c, base.m, base.w1, base.b1, base.w2]
    assert_same(attention(encoding, q, k, v, layer=layer), slow, tensors, atol=2e-5)


@oracle("randomised(learned)", "randomised(sinusoidal)", against="a loop over tokens")
@pytest.mark.parametrize("length", [1, 12, 30, 120])
@pytest.mark.parametrize("name", ["learned", "sinusoidal"])
def test_randomised_absolute_encodings_add_the_rows_of_the_ids_drawn(name, length):
    encoding, ids = given_ids(f"randomised({name})", length)
    x = torch.randn(2, length, 24, dtype=torch.float64, requires_grad=True)
    at = At(nominal=length, ids=ids)
    at = replace(at, shared=encoding.prepare(at))

    def row(p: int) -> Tensor:
        if name == "learned":
            return encoding.base.table[p]
        waves = [(math.sin(p / 10000 ** (2 * t / 24)), math.cos(p / 10000 ** (2 * t / 24))) for t in range(12)]
        return torch.tensor(waves, dtype=torch.float64).flatten()

    expected = torch.stack([x[:, t] + row(p) for t, p in enumerate(ids.tolist())], 1)
    assert_same(encoding.embed(x, at), expected, [x, *encoding.parameters()])


def test_randomised_ids_are_a_uniform_subset_of_the_range():
    encoding = make_encoding("randomised(rope)", 3, longest_tokens=10)
    draws = torch.stack([drawn(encoding, 4, 4, seed) for seed in range(4000)])
    assert all(loops.are_randomised_ids(ids, 10) for ids in draws)
    often = torch.bincount(draws.flatten(), minlength=10) / 4000
    assert (often - 0.4).abs().max() < 5 * math.sqrt(0.4 * 0.6 / 4000), "each id lies in 4 of 10 draws"
    assert len({tuple(ids.tolist()) for ids in draws}) == math.comb(10, 4)


def test_randomised_draws_for_the_announced_length_and_takes_the_first():
    encoding = make_encoding("randomised(rope)", 3)
    whole = drawn(encoding, 40, 40)
    for length in (1, 7, 39):
        assert torch.equal(drawn(encoding, length, 40), whole[:length])
    assert not torch.equal(drawn(encoding, 40, 40, seed=1), whole)
    assert torch.equal(drawn(encoding.eval(), 40, 40), whole), "drawn in tests as in training"
    assert torch.equal(drawn(encoding, 120, 120), torch.arange(120)), "at the longest length no id is left out"


def test_randomised_refuses_what_it_cannot_draw():
    encoding = make_encoding("randomised(rope)", 3)
    with pytest.raises(ValueError, match="121"):
        drawn(encoding, 5, 121)
    with pytest.raises(ValueError, match="sequence of 6"):
        drawn(encoding, 6, 5)
    with pytest.raises(tasks.InputError, match="longest ≥ 120"):
        make_encoding("randomised(rope, longest=119)", 3)


def test_randomised_can_reach_further_and_tables_grow_with_it():
    encoding = make_encoding("randomised(learned, longest=2048)", 3)
    assert encoding.base.table.shape[0] == 2048
    ids = torch.cat([drawn(encoding, 40, 40, seed) for seed in range(50)])
    assert 1900 < ids.max() < 2048
    assert make_encoding("randomised(t5, longest=2048)", 3).base.table.shape == (32, 3), "T5 has no row for each place"


# --- abacus, position coupling


def addition_ids(name: str, variant: str, training: bool = False, seed: int = 0, longest: int = 20):
    """Tokens of additions of 1 … 6 digits, spelled out, and the ids that an encoding gives them."""
    task = tasks.get("addition", variant, longest)
    examples = task.sample(np.arange(1, 7).repeat(5), 30, np.random.default_rng(seed))
    setup = setup_of(spec_of(), task.tokens(4), task.tokens(longest), task.vocabulary)
    encoding = encodings.get(name).make(setup).train(training)
    tokens = torch.from_numpy(examples.tokens)
    ids = encoding.positions(tokens, At(task.tokens(6), generator=torch.Generator().manual_seed(seed)))
    return [[task.vocabulary.symbols[t] for t in row] for row in examples.tokens], ids, encoding


def table_lookup(encoding: Encoding, ids: Tensor) -> None:
    """What is added to the embedding of the first layer is the row of each id."""
    encoding = encoding.double()
    x = torch.randn(*ids.shape, 24, dtype=torch.float64, requires_grad=True)
    at = At(nominal=ids.shape[1], ids=ids)
    expected = torch.stack([torch.stack([encoding.table[p] for p in row]) for row in ids.tolist()]) + x
    assert_same(encoding.embed(x, at), expected, [x, encoding.table], atol=1e-12)
    assert encoding.embed(x, replace(at, layer=1)) is x


@oracle("abacus", against="a loop over tokens")
@pytest.mark.parametrize("variant", ["reversed", "plain", "scratchpad"])
def test_abacus_is_the_place_in_the_run_of_digits(variant):
    texts, ids, encoding = addition_ids("abacus", variant)
    assert ids.tolist() == [loops.abacus_ids(text) for text in texts]
    table_lookup(encoding, ids)


def test_abacus_adds_one_offset_to_all_digits_in_training_alone():
    offsets = set()
    for seed in range(300):
        texts, ids, _ = addition_ids("abacus(offset=9)", "reversed", training=True, seed=seed)
        (offset,) = {row[1] - 1 for row in ids.tolist()}  # every row begins <bos> digit
        assert ids.tolist() == [loops.abacus_ids(text, offset) for text in texts]
        offsets.add(offset)
    assert offsets == set(range(10))


def test_abacus_has_a_row_for_every_id_and_none_to_tell_where_there_are_no_digits():
    encoding = make_encoding("abacus", 12)
    assert encoding.table.shape == (120 + 99 + 1, 96)
    assert encoding.table.std().item() == pytest.approx(1, abs=0.03)
    digits = torch.full((1, 119), 4)
    at = At(nominal=120, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(1, 119, 96, dtype=torch.float64)
    assert encoding.embed(x, replace(at, ids=encoding.positions(digits, at))).isfinite().all()
    task = tasks.get("copying")
    words = torch.from_numpy(task.sample(5, 4, np.random.default_rng(0)).tokens)
    setup = setup_of(spec_of(), 13, 60, task.vocabulary)
    assert (encodings.get("abacus").make(setup).positions(words, at) == 0).all()


@oracle("position_coupling", against="a loop over tokens")
@pytest.mark.parametrize("variant", ["reversed", "plain"])
def test_position_coupling_is_the_significance(variant):
    texts, ids, encoding = addition_ids("position_coupling", variant)
    assert ids.tolist() == [loops.coupling_ids(text) for text in texts]
    table_lookup(encoding, ids)


def test_position_coupling_by_hand():
    task = tasks.get("addition", "scratchpad", 4)
    setup = setup_of(spec_of(), task.tokens(4), task.tokens(4), task.vocabulary)
    encoding = encodings.get("position_coupling").make(setup).eval()
    text = "<bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos> <pad> <pad>"
    expected = [0, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 2, 3, 4, 5, 0, 0, 0]
    assert encoding.positions(torch.tensor([task.vocabulary.encode(text)]), At(26)).tolist() == [expected]


def test_position_coupling_starts_anywhere_in_training_and_leaves_no_id_of_a_test_untrained():
    starts = set()
    for seed in range(300):
        texts, ids, encoding = addition_ids("position_coupling", "reversed", training=True, seed=seed, longest=8)
        (start,) = {row[text.index("+")] for row, text in zip(ids.tolist(), texts, strict=True)}
        assert ids.tolist() == [loops.coupling_ids(text, start) for text in texts]
        starts.add(start)
    assert starts == set(range(1, encoding.starts + 1))
    assert encoding.starts + 5 == 1 + 9, "the last of 5 digits in training reaches the id of the last of 9 in a test"


def test_position_coupling_falls_back_to_plain_positions():
    task = tasks.get("copying")
    setup = setup_of(spec_of(), 13, 60, task.vocabulary)
    encoding = encodings.get("position_coupling").make(setup)
    tokens = torch.from_numpy(task.sample(5, 4, np.random.default_rng(0)).tokens)
    at = At(13, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoding.eval().positions(tokens, at), torch.arange(1, tokens.shape[1] + 1))
    starts = {int(encoding.train().positions(tokens, at)[0]) for _ in range(2000)}
    assert starts == set(range(1, 49)), "the last of 13 tokens reaches the id of the last of 60"
    assert encoding.table.shape[0] > 48 + 59


def test_position_coupling_has_a_row_for_whatever_a_model_writes():
    encoding = make_encoding("position_coupling", 3).train()
    assert encoding.table.std().item() == pytest.approx(1, abs=0.05)
    for seed in range(200):
        at = At(nominal=120, generator=torch.Generator().manual_seed(seed))
        ids = encoding.positions(torch.full((1, 120), 4), at)  # nothing but digits
        assert ids.max() < len(encoding.table)
    assert encoding.positions(random_tokens(3, 50), at).shape == (3, 50)
