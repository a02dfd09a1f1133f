"""Oracles of biases and relative terms: libraries where they have a counterpart, else slow loops."""

import math
from dataclasses import replace
from types import SimpleNamespace

import loop_oracles as loops
import pytest
import torch
from helpers import HEAD_WIDTH, UNEVEN_IDS, assert_same, attention, make_encoding, oracle, perturbed, qkv
from torch import nn
from transformers import XLNetConfig
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding
from transformers.models.xlnet.modeling_xlnet import XLNetModel

from bench.encodings import At, Encoding, da, fire, kerple

LAYER = 1
"""The layer whose parameters are used, of two."""
TRAIN, LONGEST = 12, 120
SHAPES = [(1, 5), (2, 1), (3, 30), (5, 7), (6, 12), (12, 18)]
"""Heads and tokens: odd head counts, a single token, lengths below, at and past L."""
shapes = pytest.mark.parametrize(("heads", "length"), SHAPES)
odd_heads = pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 7, 8, 12, 15])


def made(name: str, heads: int, **sizes: int) -> Encoding:
    """An encoding with perturbed parameters, except KERPLE's, which are random within bounds."""
    return perturbed(make_encoding(name, heads, **sizes), 0 if name.startswith("kerple") else 0.3)


def at_layer(encoding: Encoding, ids: torch.Tensor, layer: int = LAYER) -> At:
    at = At(announced_length=ids.shape[-1], ids=ids)
    return replace(at, shared=encoding.prepare(at), layer=layer)


# --- encodings without a library counterpart: e is the encoding, whose parameters the loop uses


def fire_bias(e: fire.FIRE, ids: torch.Tensor) -> torch.Tensor:
    w1, b1, w2, c = e.w1[LAYER][:, None], e.b1[LAYER], e.w2[LAYER], e.c[LAYER]
    # Ours has no last bias, since it cannot matter: here it has one.
    b2 = torch.linspace(-3, 5, len(w2), dtype=torch.float64)
    return loops.fire(ids, w1, b1, w2, b2, c, (e.m[LAYER] * e.threshold).abs())


BIASES = {
    "kerple_log": lambda e, ids: loops.kerple_log(ids, e.a.flatten(), e.p.flatten()),
    "kerple_power": lambda e, ids: loops.kerple_power(ids, e.a.flatten(), e.p.flatten()),
    "sandwich": lambda e, ids: loops.sandwich(ids, e.setup.heads),
    "sandwich(width=16)": lambda e, ids: loops.sandwich(ids, e.setup.heads, 16),
    "fire": fire_bias,
    "fire(threshold=20.0)": fire_bias,
    "fire_scaled": fire_bias,
}


def shaw(e, q, k, v, ids):
    return loops.shaw(q, k, v, ids, e.keys[LAYER], e.values[LAYER], e.clip)


def da_transformer(e, q, k, v, ids):
    return loops.da_attention(q, k, v, ids, e.w[LAYER].flatten(), e.v[LAYER].flatten())


ATTENTIONS = {"shaw": shaw, "shaw(clip=3)": shaw, "shaw_scaled": shaw, "da": da_transformer}


def by_loops(name: str, e: Encoding, q, k, v, ids) -> torch.Tensor:
    return loops.biased(q, k, v, BIASES[name](e, ids)) if name in BIASES else ATTENTIONS[name](e, q, k, v, ids)


every = pytest.mark.parametrize("name", [*BIASES, *ATTENTIONS])
registered = oracle(*{name.split("(")[0] for name in (*BIASES, *ATTENTIONS)}, against="a loop over queries and keys")


@registered
@every
@shapes
def test_attention_is_the_formula(name, heads, length):
    encoding, inputs = made(name, heads, train_tokens=TRAIN), qkv(heads, length)
    slow = by_loops(name, encoding, *inputs, torch.arange(length))
    assert_same(attention(encoding, *inputs, layer=LAYER), slow, [*inputs, *encoding.parameters()])


