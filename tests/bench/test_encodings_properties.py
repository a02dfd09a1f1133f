"""What every encoding of the catalogue must keep to, whatever its formula. A new encoding joins by being listed."""

import random
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import NAMES, random_tokens, tables, tiny_model
from torch import Tensor

from bench import encodings
from bench.encodings import Encoding, Wrapper
from bench.encodings.nope import NoPE
from bench.model import Decoder

TRAIN, LONGEST = 12, 120
"""Tokens at L and at 10·L: every model here is made for both."""

every = pytest.mark.parametrize("name", NAMES)
lengths = pytest.mark.parametrize("length", [TRAIN, 40], ids=["at L", "past L"])


def run(model: Decoder, tokens: Tensor, nominal: int | None = None, seed: int = 0) -> Tensor:
    """Hidden states; the sequence is as long as announced if nothing else is said."""
    nominal = max(TRAIN, tokens.shape[1]) if nominal is None else nominal
    return model(tokens, nominal, torch.Generator().manual_seed(seed))


def replace_positions(model: Decoder, monkeypatch, change) -> None:
    """``change`` the ids that the encoding gives."""
    given = model.encoding.positions
    monkeypatch.setattr(model, "fixed", False)  # what is kept by shape holds for the encoding's own ids
    monkeypatch.setattr(model.encoding, "positions", lambda tokens, at: change(given(tokens, at), tokens))


def stirred(model: Decoder) -> Decoder:
    """The encoding's parameters moved off their start: zeros and small numbers hide much."""
    with torch.no_grad():
        for parameter in model.encoding.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


def close(a: Tensor, b: Tensor, tolerance: float = 2e-5) -> bool:
    return torch.allclose(a, b, atol=tolerance, rtol=tolerance)


# --- what an output may hang on


