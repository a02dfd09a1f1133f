"""Probes against computations that share no code with them."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import NAMES, random_tokens, tiny_model
from scipy.spatial.distance import jensenshannon
from support import suite_dict
from torch import Tensor
from torch.nn import functional as F

from bench.encodings.nope import NoPE
from bench.findings.theorem import permutation_errors, run_theorem
from bench.probe import context, distance, excess, growth, needle, similarity
from bench.probe.position import probe_errors
from bench.probe.reading import Attention, read_attention, read_states
from bench.probe.record import Value
from bench.probe.subject import Subject, batches, predicting
from bench.runs.run import Run
from bench.runs.run_training import build_model
from bench.suites.suite import Suite
from tasks.base import EOS, PAD, SEP

TOKENS, LENGTH, HEADS = random_tokens(2, 9), 9, 3
COPYING = {"task": "copying", "variant": "repeat", "train_length": 4}


def attention_of(model, tokens: Tensor = TOKENS) -> list[Attention]:
    layers: list[Attention] = []
    read_attention(model, tokens, tokens.shape[1], torch.Generator().manual_seed(0), layers.append)
    return layers


# --- attention weights


def normalised(model, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """h, q and k [B, T, H, d] of the first layer, from the weights."""
    block, x = model.blocks[0], model.embedding.weight[tokens]
    h = F.layer_norm(x, x.shape[-1:], block.attention_norm.weight, block.attention_norm.bias)
    q, k, _ = (h @ block.qkv.weight.T).unflatten(-1, (3, HEADS, -1)).unbind(2)
    return h, q, k


def rope_score(model, h, q, k, b, i, j, n) -> float:
    def turned(x: Tensor, place: int) -> Tensor:
        half = len(x) // 2
        pairs = torch.complex(x[:half], x[half:])
        return pairs * torch.exp(1j * place * 10000.0 ** -(torch.arange(half, dtype=torch.float64) / half))

    return float((turned(q[b, i, n], i) * turned(k[b, j, n], j).conj()).real.sum()) / math.sqrt(q.shape[-1])


def biased(bias: Callable) -> Callable:
    def score(model, h, q, k, b, i, j, n) -> float:
        return float(q[b, i, n] @ k[b, j, n]) / math.sqrt(q.shape[-1]) + bias(model.encoding, h[b], i, j, n)

    return score


def fox_bias(encoding, h, i, j, n) -> float:
    gates = torch.sigmoid(h @ encoding.weight[0, n] + encoding.offset[0, n])
    return sum(math.log(gates[m]) for m in range(j + 1, i + 1))


SCORES = {
    "nope": biased(lambda encoding, h, i, j, n: 0.0),
    "rope": rope_score,
    "alibi": biased(lambda encoding, h, i, j, n: -[1 / 16, 1 / 256, 1 / 4][n] * (i - j)),
    "t5": biased(lambda encoding, h, i, j, n: float(encoding.table[i - j, n])),  # a bucket for each distance under 16
    "fox": biased(fox_bias),
}


@pytest.mark.parametrize("name", [*SCORES, "stick_breaking"])
def test_attention_read_from_outside_is_that_computed_by_hand(name):
    model = tiny_model(name, HEADS).double()
    weights = attention_of(model)[0].weights
    h, q, k = normalised(model, TOKENS)
    with torch.no_grad():
        for b, n, i in [(0, 0, 0), (0, 1, 5), (1, 2, 8), (1, 0, 3)]:
            if name in SCORES:
                row = torch.tensor([SCORES[name](model, h, q, k, b, i, j, n) for j in range(i + 1)]).exp()
                row = row / row.sum()
            else:
                z = [torch.sigmoid(q[b, i, n] @ k[b, j, n] / math.sqrt(q.shape[-1])) for j in range(i)]
                row = torch.tensor([float(z[j]) * math.prod(1 - float(z[m]) for m in range(j + 1, i)) for j in range(i)])
                row = torch.cat([row, 1 - row.sum()[None]])
            torch.testing.assert_close(weights[b, n, i], F.pad(row.double(), (0, LENGTH - i - 1)), atol=1e-6, rtol=1e-5)


NO_WEIGHTS = ("norm_after(nope)", "rope_pp")
"""Their output is no weighted sum of values."""


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_has_weights_that_give_its_output(name):
    """Causal, and adding up to 1; reading changes neither the output nor the encoding."""
    model = tiny_model(name, HEADS).eval()
    before = dict(vars(model.encoding))
    layers = attention_of(model)
    assert vars(model.encoding) == before and len(layers) == len(model.blocks)
    for layer in layers:
        if name in NO_WEIGHTS:
            assert layer.weights is None
            continue
        assert (layer.weights.triu(1) == 0).all()
        torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, HEADS, LENGTH), atol=1e-4, rtol=0)
    with torch.inference_mode():
        plain = model(TOKENS, LENGTH, torch.Generator().manual_seed(0))
        read = read_attention(model, TOKENS, LENGTH, torch.Generator().manual_seed(0), lambda attention: None)
    assert torch.equal(plain, read)


def test_an_attention_that_is_no_weighted_sum_has_no_weights():
    class Nonlinear(NoPE):
        def attend(self, q, k, v, bias, at):
            return super().attend(q, k, v.tanh(), bias, at)

    assert [layer.weights for layer in attention_of(tiny_model(Nonlinear, HEADS))] == [None, None]


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
    assert "embed" not in vars(model.encoding) and not any(b._forward_hooks or b._forward_pre_hooks for b in model.blocks)


def test_the_position_probe_finds_positions_where_they_are_and_none_in_noise():
    source, count, width = torch.Generator().manual_seed(0), 200, 12
    noise = torch.randn(1, count, width, 16, generator=source)
    codes = torch.randn(width, 16, generator=source)
    states = torch.cat([noise, 0.3 * noise + codes])
    error, found = probe_errors(states, torch.ones(count, width, dtype=torch.bool), trained=150).tolist()
    assert found < 0.05
    assert abs(error - (width**2 - 1) / (3 * width)) < 0.5


def test_positions_without_an_encoding_by_hand():
    findings = run_theorem(positions=32)
    assert max(findings.errors.values()) < 1e-9
    assert findings.read.tolist() == pytest.approx(list(range(32)))
    slopes = findings.attention[0].log()
    assert all(float(slopes[i, j] - slopes[i, i]) == pytest.approx(-0.5 * (i - j)) for i, j in [(5, 2), (31, 28), (31, 0)])
    assert findings.attention[1].argmax(-1).tolist() == [0, *range(31)], "head 1 looks at the token before"


def test_only_the_mask_tells_permuted_tokens_apart():
    errors = permutation_errors()
    assert errors[False] < 1e-5
    assert errors[True] > 0.1


# --- numbers


def test_divergence_equals_scipy():
    p, q = torch.rand(2, 5, 3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 4
    p, q = p / p.sum(-1, keepdim=True), q[:, :2] / q[:, :2].sum(-1, keepdim=True)
    found = similarity.divergences(p, q)
    for head in range(3):
        for other in range(2):
            expected = np.mean([jensenshannon(p[r, head], q[r, other]) ** 2 for r in range(5)])
            assert float(found[head, other]) == pytest.approx(expected)
    assert float(similarity.divergences(p, p).diagonal().max()) < 1e-12


def test_growth_of_uniform_attention():
    model = tiny_model("nope", HEADS)
    with torch.no_grad():
        model.blocks[0].qkv.weight[: 2 * 24] = 0  # q = k = 0
    asked = torch.zeros(2, LENGTH, dtype=torch.bool)
    asked[:, [4, 8]] = True
    found = growth.at_places(attention_of(model)[0], asked)
    assert found["entropy"] == pytest.approx(torch.ones(4, HEADS), abs=1e-6)
    assert found["largest_weight"][:, 0].tolist() == pytest.approx([1 / 5, 1 / 9] * 2)
    assert found["logit_range"].abs().max() < 1e-6
    assert growth.slope([2, 4, 8], [1.0, 2**-0.5, 0.5]) == pytest.approx(-0.5)
    assert growth.slope([2, 4], [0.0, 1.0]) is None


def test_growth_of_outputs_and_of_the_first_token():
    """Outputs vary over examples, and not because places differ; a head counts by its mean weight of the first token."""
    source = torch.Generator().manual_seed(0)
    noise = torch.randn(6, 5, HEADS, 4, generator=source, dtype=torch.float64)  # [examples, places, H, d]
    by_place = noise + 100 * torch.arange(5)[:, None, None]
    places = {
        "output": torch.cat([by_place.flatten(0, 1), torch.full((1, HEADS, 4), 1e6)]),
        "place": torch.cat([torch.arange(5).repeat(6), torch.tensor([9])]),
    }
    found = growth.summary(places)
    assert found == {"output_std": pytest.approx(np.std(noise.numpy(), axis=0, ddof=1).mean())}
    first = torch.tensor([[0.9, 0.4, 0.2], [0.0, 0.4, 0.3]])  # the same mean as .45, .4, .25
    assert growth.summary(places | {"first_weight": first})["first_token"] == pytest.approx(2 / 3)


def test_distances_by_hand():
    suite = Suite.model_validate(suite_dict(tasks=[COPYING], test_at=[1, 2]))
    run = Run(suite, "copying", "alibi", 0)
    subject = Subject(run, build_model(run))
    found = {(v.quantity, v.length, v.layer, v.head): v.value for v in distance.measure(subject)}
    expected = {}
    for length in (4, 8):
        tokens = subject.examples(length, distance.EXAMPLES).tokens
        for attention in attention_of(subject.model, torch.from_numpy(tokens).long()):
            for head in range(suite.model.heads):
                peaks, means = [], []
                for row, ids in enumerate(tokens.tolist()):
                    for i in range(ids.index(SEP), ids.index(EOS)):  # each predicts the token after it
                        seen = attention.weights[row, head, i, : i + 1].tolist()
                        peaks.append((i - seen.index(max(seen))) / (i + 1))
                        means.append(sum(a * (i - j) / (i + 1) for j, a in enumerate(seen)))
                expected["peak_distance", length, attention.layer, head] = pytest.approx(np.mean(peaks), abs=1e-6)
                expected["mean_distance", length, attention.layer, head] = pytest.approx(np.mean(means), abs=1e-6)
    assert found == expected


def test_asked_places_are_evenly_spaced_and_batches_are_bounded():
    suite = Suite.model_validate(suite_dict(tasks=[COPYING], test_at=[1, 10]))
    run = Run(suite, "copying", "nope", 0)
    examples = Subject(run, build_model(run)).examples(40, 7)
    every, some = predicting(examples), predicting(examples, 5)
    assert every.sum(1).tolist() == [41] * 7, "the answer and <eos>"
    first = int(every[0].int().argmax())
    assert (some <= every).all() and some[0].nonzero()[:, 0].tolist() == [first + n for n in (0, 10, 20, 30, 40)]
    assert torch.equal(predicting(examples, 50), every)
    width = examples.tokens.shape[1]
    parts = list(batches(examples, 3 * width**2))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert np.array_equal(np.concatenate([part.tokens for part in parts]), examples.tokens)


class Fake(torch.nn.Module):
    """A model that computes logits from tokens by a function."""

    def __init__(self, logits: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function, self.encoding = logits, SimpleNamespace(stage=None)

    def forward(self, tokens, announced_length, generator):
        return self.function(tokens)

    def logits(self, states):
        return states


def subject_of(task: dict, test_at: list[float], logits: Callable[[Tensor], Tensor]) -> Subject:
    suite = Suite.model_validate(suite_dict(tasks=[task], test_at=test_at))
    return Subject(Run(suite, task["task"], "nope", 0), Fake(logits))


def by_length(values: list[Value], quantity: str) -> dict[int | None, float | None]:
    return {v.length: v.value for v in values if v.quantity == quantity}


def test_context_that_is_needed_and_replaced_is_missed():
    """A model that copies the token l + 1 places back: right with the whole sequence; without it, as far as it reaches."""

    def copy(tokens: Tensor) -> Tensor:
        length = int((tokens == 2).int().argmax(1)[0]) - 1  # <sep> is at l + 1
        ahead = F.pad(tokens, (length, 0), value=1)[:, : tokens.shape[1]]
        return F.one_hot(ahead, 16).float() * 20

    values = context.measure(subject_of(COPYING, [1, 2, 5], copy))
    whole, cut = by_length(values, "accuracy"), by_length(values, "accuracy_cut")
    assert cut[8] == whole[8] > 0.5, "11 tokens are kept, and the model looks 9 back"
    assert whole[20] > 0.7 > 0.5 > cut[20]
    assert by_length(values, "nll_cut")[20] > by_length(values, "nll")[20] + 1


def test_needles_by_depth():
    """A model that knows the value only if its key is in the second half."""

    def late(tokens: Tensor) -> Tensor:
        ids = subject.task.vocabulary.ids
        place = (tokens == ids["#"]).int().argmax(1)
        value = tokens[torch.arange(len(tokens)), place + 2]
        value = torch.where(place - 1 >= (tokens.shape[1] - 9 + 1) / 2, value, PAD)
        return F.one_hot(value, len(ids)).float()[:, None].expand(-1, tokens.shape[1], -1)

    retrieval = {"task": "key_retrieval", "variant": "needle", "train_length": 16}
    subject = subject_of(retrieval, [1, 4], late)
    found = {(v.length, int(v.at)): v.value for v in needle.measure(subject) if v.quantity == "accuracy"}
    assert {at: found[64, at] for at in range(8)} == {**dict.fromkeys(range(4), 0.0), **dict.fromkeys(range(4, 8), 1.0)}


@pytest.mark.parametrize("knows", [True, False])
def test_excess_over_the_optimum(knows):
    """Zero for the true distribution; for uniform predictions ln 24 less its entropy, ``<eos>`` or not."""

    def predict(tokens: Tensor) -> Tensor:
        words = np.delete(tokens[:, 1:-1].numpy(), 1, 1) - 4
        true = torch.from_numpy(subject.task.next_word(words)).log()
        logits = F.pad(true if knows else torch.zeros_like(true), (4, 0), value=5.0)
        return F.pad(logits, (0, 0, 2, 2))

    subject = subject_of({"task": "language", "variant": "topics", "train_length": 8}, [1, 3], predict)
    values = excess.measure(subject)
    found, loss, optimum = (by_length(values, name) for name in ("excess", "loss", "optimum"))
    for length in (8, 24):
        if knows:
            assert found[length] == pytest.approx(0, abs=1e-9)
            assert loss[length] == pytest.approx(optimum[length])
        else:
            assert loss[length] == pytest.approx(math.log(24))
            assert found[length] == pytest.approx(loss[length] - optimum[length], abs=0.1)
