"""Encodings without numbers of their authors, against loops over queries i and keys j that follow the papers' formulas.

A formula gets the encoding, q, k [B, H, T, d] and the hooks' context. It returns a function of i and j ≤ i that gives the
score, [B, H], −∞ for a hidden key.
"""

import math
from collections.abc import Callable, Container

import numpy as np
import pytest
import torch
from helpers import assert_same, attention, context, make_encoding, oracle, perturbed, qkv
from torch import Tensor
from torch.nn import functional as F

from bench.encodings import At, Encoding

Score = Callable[[int, int], Tensor]
Formula = Callable[[Encoding, Tensor, Tensor, At], Score]


def attend(score: Score, v: Tensor) -> Tensor:
    """Softmax attention with these scores."""
    rows = []
    for i in range(v.shape[2]):
        weights = torch.stack([score(i, j) for j in range(i + 1)], -1).softmax(-1)
        rows.append((weights[..., None] * v[:, :, : i + 1]).sum(2))
    return torch.stack(rows, 2)


def paired(x: Tensor) -> Tensor:
    """Complex [..., d/2]: channel t is the real part, channel t + d/2 the imaginary one."""
    return torch.complex(*x.chunk(2, -1))


def turned(q_i: Tensor, k_j: Tensor, angles: Tensor) -> Tensor:
    """The score after rotating pair t of the query by angles[t] against pair t of the key."""
    turn = torch.polar(torch.ones_like(angles), angles)
    return (paired(q_i) * paired(k_j).conj() * turn).real.sum(-1) / math.sqrt(q_i.shape[-1])