@every
@lengths
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_later_token_changes_no_earlier_output(name, length, training):
    model = tiny_model(name).train(training)
    tokens = random_tokens(2, length)
    before = run(model, tokens)
    for t in (0, 1, length // 2, length - 2):
        changed = tokens.clone()
        changed[:, t + 1 :] = random_tokens(2, length - t - 1, seed=t + 1)
        changed[:, t + 1] = (tokens[:, t + 1] + 1) % len(model.embedding.weight)
        after = run(model, changed)
        assert close(before[:, : t + 1], after[:, : t + 1])
        assert not close(before[:, t + 1], after[:, t + 1], 1e-3), "the change must be seen where it was made"


@every
@lengths
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_cutting_a_sequence_changes_no_output_up_to_the_cut(name, length, training):
    # Were the answer's length read off the tensor, greedy decoding would see other positions than teacher forcing.
    model = tiny_model(name).train(training)
    tokens = random_tokens(2, length)
    whole = run(model, tokens, nominal=length)
    for size in (1, 2, length // 2, length - 1):
        assert close(whole[:, :size], run(model, tokens[:, :size], nominal=length))


@every
def test_padding_behind_a_sequence_changes_nothing(name):
    model = tiny_model(name).eval()
    tokens = random_tokens(2, TRAIN)
    padded = torch.cat([tokens, torch.zeros(2, 9, dtype=torch.long)], 1)
    assert close(run(model, tokens, nominal=30), run(model, padded, nominal=30)[:, :TRAIN])


@every
@lengths
def test_a_row_does_not_hang_on_the_other_rows(name, length):
    model = tiny_model(name).eval()
    tokens = random_tokens(5, length)
    whole = run(model, tokens)
    others = random_tokens(5, length, seed=9)
    others[2] = tokens[2]
    assert close(whole[2], run(model, others)[2])
    assert close(whole[:1], run(model, tokens[:1])), "nor on how many there are"
    if not encodings.get(name).info.random:  # one that draws may draw for each row anew
        order = [3, 0, 4, 1, 2]
        assert close(whole[order], run(model, tokens[order]))


@every
def test_the_announced_length_may_be_any(name):
    model = tiny_model(name)
    tokens = random_tokens(2, TRAIN)
    for nominal in (TRAIN, TRAIN + 1, 5 * TRAIN, LONGEST):
        for training in (True, False):
            out = run(model.train(training), tokens, nominal)
            assert out.shape == (2, TRAIN, model.embedding.weight.shape[1])
            assert out.isfinite().all()
    assert run(model, tokens[:, :1], LONGEST).isfinite().all(), "a single token, announced to become many"


# --- numbers


@every
@pytest.mark.parametrize("lowered", [False, True], ids=["fp32", "bf16"])
def test_values_and_gradients_stay_finite_at_ten_times_the_train_length(name, lowered):
    model = tiny_model(name)
    tokens = random_tokens(2, LONGEST)
    with torch.autocast("cpu", torch.bfloat16, enabled=lowered):  # as training does on a GPU
        hidden = run(model, tokens)
        logits = model.logits(hidden)
    assert logits.dtype == (torch.bfloat16 if lowered else torch.float32)
    assert logits.isfinite().all()
    torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
    for parameter, gradient in ((n, p.grad) for n, p in model.named_parameters()):
        assert gradient is not None and gradient.isfinite().all(), parameter


@every
def test_bf16_autocast_gives_nearly_the_same_as_fp32(name):
    # Positions in bf16 would be off by whole tokens past 256.
    model = tiny_model(name).eval()
    tokens = random_tokens(2, LONGEST)
    exact = run(model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = run(model, tokens)
    assert (lowered.float() - exact).square().mean().sqrt() < 0.01 * exact.square().mean().sqrt()


@every
@pytest.mark.parametrize("heads", [1, 3, 5, 6, 12])
def test_any_number_of_heads_and_float64(name, heads):
    model = tiny_model(name, heads=heads).eval()
    tokens = random_tokens(2, 30)
    single = run(model, tokens)
    double = run(model.double(), tokens)
    assert double.dtype == torch.float64
    assert close(double.float(), single, 1e-4)


@every
def test_every_parameter_receives_a_gradient(name):
    model = tiny_model(name)
    hidden = run(model, random_tokens(4, LONGEST))
    logits = model.logits(hidden)
    (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().max() > 0, parameter


# --- no state, no hidden randomness


@every
def test_equal_seeds_give_equal_outputs(name):
    tokens = random_tokens(2, 30)
    first, again = (run(tiny_model(name, seed=3), tokens, seed=4) for _ in range(2))
    assert torch.equal(first, again)
    assert not close(first, run(tiny_model(name, seed=5), tokens, seed=4), 1e-3), "the seed decides on the weights"


@every
def test_only_those_that_say_so_draw_and_only_from_their_generator(name):
    model, tokens = tiny_model(name).train(), random_tokens(2, TRAIN)
    source = torch.Generator().manual_seed(0)
    before = source.get_state()
    first = model(tokens, TRAIN, source)
    drew = not torch.equal(before, source.get_state())
    assert drew == encodings.get(name).info.random
    if drew:
        assert not close(first, run(model, tokens, seed=1), 1e-3)
    else:
        assert torch.equal(first, model(tokens, TRAIN)), "no generator is needed either"


def spelled(encoding: Encoding) -> list[dict[str, str]]:
    """All attributes of an encoding and its parts, written out: a list that grows in place would equal itself."""
    return [{key: repr(value) for key, value in vars(module).items()} for module in encoding.modules()]


@every
def test_a_forward_pass_leaves_nothing_behind(name):
    model = tiny_model(name)
    tokens, others = random_tokens(2, TRAIN), random_tokens(3, 50, seed=1)
    attributes, held = spelled(model.encoding), tables(model)
    state = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    first = run(model, tokens)
    run(model.eval(), others, nominal=LONGEST).sum().backward()
    second = run(model.train(), tokens)
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.random.get_state()[1].tolist() == state[1]
    assert random.getstate() == state[2]
    assert spelled(model.encoding) == attributes, "no attribute is added or changed"
    after = tables(model)
    assert after.keys() == held.keys()
    assert all(torch.equal(tensor, held[key]) for key, tensor in after.items())


# --- positions


@every
def test_ids_with_a_batch_axis_give_the_same(name, monkeypatch):
    model = tiny_model(name).eval()
    tokens = random_tokens(3, 30)
    before = run(model, tokens)
    replace_positions(model, monkeypatch, lambda ids, tokens: ids.expand(tokens.shape).clone())
    assert close(before, run(model, tokens))


@every
def test_moving_all_positions_changes_what_was_declared(name, monkeypatch):
    model, tokens = stirred(tiny_model(name)).eval(), random_tokens(2, 30)
    outputs = {}
    for shift in (0, 1, 37, LONGEST - 30, 5000):
        replace_positions(model, monkeypatch, lambda ids, tokens, shift=shift: torch.arange(30) + shift)
        with suppress(IndexError):  # a table ends somewhere
            outputs[shift] = run(model, tokens)
    assert {0, 1, 37, LONGEST - 30} <= outputs.keys()
    if encodings.get(name).info.shift_invariant:
        assert all(close(outputs[0], moved, 1e-4) for moved in outputs.values())
    else:
        assert any(not close(outputs[0], moved, 1e-2) for moved in outputs.values())


def test_without_a_mask_and_an_encoding_the_model_knows_no_order():
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    tokens = random_tokens(2, 7)
    for causal in (False, True):
        model = tiny_model("nope")
        model.causal = causal
        moved = close(run(model, tokens)[:, order], run(model, tokens[:, order]), 1e-5)
        assert moved == (not causal), "the causal mask is the only order signal"
    # The check has teeth: an encoding breaks the symmetry even without a mask.
    model = tiny_model("alibi")
    model.causal = False
    assert not close(run(model, tokens)[:, order], run(model, tokens[:, order]), 1e-3)


# --- what an encoding says of itself


def written_here(cls: type[Encoding]) -> list[type]:
    """A class and those it inherits from, short of the bases that every encoding has."""
    return [base for base in cls.__mro__ if issubclass(base, Encoding) and base not in (Encoding, Wrapper)]


def overridden(cls: type[Encoding]) -> set[str]:
    own = {key for base in written_here(cls) for key in vars(base)} & set(encodings.HOOKS)
    return own | (overridden(cls.inner) if issubclass(cls, Wrapper) else set())


@every
def test_the_declaration_is_whole(name):
    cls = encodings.get(name)
    info = cls.info
    assert info.name == name
    assert info.link.startswith("https://")
    assert 1986 <= info.year <= 2030
    for text in (info.family, info.title, info.authors, info.formula, info.past, info.provenance):
        assert text == text.strip() and text
    assert info.ranking in ("standard", "longer", "task-aware")
    assert sys.modules[cls.__module__].__doc__, "the file says what it is about"
    assert any(base.__doc__ for base in written_here(cls)), "and the class what it does"
    plain = [value for value in encodings.settings(cls).values() if not isinstance(value, dict)]
    assert all(isinstance(value, (bool, int, float, str)) for value in plain)


@every
def test_the_hooks_listed_are_the_hooks_that_act(name):
    cls = encodings.get(name)
    listed = encodings.hooks(cls)
    assert set(listed) == overridden(cls)
    assert listed == sorted(listed, key=encodings.HOOKS.index), "in the order in which data meets them"
    # Were a listed hook put back to its default, the model would give something else (or break).
    tokens = random_tokens(2, 30)
    before = run(stirred(tiny_model(name)), tokens)
    for hook in listed:
        crippled = stirred(tiny_model(type("Crippled", (cls,), {hook: getattr(Encoding, hook)})))
        with suppress(TypeError, AttributeError):  # where another hook counts on what this one gives
            assert not close(before, run(crippled, tokens), 1e-6), f"{hook} does nothing"


def test_the_six_use_the_hooks_they_should():
    found = {name: encodings.hooks(encodings.get(name)) for name in ("nope", "sinusoidal", "learned", "t5", "alibi", "rope")}
    assert found == {
        "nope": [],
        "sinusoidal": ["prepare", "embed"],
        "learned": ["embed"],
        "t5": ["prepare", "bias"],
        "alibi": ["prepare", "bias"],
        "rope": ["prepare", "rotate"],
    }


def test_an_encoding_is_found_by_its_name_and_unknown_names_are_refused():
    assert all(encodings.get(name).info.name == name for name in NAMES)
    assert sorted(NAMES) == NAMES
    with pytest.raises(Exception, match="alibi"):
        encodings.get("alibbi")


# --- hooks may do what their table says


class Bias(NoPE):
    """A bias per key, per query or per head alone: all of them broadcast to [B, H, T, T]."""

    shape = "per key"
    info = replace(NoPE.info, name="test bias")

    def bias(self, q, k, at):
        rows, heads, length, _ = q.shape
        full = torch.arange(rows * heads * length * length).view(rows, heads, length, length).sin()
        return {
            "per key": full[:, :, :1],
            "per query": full[..., :1],
            "per head": full[:, :, :1, :1],
            "shared by heads": full[:, :1],
            "shared by rows and heads": full[0, 0],
            "full": full,
        }[self.shape]


SHAPES = [
    "per key",
    "per query",
    "per head",
    "shared by heads",
    "shared by rows and heads",
    "full",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bias_of_any_shape_that_broadcasts_is_masked_alike(shape):
    cls = type("Shaped", (Bias,), {"shape": shape})
    spelled_out = type("Whole", (cls,), {"bias": lambda self, q, k, at: cls.bias(self, q, k, at).expand(2, 3, 9, 9)})
    tokens = random_tokens(2, 9)
    assert close(run(tiny_model(cls), tokens), run(tiny_model(spelled_out), tokens))


class Widened(NoPE):
    """Queries and keys of three times the width: the scale stays 1/√d."""

    info = replace(NoPE.info, name="test widened")

    def rotate(self, q, k, at):
        return torch.cat([q, q, q], -1), torch.cat([k, k, -k], -1)


def test_wider_queries_and_keys_keep_the_scale():
    # q·k + q·k − q·k = q·k
    tokens = random_tokens(2, 9)
    assert close(run(tiny_model(Widened), tokens), run(tiny_model("nope"), tokens))
