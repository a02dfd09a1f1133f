"""``lprime.attention``: equal to the attention of the harness, in whole passes and token by token, for all that can leave."""

import contextlib

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

import lprime
from bench.encodings import Setup, catalogue
from bench.plugins.registry import get_encoding
from bench.suites.suite import load_suite
from bench.training.model import build_decoder
from tasks import InputError

HEADS, WIDTH, TRAIN, LONGEST = 3, 8, 11, 40


def reason(name: str) -> str:
    """Why the attention of an encoding cannot leave the model; empty if it can."""
    try:
        lprime.attention(name, heads=2, head_width=8, train_length=12, longest=24)
    except InputError as error:
        return str(error).partition(": ")[2]
    return ""


REASONS = {name: reason(name) for name in catalogue()}
LEAVE = [name for name, reason in REASONS.items() if not reason]


def made(name: str) -> tuple[torch.nn.Module, torch.nn.Module]:
    """A model of one layer, and the module with the same weights, which noise has moved away from zeros."""
    spec = load_suite("quick").model.model_copy(update={"layers": 1, "heads": HEADS, "width": HEADS * WIDTH})
    setup = Setup(1, HEADS * WIDTH, HEADS, WIDTH, TRAIN, LONGEST, TRAIN, LONGEST, symbols=("a",) * 9)
    model = build_decoder(spec, get_encoding(name), setup, 0)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.encoding.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    module = lprime.attention(name, heads=HEADS, head_width=WIDTH, train_length=TRAIN, longest=LONGEST)
    module.encoding.load_state_dict(model.encoding.state_dict())
    return model, module


@pytest.mark.parametrize("name", LEAVE)
def test_attention_is_that_of_the_harness_in_one_pass_and_token_by_token(name, monkeypatch):
    model, module = made(name)
    seen: dict[str, torch.Tensor] = {}
    rotate, attend = model.encoding.rotate, model.encoding.attend

    def keep_qk(q, k, at):
        seen.update(q=q, k=k)
        return rotate(q, k, at)

    def keep_output(q, k, v, bias, at):
        seen.update(v=v, out=attend(q, k, v, bias, at))
        return seen["out"]

    monkeypatch.setattr(model.encoding, "rotate", keep_qk)
    monkeypatch.setattr(model.encoding, "attend", keep_output)
    for training, count in ((True, TRAIN), (False, LONGEST)):
        model.train(training)
        module.train(training)
        with torch.no_grad():
            model(torch.randint(9, (2, count)), count)
            q, k, v, out = (seen[key] for key in ("q", "k", "v", "out"))
            torch.testing.assert_close(module(q, k, v), out, rtol=1e-4, atol=1e-4)
            if training:
                torch.testing.assert_close(lprime.hooks(module.encoding, q, k, v).output, out, rtol=1e-4, atol=1e-4)
    with contextlib.suppress(InputError):  # of what is more than a bias
        flex = flex_attention(q, k, v, score_mod=module.score_mod(LONGEST))
        torch.testing.assert_close(flex, out, rtol=1e-4, atol=1e-4)
    for start, stop in ((0, 7), *((n, n + 1) for n in range(7, LONGEST))):  # a prompt, then one token after the other
        step = module(q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop])
        torch.testing.assert_close(step, out[:, :, start:stop], rtol=1e-3, atol=2e-4)


def test_what_cannot_leave_says_why():
    assert {name for name in ("rope", "alibi", "t5", "kerple_log", "yarn", "xpos", "fire", "cope") if REASONS[name]} == set()
    for name, reason in {
        "learned": "residual stream",
        "randomised(rope)": "random numbers",
        "fox": "input of the layer",
    }.items():
        assert reason in REASONS[name]
        with pytest.raises(InputError, match=reason):
            lprime.attention(name, heads=2, head_width=8, train_length=8)


def test_positions_may_be_given():
    module = lprime.attention("rope", heads=2, head_width=8, train_length=16).eval()
    q, k, v = torch.randn(3, 2, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    shifted = module(q, k, v, torch.arange(9) + 100)
    torch.testing.assert_close(shifted, module(q, k, v), rtol=1e-4, atol=1e-4)  # relative
    assert not torch.allclose(module(q, k, v, torch.arange(9) * 2), shifted)
    torch.testing.assert_close(module(q[:, :, -1:], k, v, torch.arange(9) + 100), shifted[:, :, -1:])


def test_a_score_mod_is_for_biases_of_positions_alone():
    def has(name: str) -> bool:
        try:
            return bool(lprime.attention(name, heads=2, head_width=8, train_length=8).eval().score_mod(8))
        except InputError as error:
            assert "is not a bias that depends on positions alone" in str(error)
            return False

    assert all(map(has, ("alibi", "t5", "kerple_log", "fire", "sandwich", "sink(nope)")))
    assert not any(map(has, ("rope", "cope", "nope", "shaw", "dape(alibi)", "logn(hard_alibi)", "window(rope)")))
    with pytest.raises(InputError, match="trains no bias"):
        lprime.attention("t5", heads=2, head_width=8, train_length=8).score_mod(8)


def test_hooks_by_hand():
    q, k, v = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    found, places = lprime.hooks("alibi", q, k, v), torch.arange(5)
    slopes = torch.tensor([2**-4, 2**-8])[:, None, None]
    bias = torch.broadcast_to(found.bias, (1, 2, 5, 5))[0].tril()
    torch.testing.assert_close(bias, (-slopes * (places[:, None] - places)).tril())
    scores = q @ k.mT / 2 + bias + torch.full((5, 5), -torch.inf).triu(1)
    torch.testing.assert_close(found.output, scores.softmax(-1) @ v)
    assert found.q is q and found.k is k and found.x is None
    turned = lprime.hooks("rope", q, k)
    assert turned.bias is None and not torch.allclose(turned.q, q)
    torch.testing.assert_close(turned.q.norm(dim=-1), q.norm(dim=-1))
    x = torch.randn(1, 5, 8)
    wave = lprime.hooks("sinusoidal", q, k, v, x).x - x
    torch.testing.assert_close(wave[0, :, 0], torch.sin(places.float()))
    assert lprime.hooks("fox", q, k, v, x).output.shape == v.shape
    with pytest.raises(InputError, match="it reads the input of the layer"):
        lprime.hooks("fox", q, k, v)
