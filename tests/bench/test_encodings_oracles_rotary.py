"""Oracles of the rotary family and its stretched variants: transformers, x-transformers, slow loops."""

import math
from dataclasses import replace

import loop_oracles as loops
import pytest
import torch
from helpers import (
    ANNOUNCED_SHAPES,
    HEAD_WIDTH,
    NAMES,
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
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from x_transformers import x_transformers

from bench.encodings import At, alibi
from bench.encodings.interpolation import stretch_factor
from bench.encodings.rope import scaled_base
from tasks import InputError

TRAIN, LONGEST = 12, 120
"""L and L′ in tokens of every encoding made here."""
LAYER = 1
"""The layer whose parameters are used, of two."""
shapes = pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)


D = HEAD_WIDTH


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


def test_hope_at_ids_by_row():
    encoding, (q, k, v) = make_encoding("hope", 3), qkv(3, 7)
    slow = loops.attend(loops.rotary(q, k, UNEVEN_IDS, loops.hope_frequencies(1e4, D, TRAIN)), v)
    assert_same(attention_at(encoding, q, k, v, context(encoding, 7, 7, UNEVEN_IDS)), slow, [q, k, v], atol=3e-6)


# --- frequencies of transformers


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
    "interpolated(rope)": lambda d, L, M, N: theirs("linear", d, factor=max(1, N / L)),
    "interpolated(rope,fixed=True)": lambda d, L, M, N: theirs("linear", d, factor=M / L if N > L else 1.0),
    "ntk": lambda d, L, M, N: theirs("dynamic", d, M if N > L else L, factor=1.0, original_max_position_embeddings=L),
    "ntk_dynamic": lambda d, L, M, N: theirs("dynamic", d, N, factor=1.0, original_max_position_embeddings=L),
    "yarn": lambda d, L, M, N: theirs("yarn", d, factor=M / L if N > L else 1.0, original_max_position_embeddings=L),
    "yarn_dynamic": lambda d, L, M, N: theirs("yarn", d, factor=max(1, N / L), original_max_position_embeddings=L),
    "rope_scaled": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=1.0),
    "interpolated(rope_scaled)": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=max(1, N / L)),
    "ntk_scaled": lambda d, L, M, N: theirs(
        "dynamic", d, M if N > L else L, base=half_turning(L), factor=1.0, original_max_position_embeddings=L
    ),
    "yarn_scaled": lambda d, L, M, N: theirs(
        "yarn", d, base=half_turning(L), factor=M / L if N > L else 1.0, original_max_position_embeddings=L
    ),
    "p_rope": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.75),
    "p_rope(p=0.3)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.3),
    "p_rope(p=0.25)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.25),
    "p_rope(p=1.0)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=1.0),
}
PUBLISHED["finetuned(rope)"] = lambda d, L, M, N: theirs("linear", d, factor=1.0)
PUBLISHED |= {f"finetuned({name})": PUBLISHED[name] for name in ("yarn", "interpolated(rope,fixed=True)")}


@oracle(*(name for name in PUBLISHED if name in NAMES), against="transformers ROPE_INIT_FUNCTIONS and apply_rotary_pos_emb")
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(
    ("width", "L", "M", "N"), [(8, 12, 120, 9), (8, 12, 120, 40), (16, 23, 115, 115), (64, 2048, 8192, 3000)]
)
def test_rotation_equals_transformers(name, width, L, M, N):
    encoding = make_encoding(name, 3, width, train_tokens=L, longest_tokens=M)
    q, k, _ = qkv(3, 40, head_width=width)
    theta, m = PUBLISHED[name](width, L, M, N)
    angles = torch.arange(40)[None, :, None] * theta.double()
    cos, sin = (m * torch.cat([x, x], -1) for x in (angles.cos(), angles.sin()))
    expected = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    ours = encoding.rotate(q, k, context(encoding, 40, N))
    assert_same(torch.stack(ours), torch.stack(expected), [q, k], atol=3e-5)


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


def interleaved(width: int) -> Tensor:
    """The channels (2t, 2t + 1) of x-transformers as our (t, t + d/2)."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


# --- frequency rules


def test_ntk_of_a_single_pair_is_rope():
    ours, plain = (make_encoding(name, 3, 2).prepare(At(60, ids=torch.arange(60))) for name in ("ntk", "rope"))
    assert all(map(torch.equal, ours, plain))


@pytest.mark.parametrize(("width", "kept"), [(64, [5, 7, 9, 11, 16]), (32, [3, 4, 5, 6, 8]), (16, [2, 2, 3, 3, 4])])
def test_hope_golden_pairs(width, kept):
    for length, pairs in zip((20, 40, 64, 128, 512), kept, strict=True):
        encoding = make_encoding("hope", 1, width, train_tokens=length)
        assert (encoding.thetas(At(length)) > 0).tolist() == [True] * pairs + [False] * (width // 2 - pairs)


def test_stretch_factor():
    setup = make_encoding("yarn", 1, train_tokens=20, longest_tokens=100).setup
    assert [stretch_factor(setup, At(n), dynamic=True) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 1.05, 2.5, 5, 20]
    assert [stretch_factor(setup, At(n), dynamic=False) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 5, 5, 5, 5]
    assert stretch_factor(replace(setup, longest_tokens=15), At(30), dynamic=False) == 1, "never less than 1"


def test_half_of_the_pairs_of_rope_scaled_turn_within_the_training_length():
    for length in (9, 12, 23, 64, 512, 2048):
        for width in (8, 16, 64):
            turns = make_encoding("rope_scaled", 1, width, train_tokens=length).thetas(At(1)) * length / (2 * math.pi)
            assert turns[width // 4] == pytest.approx(1)
            assert (turns > 1 + 1e-9).sum() == width // 4
    assert [round(scaled_base(length), 1) for length in (1, 8, 23, 512)] == [2, 2, 13.4, 6640.2]
    published = make_encoding("rope", 1, 64).thetas(At(1)) * 512 / (2 * math.pi)
    assert (published >= 1).sum() == 16, "RoFormer, L = 512: half of the 32 pairs"


STRETCHED = ["interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "finetuned(yarn)"]
STRETCHED_SCALED = ["interpolated(rope_scaled)", "ntk_scaled", "yarn_scaled"]


@pytest.mark.parametrize(
    ("name", "unstretched"), [(n, "rope") for n in STRETCHED] + [(n, "rope_scaled") for n in STRETCHED_SCALED]
)
def test_stretched_encodings_are_rope_bit_for_bit_up_to_the_training_length(name, unstretched):
    plain = tiny_model(unstretched)
    model = tiny_model(name)
    model.load_state_dict(plain.state_dict())
    tokens = random_tokens(2, TRAIN)
    for announced_length in (3, TRAIN):
        assert torch.equal(model(tokens, announced_length), plain(tokens, announced_length))
    assert not torch.allclose(model(tokens, TRAIN + 10), plain(tokens, TRAIN + 10), atol=1e-3)


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
    encoding, apart = make_encoding(name, heads, width), interleaved(width)
    ours = encoding.rotate(q[..., apart], k[..., apart], context(encoding, length, length))
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
    slow = loops.attend(loops.selective_rope(q, k, phi, thetas), v)
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
    assert_selective(encoding, phi, rope(5e5), weights, q, k, v, at)


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