@registered
@every
def test_attention_is_the_formula_at_ids_by_row(name):
    encoding, inputs = made(name, 3, train_tokens=TRAIN), qkv(3, 7)
    slow = by_loops(name, encoding, *inputs, UNEVEN_IDS)
    # Sums of fast and far phases and large powers: a float32 table is good to 10⁻⁷ of the distance.
    assert_same(attention(encoding, *inputs, ids=UNEVEN_IDS, layer=LAYER), slow, [*inputs, *encoding.parameters()], atol=1e-5)


# --- shaw


@oracle("shaw", against="transformers wav2vec2_bert, the key half")
@pytest.mark.parametrize("clip", [16, 3])
@shapes
def test_shaw_key_term_equals_wav2vec2_bert(heads, length, clip):
    encoding = made(f"shaw(clip={clip})", heads)
    q, k, _ = qkv(heads, length)
    # Their table has later keys too, and counts j − i from −clip.
    table = torch.cat([encoding.keys[LAYER].flip(0), torch.full((8, HEAD_WIDTH), 1e3)])
    module = SimpleNamespace(
        left_max_position_embeddings=clip,
        right_max_position_embeddings=8,
        distance_embedding=lambda rows: table[rows],
        scaling=HEAD_WIDTH**-0.5,
    )
    _, theirs = _apply_relative_key_position_encoding(module, q, k)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    ours = encoding.bias(q, k, at_layer(encoding, torch.arange(length)))
    assert_same(ours.masked_fill(later, 0), theirs.masked_fill(later, 0), [q, encoding.keys], atol=1e-12)


def test_shaw_scaled_has_no_untrained_row():
    # The last token predicts nothing, so the largest distance in training is L − 2; `shaw` has rows for up to 16.
    for train in (*range(3, 80), 100, 1000):
        assert make_encoding("shaw_scaled", 1, train_tokens=train).keys.shape[1] - 1 == train // 2 <= train - 2


def test_shaw_without_tables_is_nope():
    encoding, inputs = make_encoding("shaw", 3), qkv(3, 30)
    with torch.no_grad():
        encoding.keys.zero_(), encoding.values.zero_()
    assert_same(attention(encoding, *inputs), attention(make_encoding("nope", 3), *inputs), inputs, atol=1e-12)


# --- transformer-xl


@oracle("transformer_xl", against="transformers XLNet, rel_attn_core")
@shapes
def test_transformer_xl_equals_xlnet(heads, length):
    encoding, inputs = made("transformer_xl", heads), qkv(heads, length)
    width = heads * HEAD_WIDTH
    config = XLNetConfig(vocab_size=8, d_model=width, n_layer=1, n_head=heads, d_inner=8, attn_type="uni", dropout=0)
    model = XLNetModel(config).double().eval()
    theirs = model.layer[0].rel_attn
    del theirs.r_w_bias, theirs.r_r_bias
    theirs.r_w_bias, theirs.r_r_bias = encoding.u, encoding.v
    r = model.relative_positional_encoding(length, length, bsz=2).double()  # sinusoids of r = T … 0
    positions = torch.einsum("ibh,ndh->ibnd", r, encoding.w[LAYER])
    positions = torch.cat([positions, positions.new_zeros(length - 1, *positions.shape[1:])])  # r < 0, which the mask hides
    later = torch.ones(length, length, dtype=torch.float64).triu(1)[..., None, None]
    q, k, v = (x.permute(2, 0, 1, 3) for x in inputs)
    expected = theirs.rel_attn_core(q, k, v, positions, attn_mask=later).permute(1, 2, 0, 3)
    ours = attention(encoding, *inputs, layer=LAYER)
    assert_same(ours, expected, [*inputs, encoding.u, encoding.v, encoding.w], atol=1e-5)  # their sinusoids are float32


