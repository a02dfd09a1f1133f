"""Properties that every encoding must have, whatever its formula; encodings of the catalogue are tested automatically."""

import dataclasses
import importlib
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers import NAMES, ORACLES, attention, context, make_encoding, qkv, random_tokens, tiny_model
from helpers import perturbed as moved
from support import suite_dict
from torch import Tensor

from bench import encodings
from bench.check.checks import load_checks, run_check
from bench.check.subject import Subject
from bench.encodings import Encoding, Wrapper
from bench.encodings.bibliography import bibliography
from bench.encodings.nope import NoPE
from bench.plugins.registry import get_encoding
from bench.suites.suite import Suite, validated
from bench.training.model import Decoder
from leaderboard.results.facts import fact

TINY = validated(Suite, suite_dict(model={"layers": 3}, test_at=[1, 2, 5], tasks=[
    {"task": "addition", "variant": "reversed", "train_length": 2},
]), "tiny")  # fmt: skip
TRAIN = 12
"""L in tokens of all models here."""

every = pytest.mark.parametrize("name", NAMES)


def run(model: Decoder, tokens: Tensor) -> Tensor:
    """Hidden states; the announced length is the length of the tensor."""
    return model(tokens, max(TRAIN, tokens.shape[1]), torch.Generator().manual_seed(0))


def perturbed(model: Decoder) -> Decoder:
    """Move the encoding's parameters off their initial values: zeros and small numbers hide effects."""
    with torch.no_grad():
        for parameter in model.encoding.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


def close(a: Tensor, b: Tensor, tolerance: float = 2e-5) -> bool:
    return torch.allclose(a, b, atol=tolerance, rtol=tolerance)


@every
def test_the_checks_of_lprime_check_pass(name):
    subject = Subject(get_encoding(name), suite=TINY)
    findings = {check.name: run_check(check, subject) for check in load_checks()}
    assert {name: one.found for name, one in findings.items() if one.status != "passed"} == {}


@every
def test_bf16_autocast_loses_less_than_a_percent_at_ten_times_the_training_length(name):
    # Positions in bf16 would be off by whole tokens beyond 256. `lprime check` allows plugins 5 %.
    model, tokens = tiny_model(name).eval(), random_tokens(2, 10 * TRAIN)
    exact = run(model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = run(model, tokens)
    assert (lowered.float() - exact).square().mean().sqrt() < 0.01 * exact.square().mean().sqrt()


@every
def test_ids_may_differ_from_row_to_row(name, monkeypatch):
    model, tokens = tiny_model(name).eval(), random_tokens(3, 30)
    monkeypatch.setattr(model, "cacheable", False)  # do not reuse what was computed for other ids
    positions, gaps = model.encoding.positions, torch.tensor([0, 1, 2])[:, None] * (torch.arange(30) >= 10)
    monkeypatch.setattr(model.encoding, "positions", lambda tokens, at: positions(tokens, at).expand(tokens.shape) + gaps)
    together = run(model, tokens)
    for row in range(3):
        one = lambda tokens, at, row=row: positions(tokens, at).expand(tokens.shape)[row] + gaps[row]  # noqa: E731
        monkeypatch.setattr(model.encoding, "positions", one)
        assert close(together[row], run(model, tokens)[row])


@every
@pytest.mark.parametrize("length", [9, 21])
def test_gradients_are_differences_of_values(name, length):
    """Along one random direction in q, k, v, h and all parameters. This tests hand-written backward passes."""
    if name.startswith("adaptive_temperature") and length > TRAIN:
        return  # it is meant for inference, and its temperature is not differentiated
    # KERPLE is clamped, and its gradients pass the clamp; it starts within the bounds.
    encoding = moved(make_encoding(name, 3, train_tokens=TRAIN), 0 if "kerple" in name else 0.1)
    after_stage = name.startswith("head_scale")  # which trains its numbers only there
    q, k, v = qkv(3, length)
    h = context(encoding, length).h
    inputs = [q, k, v, h, *encoding.parameters()]
    generator = torch.Generator().manual_seed(3)
    direction = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in inputs]

    def value() -> Tensor:
        at = replace(context(encoding, length), source=lambda: h, after_stage=after_stage)
        both = attention(encoding, q, k, v, at).flatten(), encoding.embed(h, at).flatten()
        return sum((x * x.detach().new_tensor(range(len(x))).sin()).sum() for x in both)

    def step(size: float) -> None:
        with torch.no_grad():
            for x, d in zip(inputs, direction, strict=True):
                x.add_(size * d)

    gradients = torch.autograd.grad(value(), inputs, allow_unused=True)
    expected = sum((g * d).sum().item() for g, d in zip(gradients, direction, strict=True) if g is not None)
    size = 1e-5
    step(size)
    above = value().item()
    step(-2 * size)
    assert (above - value().item()) / (2 * size) == pytest.approx(expected, rel=1e-3, abs=0.02)


@pytest.mark.parametrize(
    "name",
    ["asentmax", "cope", "dape_v2(alibi)", "fox", "grape_ap", "path_fox", "repo", "selective_rope", "stick_breaking"],
)
def test_sums_over_a_thousand_tokens_are_accurate_in_float32(name):
    encoding = make_encoding(name, 2, train_tokens=TRAIN, longest_tokens=1000)
    q, k, v = (x.detach() for x in qkv(2, 1000))
    at = context(encoding, 1000)
    exact = attention(encoding, q, k, v, at)
    encoding.float()
    single = replace(at, source=lambda: at.h.float())
    single = replace(single, shared=encoding.prepare(single))
    torch.testing.assert_close(attention(encoding, q.float(), k.float(), v.float(), single).double(), exact, atol=1e-4, rtol=0)


