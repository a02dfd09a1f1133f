"""Oracles of newer rotary encodings: the authors' numbers, loops over queries and keys."""

import math

import loop_content as content
import loop_oracles as loops
import pytest
import torch
from golden import HEADS, LAYER, Pass, assert_rows, build, cases, load, wave
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
    tiny_model,
)

from bench.encodings import At
from bench.encodings.rope import frequencies
from tasks import InputError

shapes = pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)
TRAIN = 12
"""L in tokens of every encoding that ``make_encoding`` makes here."""


def outputs_equal(one: str, other: str) -> bool:
    """Whether two encodings give the same attention at their start."""
    q, k, v = qkv(3, 30)
    a, b = (attention_at(e, q, k, v, context(e, 30, 30)) for e in (make_encoding(one, 3), make_encoding(other, 3)))
    return torch.allclose(a, b, atol=1e-5)


# --- grape_m


@oracle("grape_m", against="model-architectures/GRAPE, golden numbers")
def test_grape_m_equals_the_authors():
    golden = load("grape_m")
    for case in cases(golden["outputs"]):
        encoding = build("grape_m", {"log_frequencies": wave(golden["parameters"]["log_freq"])})
        ours = Pass(encoding, golden["inputs"], case["T"])
        swapped = torch.arange(16).roll(8)  # the source rotates by −angle, which is our rotation with a pair's channels swapped
        ours.q, ours.k = encoding.rotate(*(wave(golden["inputs"][x], case["T"])[..., swapped] for x in "qk"), ours.at)
        assert_rows(ours.scores, case["scores"], case["rows"])
        assert_rows(ours.q[..., swapped], case["q"], case["q_and_k_rows"])
        assert_rows(ours.k[..., swapped], case["k"], case["q_and_k_rows"])
        (ours.scores.square().sum()).backward()
        gradient = encoding.log_frequencies.grad
        assert (gradient[LAYER] != 0).all() and (gradient[1 - LAYER] == 0).all()


def test_grape_m_starts_as_the_authors_start_which_is_rope():
    start = torch.tensor(load("grape_m")["outputs"]["log_freq_at_the_start"], dtype=torch.float64)
    ours = make_encoding("grape_m", HEADS, 16).log_frequencies.double()
    torch.testing.assert_close(ours, start.expand(2, 8), atol=1e-5, rtol=1e-6)
    assert outputs_equal("grape_m", "rope")


def test_grape_m_at_ids_by_row():
    encoding = perturbed(make_encoding("grape_m", 3), 5.0)
    q, k, v = qkv(3, 7)
    thetas = (encoding.log_frequencies[1] / 16).exp()
    slow = loops.attend(loops.rotary(q, k, UNEVEN_IDS, thetas), v)
    ours = attention_at(encoding, q, k, v, context(encoding, 7, 7, UNEVEN_IDS))
    assert_same(ours, slow, [q, k, v, encoding.log_frequencies], atol=1e-5)


# --- repo


@oracle("repo", against="SakanaAI/repo, golden numbers")
def test_repo_equals_the_authors():
    golden = load("repo")
    theirs = {"gate": "gate_map.weight", "content": "content_map.weight", "final": "final_map.weight"}
    parameters = {ours: wave(golden["parameters"][name])[None] for ours, name in theirs.items()}
    for case in cases(golden["outputs"]):
        encoding = build("repo", parameters)
        ours = Pass(encoding, golden["inputs"], case["T"])
        expected = torch.tensor(case["positions"], dtype=torch.float64)
        torch.testing.assert_close(encoding.predicted(ours.at)[0], expected, atol=1e-6, rtol=1e-6)
        assert_rows(ours.scores, case["scores"], case["rows"])


@shapes
def test_repo_gradients_are_those_of_a_loop(heads, length, announced_length):
    encoding, (q, k, v) = perturbed(make_encoding("repo", heads)), qkv(heads, length)
    at = context(encoding, length, announced_length)
    slow = loops.attend(content.selective_rope(q, k, *increments(encoding, at)), v)
    inputs = [q, k, v] + ([at.h, encoding.gate, encoding.content, encoding.final] if length > 1 else [])
    assert_same(attention_at(encoding, q, k, v, at), slow, inputs, atol=1e-5)


