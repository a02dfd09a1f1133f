"""Oracles of what is added to embeddings and scores, and of relative terms: libraries where they hold one, else slow loops."""

import math
from dataclasses import replace
from types import SimpleNamespace

import loop_oracles as loops
import pytest
import torch
from helpers import HEAD_WIDTH, assert_same, attention, make_encoding, oracle, qkv
from torch import nn
from transformers import T5Config, XLNetConfig
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding
from transformers.models.xlnet.modeling_xlnet import XLNetModel
from x_transformers import x_transformers

from bench.encodings import At, Encoding, alibi, da, fire, kerple, t5

LAYER = 1
"""Of the two that encodings have here: the one whose parameters are to be used."""
TRAIN, LONGEST = 12, 120
SHAPES = [(1, 5), (2, 1), (3, 30), (5, 7), (6, 12), (12, 18)]
"""Heads and tokens: odd head counts, a single token, lengths below, at and past L."""
shapes = pytest.mark.parametrize(("heads", "length"), SHAPES)
odd_heads = pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 7, 8, 12, 15])

# Ids of which no row starts at zero, none is even spaced, and rows differ: what a scheme of positions may hand to an encoding.
IDS = torch.tensor([[0, 1, 2, 5, 9, 11, 40], [3, 4, 10, 11, 12, 90, 91]])


def made(name: str, heads: int, **sizes: int) -> Encoding:
    """An encoding whose parameters are away from their start, where zeros and small numbers hide much."""
    encoding = make_encoding(name, heads, **sizes)
    noise = 0 if name.startswith("kerple") else 0.3  # which starts at random, within walls
    source = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return encoding


def at_layer(encoding: Encoding, ids: torch.Tensor, layer: int = LAYER) -> At:
    at = At(nominal=ids.shape[-1], ids=ids)
    return replace(at, shared=encoding.prepare(at), layer=layer)


# --- attention by loops, one line for each encoding: e the encoding, whose parameters the loop is told

LONG_ALIBI = {1: [2**-8], 2: [2**-8], 3: [2**-4, 2**-8], 5: [2**-4, 2**-8, 2**-2], 6: [2**-4, 2**-8, 2**-2]}
LONG_ALIBI[12] = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
"""Heads → the slopes of `alibi_half`, written out."""


def fire_bias(e: fire.FIRE, ids: torch.Tensor) -> torch.Tensor:
    w1, b1, w2, c = e.w1[LAYER][:, None], e.b1[LAYER], e.w2[LAYER], e.c[LAYER]
    # Ours has no last bias, since it cannot matter: here it has one.
    b2 = torch.linspace(-3, 5, len(w2), dtype=torch.float64)
    return loops.fire(ids, w1, b1, w2, b2, c, (e.m[LAYER] * e.threshold).abs())


BIASES = {
    "alibi_learned": lambda e, ids: loops.alibi(ids, e.log_slopes.exp()),
    "alibi_half": lambda e, ids: loops.half_alibi(ids, torch.tensor(LONG_ALIBI[e.setup.heads]).double(), e.setup.heads),
    "kerple_log": lambda e, ids: loops.kerple_log(ids, e.a.flatten(), e.p.flatten()),
    "kerple_power": lambda e, ids: loops.kerple_power(ids, e.a.flatten(), e.p.flatten()),
    "sandwich": lambda e, ids: loops.sandwich(ids, e.setup.heads),
    "sandwich(width=16)": lambda e, ids: loops.sandwich(ids, e.setup.heads, 16),
    "fire": fire_bias,
    "fire(threshold=20.0)": fire_bias,
    "fire_half": fire_bias,
    # L = 12: six buckets, three of them exact.
    "t5_matched": lambda e, ids: loops.t5_bias(ids, e.table, lambda r: loops.t5_bucket(r, 6, 12)),
    "t5_matched(buckets=4)": lambda e, ids: loops.t5_bias(ids, e.table, lambda r: loops.t5_bucket(r, 4, 12)),
}


def shaw(e, q, k, v, ids):
    return loops.shaw(q, k, v, ids, e.keys[LAYER], e.values[LAYER], e.clip)


def transformer_xl(e, q, k, v, ids):
    return loops.transformer_xl(q, k, v, ids, e.u, e.v, e.w[LAYER].flatten(0, 1))


def da_transformer(e, q, k, v, ids):
    return loops.da_attention(q, k, v, ids, e.w[LAYER].flatten(), e.v[LAYER].flatten())