def frequencies(width: int, base: float = 1e4) -> Tensor:
    return torch.tensor([base ** (-2 * t / width) for t in range(width // 2)], dtype=torch.float64)


# --- formulas


def nope(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
    return lambda i, j: (q[:, :, i] * k[:, :, j]).sum(-1) / math.sqrt(q.shape[-1])


def rotary(base: float = 1e4, share: float = 1.0) -> Formula:
    """RoPE in this share of the pairs, the fastest ones."""

    def formula(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
        thetas = frequencies(q.shape[-1], base)
        thetas[round(share * len(thetas)) :] = 0
        return lambda i, j: turned(q[:, :, i], k[:, :, j], (i - j) * thetas)

    return formula


def hope(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
    """Pairs that do not make a full turn over the training length are not rotated."""
    thetas = frequencies(q.shape[-1], e.base)
    thetas[thetas < 2 * math.pi / e.setup.train_tokens] = 0
    return lambda i, j: turned(q[:, :, i], k[:, :, j], (i - j) * thetas)


def da(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
    """ReLU(q·k) (1 + e^v) / (1 + e^(v − w r)) / √d."""
    plain, w, v = nope(e, q, k, at), e.w[at.layer].flatten(), e.v[at.layer].flatten()
    return lambda i, j: torch.relu(plain(i, j)) * (1 + torch.exp(v)) / (1 + torch.exp(v - w * (i - j)))


def windowed(inner: Formula, width: int, first: int = 0) -> Formula:
    """Only the last tokens are seen, and the first ones."""

    def formula(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
        score = inner(e, q, k, at)
        return lambda i, j: score(i, j) if i - j < width or j < first else torch.full_like(score(i, j), -math.inf)

    return formula


def swan_nope(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
    """NoPE, times log_L(L + i) in sequences longer than L."""
    plain, train = nope(e, q, k, at), e.setup.train_tokens
    return lambda i, j: plain(i, j) * (math.log(train + i, train) if at.announced_length > train else 1)


def by_layer(chosen: Container[int], formula: Formula, others: Formula) -> Formula:
    return lambda e, q, k, at: (formula if at.layer in chosen else others)(e, q, k, at)


def scale_invariant(inner: Formula) -> Formula:
    """a(r) s + 1 − a(r)², with a² = 2 ln(1 + r/10) + 1."""

    def formula(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
        plain = inner(e, q, k, at)

        def score(i: int, j: int) -> Tensor:
            square = 2 * math.log(1 + (i - j) / 10) + 1
            return math.sqrt(square) * plain(i, j) + 1 - square

        return score

    return formula


def adaptive_temperature(inner: Formula) -> Formula:
    """Past L, scores times the polynomial of their entropy in the listing of the paper."""

    def formula(e: Encoding, q: Tensor, k: Tensor, at: At) -> Score:
        plain = inner(e, q, k, at)

        def score(i: int, j: int) -> Tensor:
            logits = torch.stack([plain(i, m) for m in range(i + 1)], -1).detach()
            entropy = torch.distributions.Categorical(logits=logits).entropy()
            fit = torch.from_numpy(np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], entropy.numpy())).clamp(min=1)
            past = at.announced_length > e.setup.train_tokens
            return plain(i, j) * (torch.where(entropy > 0.5, fit, 1.0) if past else 1)

        return score

    return formula


ROPE_NOPE = by_layer([3], nope, rotary())
FORMULAS: dict[str, Formula] = {  # settings that are lengths follow from the L of 12 tokens
    "nope": nope,
    "hope": hope,
    "hope(base=30.0)": hope,
    "da": da,
    "rope_nope": ROPE_NOPE,
    "swan": by_layer([0, 4], swan_nope, rotary(1e6)),
    "swan(window=3)": by_layer([0, 4], swan_nope, windowed(rotary(1e6), 3)),
    "window(nope)": windowed(nope, 12),
    "window(nope,share=0.25)": windowed(nope, 3),
    "window(rope)": windowed(rotary(), 12),
    "window(rope,tests_only=True)": windowed(rotary(), 12),
    "window(rope,share=0.25,tests_only=True)": lambda *args: (
        windowed(rotary(), 3) if args[3].announced_length > 12 else rotary()
    )(*args),
    "sink(nope)": windowed(nope, 12, first=4),
    "sink(rope)": windowed(rotary(), 12, first=4),
    "scale_invariant(nope)": scale_invariant(nope),
    "scale_invariant(p_rope)": scale_invariant(rotary(share=0.75)),
    "adaptive_temperature(nope)": adaptive_temperature(nope),
    "adaptive_temperature(rope)": adaptive_temperature(rotary()),
}


@oracle(*(name for name in FORMULAS if "=3" not in name and "5,t" not in name), against="a loop over pairs")
@pytest.mark.parametrize(("length", "announced_length", "layer"), [(9, 9, 3), (17, 20, 4)])
@pytest.mark.parametrize("name", FORMULAS)
def test_attention_is_the_formula(name, length, announced_length, layer):
    encoding = perturbed(make_encoding(name, 3, layers=6), 0.3)
    q, k, v = qkv(3, length)
    at = context(encoding, length, announced_length, layer=layer)
    slow = attend(FORMULAS[name](encoding, q, k, at), v)
    assert_same(attention(encoding, q, k, v, at), slow, [q, k, v, *encoding.parameters()], atol=1e-5)


# --- wrappers that scale queries, and not the bias of the wrapped encoding


def ssmax(e: Encoding, length: int, at: At) -> Tensor:
    return e.s[at.layer, :, None] * torch.arange(1, length + 1).double().log()


def logn(e: Encoding, length: int, at: At) -> Tensor:
    return torch.arange(1, length + 1).double().log() / math.log(e.setup.train_tokens)


SCALES = {
    "ssmax": ssmax,
    "logn": logn,
}
SCALED = [
    *(
        f"{wrapper}({inner})"
        for wrapper in ("ssmax", "logn")
        for inner in ("nope", "rope", "hard_alibi", "kerple_log", "kerple_power")
    ),
    "ssmax(rope,start=1.0)",
]


@oracle(*SCALED, against="the wrapped encoding with queries scaled by hand")
@pytest.mark.parametrize("name", SCALED)
def test_queries_are_scaled_by_the_formula(name):
    encoding, (q, k, v) = perturbed(make_encoding(name, 3)), qkv(3, 20)
    at = context(encoding, 20)
    factors = SCALES[name.partition("(")[0]](encoding, 20, at)
    assert_same(attention(encoding, q, k, v, at), attention(encoding.base, q * factors[..., None], k, v, at), [q, k, v])


def test_ssmax_starts_at_the_numbers_of_its_formula():
    starts = {tokens: make_encoding("ssmax(nope)", 1, train_tokens=tokens).s for tokens in (40, 64, 1024)}
    for tokens, start in ((40, 0.36258), (64, 0.31194), (1024, 0.16847)):
        assert (starts[tokens] - start).abs().max() < 1e-5
    assert (make_encoding("ssmax(rope,start=1.0)", 1).s == 1).all()


@pytest.mark.parametrize("name", ["ssmax", "logn"])
def test_the_number_of_keys_does_not_depend_on_position_ids(name):
    encoding, (q, k, v) = make_encoding(f"{name}(nope)", 3), qkv(3, 12)
    ids = torch.arange(12) * 7 + 3
    assert torch.equal(attention(encoding, q, k, v, context(encoding, 12, ids=ids)), attention(encoding, q, k, v))


@oracle("norm_after(nope)", against="torch.nn.functional.layer_norm")
def test_norm_after_attention_normalises_each_head():
    encoding, (q, k, v) = perturbed(make_encoding("norm_after(nope)", 2)), qkv(2, 20)
    at = context(encoding, 20)
    ours, plain = attention(encoding, q, k, v, at), attention(encoding.base, q, k, v, at)
    for h in range(2):
        gain, offset = encoding.gain[at.layer, h, 0], encoding.offset[at.layer, h, 0]
        torch.testing.assert_close(ours[:, h], F.layer_norm(plain[:, h], plain.shape[-1:], gain, offset))


# --- settings


def test_layers_without_positions_in_models_of_few_layers():
    def layers_of(name: str, layers: int) -> list[int]:
        encoding = make_encoding(name, 1, layers=layers)
        return [layer for layer in range(layers) if encoding.is_nope(At(9, layer=layer))]

    assert {n: layers_of("rope_nope", n) for n in (1, 2, 3, 7, 9)} == {1: [0], 2: [1], 3: [2], 7: [3], 9: [3, 7]}
    assert layers_of("rope_nope(every=2)", 6) == [1, 3, 5]
    assert layers_of("swan", 3) == [0] and layers_of("swan", 6) == [0, 4]


def test_repo_is_rope_in_the_first_third_of_the_layers():
    assert {n: make_encoding("repo", 1, layers=n).first for n in (1, 2, 3, 6, 16)} == {1: 0, 2: 1, 3: 1, 6: 2, 16: 5}
    encoding, (q, k, v) = make_encoding("repo", 3), qkv(3, 9)
    at = context(encoding, 9, layer=0)
    assert_same(attention(encoding, q, k, v, at), attend(rotary(5e5)(encoding, q, k, at), v), [q, k, v], atol=1e-5)


def test_lengths_follow_from_the_training_length_and_the_longest():
    def made(name: str) -> Encoding:
        return make_encoding(name, 1, train_tokens=23, longest_tokens=115)

    assert [len(made(name).table) for name in ("learned", "learned_offset")] == [115, 115 + 23]
    assert [made(name).table.shape[1] for name in ("learned_per_layer", "cope", "cope_half")] == [115, 24, 12]
    assert made("shaw_scaled").keys.shape[1] == 11 + 1 and made("fire_scaled").threshold == 11.5
    assert [made(name).width for name in ("window(nope)", "window(nope,share=0.25)")] == [23, 6]