@pytest.mark.parametrize("name", ["shaw", "transformer_xl"])
def test_no_vector_per_pair_is_allocated(name):
    heads, length, width = 2, 64, 32
    inputs = [torch.randn(1, heads, length, width, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        attention(make_encoding(name, heads, width), *inputs)
    assert 0 < max(sizes) <= heads * length * length


# --- da-transformer


def test_da_golden_numbers():
    zero = torch.zeros((), dtype=torch.float64)
    f = [da.sigmoid_of_distance(torch.tensor(float(x), dtype=torch.float64), zero).item() for x in (-1e4, -1, 0, 1, 1e4)]
    assert f == pytest.approx([0, 0.5378828427, 1, 1.4621171573, 2], abs=1e-10)


def test_da_sigmoid_is_finite_where_the_plain_form_overflows():
    x = torch.tensor([-1e6, -200.0, 0.0, 200.0, 1e6], requires_grad=True)
    for v in (-500.0, -100.0, 0.0, 80.0):
        f = da.sigmoid_of_distance(x, torch.tensor(v))
        (slope,) = torch.autograd.grad(f.sum(), x)
        assert f.isfinite().all() and slope.isfinite().all()
        assert f[2].item() == pytest.approx(1, rel=1e-5)


def test_da_starts_near_plain_relu_attention():
    encoding = make_encoding("da", 12, layers=6)
    assert encoding.w.std().item() == pytest.approx(0.02, rel=0.25) and encoding.v.abs().max() == 0
    with torch.no_grad():
        encoding.w.zero_()
    q, k, v = qkv(12, 9)
    scores = (q @ k.mT / math.sqrt(HEAD_WIDTH)).relu().masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    assert_same(attention(encoding, q, k, v), scores.softmax(-1) @ v, [q, k, v], atol=1e-12)


# --- kerple


@pytest.mark.parametrize(("name", "high"), [("kerple_log", 7.0), ("kerple_power", 2.0)])
def test_kerple_is_clamped_but_gradients_pass(name, high):
    encoding, within = make_encoding(name, 2), make_encoding(name, 2)
    with torch.no_grad():
        encoding.a.copy_(torch.tensor([-3.0, 5.0])[:, None, None]), encoding.p.copy_(torch.tensor([-1.0, 7.0])[:, None, None])
        within.a.copy_(torch.tensor([0.01, 5.0])[:, None, None]), within.p.copy_(torch.tensor([0.01, high])[:, None, None])
    at = At(9, ids=torch.arange(9))
    assert_same(encoding.prepare(at), within.prepare(at), atol=1e-12)
    # As with the authors' in-place clamp, the gradient is that of the clamped value.
    for e in (encoding, within):
        e.prepare(at).sum().backward()
    torch.testing.assert_close(encoding.a.grad, within.a.grad)
    torch.testing.assert_close(encoding.p.grad, within.p.grad)
    assert kerple.straight_through_clamp(torch.tensor(0.5), 0.01, 2).item() == 0.5


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power"])
def test_kerple_is_initialised_as_declared(name):
    encoding = make_encoding(name, 1000)
    for tensor, most in ((encoding.a, 1), (encoding.p, 2)):
        assert 0 <= tensor.min() < 0.02 * most and 0.98 * most < tensor.max() <= most
        assert tensor.mean().item() == pytest.approx(most / 2, rel=0.1)


# --- fire


@pytest.mark.parametrize(("name", "threshold"), [("fire", 512), ("fire_scaled", TRAIN / 2)])
def test_fire_is_initialised_as_declared(name, threshold):
    encoding = make_encoding(name, 12, train_tokens=TRAIN, layers=3)
    assert encoding.threshold == threshold
    assert torch.equal(encoding.c, torch.full((3, 1), 0.1).double()) and torch.equal(encoding.m, torch.ones(3, 1).double())
    theirs = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 12))
    for ours, like in ((encoding.w1, theirs[0]), (encoding.b1, theirs[0]), (encoding.w2, theirs[2])):
        bound = like.in_features**-0.5
        assert ours.shape[1:].numel() in (like.weight.numel(), like.bias.numel())
        assert 0.9 * bound < ours.abs().max() <= bound and ours.std().item() == pytest.approx(bound / 3**0.5, rel=0.15)


def test_fire_is_translation_invariant_only_below_its_threshold():
    encoding = made("fire(threshold=50.0)", 3)
    limit = int(encoding.m[LAYER].abs().item() * 50)
    near, moved, beyond = (
        encoding.bias(None, None, at_layer(encoding, torch.arange(9) + shift)) for shift in (0, limit - 9, limit + 9)
    )
    torch.testing.assert_close(near, moved)
    assert (near - beyond).abs().max() > 1e-3