ATTENTIONS = {"shaw": shaw, "shaw(clip=3)": shaw, "transformer_xl": transformer_xl, "da": da_transformer}


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
    slow = by_loops(name, encoding, *inputs, IDS)
    # Sums of fast and far phases and large powers: a float32 table is good to 10⁻⁷ of the distance.
    assert_same(attention(encoding, *inputs, ids=IDS, layer=LAYER), slow, [*inputs, *encoding.parameters()], atol=1e-5)


# --- sinusoidal, in every layer


@oracle("sinusoidal_every_layer", against="a loop with math.sin")
@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("ids", [torch.arange(30), IDS], ids=["past L", "by row"])
def test_sinusoids_come_in_every_layer(ids, base):
    encoding = make_encoding(f"sinusoidal_every_layer(base={base})", 3)
    width = 3 * HEAD_WIDTH
    x = torch.randn(2, ids.shape[-1], width, dtype=torch.float64, requires_grad=True)
    halves = torch.stack([loops.halved_sinusoid(p, width, base) for p in ids.flatten().tolist()])
    expected = torch.stack(halves.chunk(2, -1), -1).reshape(*ids.shape, width)  # sine, cosine, sine …
    for layer in (0, 1):
        assert_same(encoding.embed(x, at_layer(encoding, ids, layer)), x + expected, [x], atol=1e-7)


# --- learned, per layer and with offsets


