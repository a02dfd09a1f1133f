"""Probes against computations that share no code with them."""

import math

import numpy as np
import pytest
import torch
from helpers import NAMES, random_tokens, tiny_model
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from torch.nn import functional as F

from bench.encodings import hooks
from bench.probe import attention
from bench.probe.attention import read_attention
from bench.probe.position import probe_errors, read_states

TOKENS, LENGTH, HEADS = random_tokens(2, 9), 9, 3


def attention_of(model, tokens: Tensor = TOKENS) -> list[Tensor | None]:
    """The weights of each layer."""
    return [weights for weights, _ in read_attention(model, tokens, tokens.shape[1], torch.Generator().manual_seed(0))]


# --- attention weights


def rope_row(q: Tensor, k: Tensor, i: int) -> Tensor:
    def turned(x: Tensor, place: int) -> Tensor:
        half = len(x) // 2
        angles = place * 10000.0 ** -(torch.arange(half, dtype=torch.float64) / half)
        return torch.complex(x[:half], x[half:]) * torch.exp(1j * angles)

    scores = [(turned(q[i], i) * turned(k[j], j).conj()).real.sum() / math.sqrt(q.shape[-1]) for j in range(i + 1)]
    return torch.stack(scores).softmax(0)


def test_attention_read_from_outside_is_that_computed_by_hand():
    model = tiny_model("rope", HEADS).double()
    weights, block = attention_of(model)[0], model.blocks[0]
    x = model.embedding.weight[TOKENS]
    h = F.layer_norm(x, x.shape[-1:], block.attention_norm.weight, block.attention_norm.bias)
    q, k, _ = (h @ block.qkv.weight.T).detach().unflatten(-1, (3, HEADS, -1)).unbind(2)
    for b, n, i in [(0, 0, 0), (0, 1, 5), (1, 2, 8), (1, 0, 3)]:
        expected = F.pad(rope_row(q[b, :, n], k[b, :, n], i), (0, LENGTH - i - 1))
        torch.testing.assert_close(weights[b, n, i], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_causal_and_reading_changes_nothing(name):
    """They add up to 1; reading changes neither the output nor the encoding."""
    model = tiny_model(name, HEADS).eval()
    before = dict(vars(model.encoding))
    layers = attention_of(model)
    assert vars(model.encoding) == before and len(layers) == len(model.blocks)
    for layer in layers:
        if "attend" in hooks(type(model.encoding)):
            assert layer is None
            continue
        assert (layer.triu(1) == 0).all()
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, HEADS, LENGTH), atol=1e-4, rtol=0)
    with torch.inference_mode():
        plain = model(TOKENS, LENGTH, torch.Generator().manual_seed(0))
        attention_of(model)
        assert torch.equal(plain, model(TOKENS, LENGTH, torch.Generator().manual_seed(0))), "reading leaves nothing behind"


# --- hidden states and positions


@pytest.mark.parametrize("name", ["nope", "learned", "sinusoidal_every_layer"])
def test_states_are_the_stream_with_what_the_encoding_adds(name):
    model = tiny_model(name, HEADS).eval()
    states = read_states(model, TOKENS, LENGTH, None)
    with torch.inference_mode():
        first = model.embedding(TOKENS) + (model.encoding.table[..., :LENGTH, :] if name == "learned" else 0)
        if name != "sinusoidal_every_layer":
            torch.testing.assert_close(states[0], first.reshape(states[0].shape))
        torch.testing.assert_close(model.norm(states[-1]), model(TOKENS, LENGTH))
    assert len(states) == len(model.blocks) + 1


def test_the_position_probe_finds_positions_where_they_are_and_none_in_noise():
    source, count, width = torch.Generator().manual_seed(0), 200, 12
    noise = torch.randn(1, count, width, 16, generator=source)
    codes = torch.randn(width, 16, generator=source)
    states = torch.cat([noise, 0.3 * noise + codes])
    error, found = probe_errors(states, torch.ones(count, width, dtype=torch.bool), trained=150).tolist()
    assert found < 0.05
    assert abs(error - (width**2 - 1) / (3 * width)) < 0.5


# --- numbers


def test_divergence_equals_scipy():
    p, q = torch.rand(2, 5, 3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 4
    p, q = p / p.sum(-1, keepdim=True), q[:, :2] / q[:, :2].sum(-1, keepdim=True)
    found = attention.divergences(p, q)
    for head in range(3):
        for other in range(2):
            expected = np.mean([jensenshannon(p[r, head], q[r, other]) ** 2 for r in range(5)])
            assert float(found[head, other]) == pytest.approx(expected)
    assert float(attention.divergences(p, p).diagonal().max()) < 1e-12


def test_growth_of_uniform_attention():
    place = torch.tensor([4, 8])
    weights = torch.stack([F.pad(torch.full((HEADS, i + 1), 1 / (i + 1)), (0, 8 - i)) for i in place.tolist()])
    found = attention.spread(place, weights, torch.zeros(2, HEADS, 4))
    assert found["entropy"] == pytest.approx(torch.ones(2, HEADS), abs=1e-6)
    assert found["largest_weight"][:, 0].tolist() == pytest.approx([1 / 5, 1 / 9])
    assert attention.slope({2: 1.0, 4: 2**-0.5, 8: 0.5}) == pytest.approx(-0.5)
    assert attention.slope({2: 0.0, 4: 1.0}) is None


def test_outputs_vary_over_examples_and_not_because_places_differ():
    noise = torch.randn(6, 5, HEADS, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_place = noise + 100 * torch.arange(5)[:, None, None]
    places = {
        "output": torch.cat([by_place.flatten(0, 1), torch.full((1, HEADS, 4), 1e6)]),
        "place": torch.cat([torch.arange(5).repeat(6), torch.tensor([9])]),
    }
    assert attention.summary(places) == {"output_std": pytest.approx(np.std(noise.numpy(), axis=0, ddof=1).mean())}