def increments(encoding, at: At) -> tuple[torch.Tensor, torch.Tensor]:
    """Increments of the predicted positions, the same for all pairs, and frequencies: the arguments of the loop."""
    layer = at.layer - encoding.first
    x = at.h @ encoding.gate[layer].T
    z = ((x * torch.sigmoid(x) * (at.h @ encoding.content[layer].T)) @ encoding.final[layer].T).mT
    phi = torch.cat([z[..., :1], z[..., 1:] - z[..., :-1]], -1)
    return phi[..., None].expand(*phi.shape, HEAD_WIDTH // 2), loops.rope_frequencies(5e5, HEAD_WIDTH)


def test_repo_starts_as_the_authors_code():
    encoding = make_encoding("repo", 8, 16)
    for parameter in encoding.parameters():
        assert parameter.std().item() == pytest.approx(0.02, rel=0.25)


def test_repo_keeps_rope_in_the_first_layers_as_the_authors():
    firsts = {layers: make_encoding("repo", 1, layers=layers).first for layers in (1, 2, 3, 6, 16, 32)}
    assert firsts == {1: 0, 2: 1, 3: 1, 6: 2, 16: 5, 32: 10}
    encoding, plain, (q, k, v) = make_encoding("repo", 3), make_encoding("rope(base=500000.0)", 3), qkv(3, 7)
    ours, rope = (attention_at(e, q, k, v, context(e, 7, 7, UNEVEN_IDS, layer=0)) for e in (encoding, plain))
    assert_same(ours, rope, [q, k, v])


# --- clipped_rope


def inv_freq(d: int, base: float, n: int) -> torch.Tensor:
    """The authors' frequencies with n clipped pairs."""
    for entry in load("clipped_rope")["frequencies"]:
        if (entry["d"], entry["base"], entry["clip_low_n"]) == (d, base, n):
            return torch.tensor(entry["inv_freq"], dtype=torch.float64)
    raise KeyError((d, base, n))


@pytest.mark.parametrize(("d", "base", "n"), [(128, 500000, 20), (128, 10000000, 20), (32, 10000, 5), (16, 10000, 3)])
def test_clipped_rope_clips_the_share_of_pairs_that_the_authors_clip(d, base, n):
    encoding = make_encoding(f"clipped_rope(base={float(base)})", 1, d)
    torch.testing.assert_close(encoding.thetas(At(9)), inv_freq(d, base, n), atol=1e-8, rtol=1e-7)


@oracle("clipped_rope_scaled", against="hrlics/CoPE, golden numbers")
@pytest.mark.parametrize(
    ("d", "base", "train_tokens", "n"),
    [(128, 500000, 8192, 29), (16, 10000, 23, 6), (16, 10000, 63, 5), (8, 10000, 700, 1), (8, 10000, 3, 4)],
)
def test_clipped_rope_scaled_equals_the_authors_with_their_count_of_pairs(d, base, train_tokens, n):
    encoding = make_encoding(f"clipped_rope_scaled(base={float(base)})", 1, d, train_tokens=train_tokens)
    assert encoding.clipped(frequencies(d, base)) == n
    torch.testing.assert_close(encoding.thetas(At(9)), inv_freq(d, base, n), atol=1e-8, rtol=1e-7)


# --- carope


@oracle("carope", against="a loop over tokens, queries and keys")
@shapes
def test_carope_is_the_formula(heads, length, announced_length):
    encoding, (q, k, v) = perturbed(make_encoding("carope", heads)), qkv(heads, length)
    at = context(encoding, length, announced_length)
    offset = math.log(math.exp(1e4 ** (2 / HEAD_WIDTH) - 1) - 1)
    slow = loops.attend(content.carope(q, k, content.carope_f(at.h, encoding.weight[LAYER], offset)), v)
    inputs = [q, k, v] + ([at.h, encoding.weight] if length > 1 else [])
    assert_same(attention_at(encoding, q, k, v, at), slow, inputs, atol=1e-5)


def test_carope_starts_as_rope():
    assert outputs_equal("carope", "rope") and outputs_equal("carope(base=500.0)", "rope(base=500.0)")
    assert make_encoding("carope", 1, 2).b < math.inf, "θ_1 = 1/base at head width 2, where exp(base) overflows"


# --- swan


@pytest.mark.parametrize(("name", "window"), [("swan", 512), ("swan_scaled", 6), ("swan(window=3)", 3)])
@oracle("swan", "swan_scaled", against="a loop over queries and keys")
@shapes
def test_swan_layers_are_the_formula(heads, length, announced_length, name, window):
    encoding, (q, k, v) = make_encoding(name, heads, layers=6), qkv(heads, length)
    thetas = loops.rope_frequencies(1e6, HEAD_WIDTH)
    near = loops.attend(loops.rotary(q, k, torch.arange(length), thetas), v, lambda i, j: i - j < window)
    past = announced_length > TRAIN
    scale = torch.tensor([math.log(TRAIN + i, TRAIN) if past else 1.0 for i in range(length)], dtype=torch.float64)
    everything = loops.attend(loops.plain_scores(q * scale[:, None], k), v)
    for layer in range(6):
        expected = everything if layer in (0, 4) else near
        at = context(encoding, length, announced_length, layer=layer)
        assert_same(attention_at(encoding, q, k, v, at), expected, [q, k, v])


def test_swan_window_acts_past_512_tokens():
    encoding, (q, k, _) = make_encoding("swan", 1), qkv(1, 520, rows=1)
    bias = encoding.bias(q, k, context(encoding, 520, 520))[0]
    i, j = torch.arange(520)[:, None], torch.arange(520)
    assert torch.equal((bias == 0).tril(), ((i - j < 512) & (i >= j)))


def test_a_window_below_one_is_a_user_error():
    with pytest.raises(InputError, match="window ≥ 1"):
        make_encoding("swan(window=0)", 1)


def test_models_of_three_layers_use_all_layers_of_swan():
    encoding = tiny_model("swan_scaled", layers=3).encoding
    assert [encoding.is_nope(At(9, layer=layer)) for layer in range(3)] == [True, False, False]