@oracle("learned_per_layer", against="torch.nn.Embedding")
@pytest.mark.parametrize("ids", [torch.arange(7), torch.arange(TRAIN + 8), IDS], ids=["short", "past L", "by row"])
@pytest.mark.parametrize("heads", [1, 3, 5])
def test_each_layer_has_its_embedding_of_positions(heads, ids):
    encoding = make_encoding("learned_per_layer", heads, train_tokens=TRAIN, longest_tokens=LONGEST)
    assert encoding.table.shape == (2, LONGEST, heads * HEAD_WIDTH)
    assert abs(encoding.table.std().item() - 0.02) < 0.002
    x = torch.randn(2, ids.shape[-1], heads * HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    for layer in (0, 1):
        theirs = nn.Embedding.from_pretrained(encoding.table[layer].detach(), freeze=False)
        ours, expected = encoding.embed(x, At(nominal=20, ids=ids, layer=layer)), x + theirs(ids)
        assert_same(ours, expected, [x], atol=1e-12)
        weights = torch.randn(ours.shape, dtype=torch.float64)
        (found,) = torch.autograd.grad((ours * weights).sum(), encoding.table)
        (wanted,) = torch.autograd.grad((expected * weights).sum(), theirs.weight)
        torch.testing.assert_close(found[layer], wanted)
        assert found[1 - layer].abs().max() == 0


def offset_ids(encoding: Encoding, rows: int, length: int, nominal: int, seed: int = 0) -> torch.Tensor:
    at = At(nominal=nominal, generator=torch.Generator().manual_seed(seed))
    return encoding.positions(torch.zeros(rows, length, dtype=torch.long), at)


@oracle("learned_offset", against="torch.nn.Embedding; the law of its offsets by counting")
def test_learned_offset_is_an_embedding_of_moved_positions():
    encoding = make_encoding("learned_offset", 3, train_tokens=TRAIN, longest_tokens=LONGEST)
    theirs = nn.Embedding(LONGEST, 3 * HEAD_WIDTH)
    theirs.weight = encoding.table
    x = torch.randn(4, TRAIN, 3 * HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    for training in (True, False):
        ids = offset_ids(encoding.train(training), 4, TRAIN, TRAIN)
        first = ids[..., :1] if training else torch.zeros(1, dtype=torch.long)
        assert torch.equal(ids, first + torch.arange(TRAIN)), "one offset for a whole sequence, and none in a test"
        ours = encoding.embed(x, At(nominal=TRAIN, ids=ids))
        assert_same(ours, x + theirs(first + torch.arange(TRAIN)), [x, encoding.table], atol=1e-12)
        assert torch.equal(encoding.embed(x, At(nominal=TRAIN, ids=ids, layer=1)), x), "added once, at the input"


def test_offsets_are_uniform_and_reach_every_row():
    encoding = make_encoding("learned_offset", 1, train_tokens=TRAIN, longest_tokens=LONGEST).train()
    drawn = offset_ids(encoding, 20_000, TRAIN, TRAIN)
    counts = torch.bincount(drawn[:, 0], minlength=LONGEST)
    places = LONGEST - TRAIN + 1
    assert (counts[:places] > 0).all() and (counts[places:] == 0).all(), "0 … L′ − L, both ends included"
    expected = 20_000 / places
    assert ((counts[:places] - expected).square() / expected).sum() < 1.5 * places  # χ² of as many degrees of freedom
    assert torch.equal(drawn.unique(), torch.arange(LONGEST)), "every row is trained"


def test_offsets_hang_on_the_announced_length_alone():
    encoding = make_encoding("learned_offset", 1, train_tokens=TRAIN, longest_tokens=LONGEST).train()
    whole = offset_ids(encoding, 50, 40, nominal=40)
    assert torch.equal(offset_ids(encoding, 50, 9, nominal=40), whole[:, :9])
    assert whole.max() < LONGEST
    assert torch.equal(offset_ids(encoding, 5, LONGEST, nominal=LONGEST), torch.arange(LONGEST).expand(5, -1))
    assert torch.equal(offset_ids(encoding, 5, 3, nominal=LONGEST + 9), torch.arange(3).expand(5, -1))


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


def test_shaw_without_tables_is_nope():
    encoding, inputs = make_encoding("shaw", 3), qkv(3, 30)
    with torch.no_grad():
        encoding.keys.zero_(), encoding.values.zero_()
    assert_same(attention(encoding, *inputs), attention(make_encoding("nope", 3), *inputs), inputs, atol=1e-12)


def test_shaw_never_makes_a_vector_for_each_pair():
    heads, length, width = 2, 64, 32
    inputs = [torch.randn(1, heads, length, width, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        attention(make_encoding("shaw", heads, width), *inputs)
    assert 0 < max(sizes) <= heads * length * length


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


def test_transformer_xl_never_makes_a_vector_for_each_pair():
    heads, length = 2, 128
    inputs = [torch.randn(1, heads, length, HEAD_WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        attention(make_encoding("transformer_xl", heads), *inputs)
    assert 0 < max(sizes) <= heads * length * length


# --- t5, sized to L


@oracle("t5_matched", against="transformers T5Attention.compute_bias")
@pytest.mark.parametrize(("train", "count"), [(23, 11), (40, 20), (64, 32), (300, 32), (12, 6)])
@pytest.mark.parametrize(("heads", "length"), [(3, 30), (5, 100)])
def test_t5_matched_bias_equals_transformers(heads, length, train, count):
    config = T5Config(
        num_heads=heads,
        d_kv=HEAD_WIDTH,
        d_model=heads * HEAD_WIDTH,
        relative_attention_num_buckets=count,
        relative_attention_max_distance=train,
        is_decoder=True,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    encoding = made("t5_matched", heads, train_tokens=train)
    assert encoding.table.shape == (count, heads)
    theirs.relative_attention_bias.weight = encoding.table
    lower = torch.ones(length, length).tril()
    ours = encoding.prepare(At(nominal=length, ids=torch.arange(length)))
    assert_same(ours * lower, theirs.compute_bias(length, length)[0] * lower, [encoding.table], atol=1e-12)


@pytest.mark.parametrize("train", [*range(4, 80), 100, 128, 200, 1000])
def test_t5_matched_has_no_untrained_bucket(train):
    encoding = make_encoding("t5_matched", 1, train_tokens=train)
    # The last token is never a query that counts: distances in training reach L − 2.
    met = t5.buckets(torch.arange(train - 1), encoding.count, encoding.max_distance).unique()
    beyond = t5.buckets(torch.arange(train - 1, 10 * train), encoding.count, encoding.max_distance).unique()
    assert beyond.tolist() == [encoding.count - 1] and beyond[0] in met


@pytest.mark.parametrize("train", [1, 2, 3])
def test_t5_matched_is_defined_for_the_shortest(train):
    encoding = make_encoding("t5_matched", 1, train_tokens=train)
    assert encoding.prepare(At(nominal=50, ids=torch.arange(50))).isfinite().all()


# --- alibi, learned and halved


@oracle("alibi_learned", against="x-transformers AlibiPositionalBias")
@odd_heads
def test_alibi_learned_starts_as_alibi_and_follows_its_slopes(heads):
    encoding = make_encoding("alibi_learned", heads)
    ids = torch.arange(40)
    start = x_transformers.AlibiPositionalBias(heads)
    torch.testing.assert_close(encoding.prepare(At(40, ids=ids)).tril(), start(40, 40).double().tril(), atol=1e-5, rtol=1e-6)
    with torch.no_grad():
        encoding.log_slopes.copy_(torch.linspace(-6, 1, heads))
    moved = x_transformers.AlibiPositionalBias(heads, slopes=torch.linspace(-6, 1, heads).exp().tolist())
    torch.testing.assert_close(encoding.prepare(At(40, ids=ids)).tril(), moved(40, 40).double().tril(), atol=1e-5, rtol=1e-6)


@oracle("alibi_half", against="x-transformers AlibiPositionalBias with fewer heads than in total")
@odd_heads
def test_alibi_half_equals_x_transformers(heads):
    theirs = x_transformers.AlibiPositionalBias(math.ceil(heads / 2), total_heads=heads)
    ours = make_encoding("alibi_half", heads).prepare(At(60, ids=torch.arange(60)))
    torch.testing.assert_close(ours.tril(), theirs(60, 60).tril(), atol=1e-5, rtol=1e-6)
    by_row = make_encoding("alibi_half", heads).prepare(At(7, ids=IDS))
    torch.testing.assert_close(by_row.tril(), theirs.forward_custom_pos(IDS).tril(), atol=1e-5, rtol=1e-6)


def test_alibi_half_leaves_the_other_half_without_encoding():
    inputs = qkv(4, 30)
    ours, nope = (attention(make_encoding(name, 4), *inputs) for name in ("alibi_half", "nope"))
    assert torch.allclose(ours[:, 2:], nope[:, 2:]) and not torch.allclose(ours[:, :2], nope[:, :2], atol=1e-2)
    assert make_encoding("alibi_half", 4).slopes().tolist() == [1 / 16, 1 / 256, 0, 0]
    assert make_encoding("alibi_half", 1).slopes().tolist() == alibi.slopes(1), "a single head has ALiBi"


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


@pytest.mark.parametrize(("name", "expected"), [("kerple_log", [0, -0.69314718, -2.39789527]), ("kerple_power", [0, -1, -10])])
def test_kerple_golden_numbers(name, expected):
    encoding = make_encoding(name, 2)
    with torch.no_grad():
        encoding.a.fill_(1), encoding.p.fill_(1)
    bias = encoding.prepare(At(11, ids=torch.arange(11)))
    for r, value in zip((0, 1, 10), expected, strict=True):
        torch.testing.assert_close(bias[:, 10, 10 - r], torch.full((2,), value, dtype=torch.float64), atol=5e-9, rtol=0)


@pytest.mark.parametrize(("name", "high"), [("kerple_log", 7.0), ("kerple_power", 2.0)])
def test_kerple_is_clamped_but_gradients_pass(name, high):
    encoding, within = make_encoding(name, 2), make_encoding(name, 2)
    with torch.no_grad():
        encoding.a.copy_(torch.tensor([-3.0, 5.0])[:, None, None]), encoding.p.copy_(torch.tensor([-1.0, 7.0])[:, None, None])
        within.a.copy_(torch.tensor([0.01, 5.0])[:, None, None]), within.p.copy_(torch.tensor([0.01, high])[:, None, None])
    at = At(9, ids=torch.arange(9))
    assert_same(encoding.prepare(at), within.prepare(at), atol=1e-12)
    # As the authors' clamp in place has it: the gradient is that of the clamped value.
    for e in (encoding, within):
        e.prepare(at).sum().backward()
    torch.testing.assert_close(encoding.a.grad, within.a.grad)
    torch.testing.assert_close(encoding.p.grad, within.p.grad)
    assert kerple.held(torch.tensor(0.5), 0.01, 2).item() == 0.5


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power"])
def test_kerple_starts_as_declared(name):
    encoding = make_encoding(name, 1000)
    for tensor, most in ((encoding.a, 1), (encoding.p, 2)):
        assert 0 <= tensor.min() < 0.02 * most and 0.98 * most < tensor.max() <= most
        assert tensor.mean().item() == pytest.approx(most / 2, rel=0.1)


# --- sandwich


def test_sandwich_golden_numbers():
    bias = make_encoding("sandwich", 4).prepare(At(101, ids=torch.arange(101)))
    sums = bias[3, 100].double() * 8 + 64  # the last head's ratio is 8h/H = 8
    for r, value in {0: 64, 1: 62.09368381, 2: 57.38186055, 10: 42.82002290, 100: 30.54345470}.items():
        assert sums[100 - r].item() == pytest.approx(value, abs=1e-5)
    torch.testing.assert_close(bias, bias[3] * torch.tensor([4, 2, 4 / 3, 1])[:, None, None])


# --- fire


def test_fire_golden_numbers():
    c, threshold = torch.tensor([0.1]).double(), torch.tensor([512.0]).double()
    for (i, j), value in {(10, 0): 0.17525475, (10, 5): 0.10251746, (1000, 0): 0.99999978, (1000, 990): 0.15019047}.items():
        found = fire.share(torch.tensor([i - j]).double(), torch.tensor([i]).double(), c, threshold)
        assert found.item() == pytest.approx(value, abs=2e-8)  # the last of them was written down from float32


@pytest.mark.parametrize(("name", "threshold"), [("fire", 512), ("fire_half", TRAIN / 2)])
def test_fire_starts_as_declared(name, threshold):
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