@every
def test_every_listed_hook_has_an_effect(name):
    # Some hooks act only past L, some only up to L; the window of 512 tokens of `swan` needs more.
    cls, inputs = get_encoding(name), [random_tokens(2, length) for length in ((530,) if name == "swan" else (30, TRAIN))]
    before = [run(perturbed(tiny_model(name)), tokens) for tokens in inputs]
    for hook in encodings.hooks(cls):
        without = perturbed(tiny_model(type("Without", (cls,), {hook: getattr(Encoding, hook)})))
        try:
            after = [run(without, tokens) for tokens in inputs]
        except (TypeError, AttributeError):
            assert hook == "prepare", f"only `prepare` may be needed by other hooks, not `{hook}`"
        else:
            assert not all(map(partial(close, tolerance=1e-6), before, after)), f"`{hook}` has no effect"


STARTS = [  # encoding, parameter, its standard deviation at the start
    ("learned", "table", 0.02),
    ("learned_per_layer", "table", 0.02),
    ("abacus", "table", 1.0),
    ("position_coupling", "table", 1.0),
    ("t5", "table", 128**-0.5),
    ("fire", "w1", 3**-0.5),
    ("kerple_log", "a", 12**-0.5),
    ("kerple_power", "p", 3**-0.5),
    ("dape(alibi)", "w1", (3 * 32) ** -0.5),
    ("dape_v2(alibi)", "w1", (9 * 32) ** -0.5),
    ("fope", "coefficients", 0.3 * (2 / 17) ** 0.5),  # one pair, 16 heads
    ("tape", "gate", 0.02),
    ("tape", "up", 0),
    ("da", "w", 0.02),
    ("da", "v", 0),
    ("cope", "table", 0),
    ("pope", "delta", 0),
    ("grape_a", "u", 8**-0.5),
    ("repo", "gate", 0.02),
    ("fox", "weight", 0.02),
    ("fox", "offset", 0),
    ("path_fox", "taps", 0.02),
    ("asentmax", "beta", 0.02),
    ("selective_rope", "kernel", 0.02),
    ("selective_rope_gated", "gate", 0.02),
    ("selective_rope_gated", "log_step", 0),
]


@pytest.mark.parametrize(("name", "parameter", "deviation"), STARTS)
def test_parameters_start_as_in_the_authors_code(name, parameter, deviation):
    values = getattr(make_encoding(name, 16, layers=6), parameter)
    assert values.std().item() == pytest.approx(deviation, rel=0.3)


def test_hooks_are_listed_in_call_order():
    assert {name: encodings.hooks(get_encoding(name)) for name in ("nope", "learned", "t5", "rope", "randomised(rope)")} == {
        "nope": [],
        "learned": ["embed"],
        "t5": ["prepare", "bias"],
        "rope": ["prepare", "rotate"],
        "randomised(rope)": ["positions", "prepare", "rotate"],
    }


def test_every_encoding_is_documented():
    for cls in encodings.classes().values():
        assert sys.modules[cls.__module__].__doc__, f"the file of {cls.info.name} needs a docstring"
        assert cls.__doc__ not in (None, Encoding.__doc__, Wrapper.__doc__), f"the class of {cls.info.name} needs a docstring"


def test_every_encoding_has_an_oracle():
    """A test decorated with ``@oracle(name, against=…)``, which compares it with code that is not ours."""
    for path in sorted(Path(__file__).parent.glob("test_encodings_*.py")):
        importlib.import_module(path.stem)
    assert sorted(ORACLES) == sorted(NAMES), "every encoding needs an @oracle test, and nothing else"


def test_the_causal_mask_is_the_only_order_signal_of_nope():
    order, tokens = torch.tensor([4, 0, 6, 2, 5, 1, 3]), random_tokens(2, 7)

    def is_equivariant(name: str, causal: bool) -> bool:
        model = tiny_model(name)
        model.causal = causal
        return close(run(model, tokens)[:, order], run(model, tokens[:, order]), 1e-5)

    assert is_equivariant("nope", causal=False)
    assert not is_equivariant("nope", causal=True)
    assert not is_equivariant("alibi", causal=False), "an encoding is an order signal even without a mask"


# --- what hooks may return


class Widened(NoPE):
    """Queries and keys of three times the width, with the same products: q·k + q·k − q·k."""

    info = replace(NoPE.info, name="test widened")

    def rotate(self, q, k, at):
        return torch.cat([q, q, q], -1), torch.cat([k, k, -k], -1)


def test_wider_queries_and_keys_keep_the_scale():
    tokens = random_tokens(2, 9)
    assert close(run(tiny_model(Widened), tokens), run(tiny_model("nope"), tokens))


def test_the_bibliography_is_complete():
    """Every row of the board has a gloss; no entry is left of an encoding that is gone."""
    for name, cls in encodings.catalogue().items():
        info = cls.info
        assert 1 <= len(info.gloss.split()) <= 8 and info.fused and info.cache and info.checkpoint, name
        assert not info.code or info.code.startswith("https://"), name
        assert all(fact(name, field) == getattr(info, field) for field in ("fused", "cache", "checkpoint")), name
    assert bibliography().keys() == encodings.classes().keys() | {name for name in encodings.catalogue() if "(" in name}
    fields = {field for entry in bibliography().values() for field in entry}
    assert fields <= {field.name for field in dataclasses.fields(encodings.Info)} - {"name"}
