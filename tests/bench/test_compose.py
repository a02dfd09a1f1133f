"""Names of encodings: plain, with settings, and nested."""

import pytest
import torch

from bench import encodings
from bench.encodings import At, Setup, Wrapper, compose
from bench.encodings.base import Info
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from tasks import InputError

SETUP = Setup(layers=2, width=16, heads=2, head_width=8, train_tokens=8, longest_tokens=40, train_length=8, longest_length=40)


class Doubled(Wrapper):
    """Doubles all position ids: a minimal wrapper."""

    info = Info("doubled", "ids", "t", "a", 2026, "https://example.org", formula="2p", past="p", provenance="ours")

    def __init__(self, setup, *, times: int = 2):
        super().__init__(setup)
        self.times = times

    def positions(self, tokens, at):
        return self.times * super().positions(tokens, at)


KNOWN = encodings.classes() | {"doubled": Doubled}


def resolve(text: str) -> type:
    return compose.resolve(text, KNOWN)


def test_a_composition_is_as_sure_as_its_parts_and_an_own_variant_if_nobody_published_it():
    sources = {name: get_encoding(name).info.source for name in ("randomised(rope)", "randomised(learned)", "randomised(t5)")}
    assert list(sources.values()) == ["official code", "port", "own variant"]


def test_settings_replace_defaults_and_are_part_of_the_name():
    cls = resolve(" rope( base = 500000 ) ")
    assert cls.info.name == "rope(base=500000.0)"
    assert compose.settings(cls) == {"base": 500000.0}
    assert resolve("rope(base=10000)") is KNOWN["rope"], "explicit defaults give the plain encoding"
    assert cls.make(SETUP).base == 500000.0
    assert resolve("t5(max_distance=8,buckets=4)").info.name == "t5(buckets=4,max_distance=8)", "in one order"
    assert resolve(resolve("t5(max_distance=8)").info.name).info == resolve("t5(max_distance=8)").info, "names are stable"


def test_a_wrapper_forwards_every_hook_it_does_not_override():
    tokens = torch.arange(6)[None]
    inside, outside = resolve("alibi").make(SETUP), resolve("doubled(alibi)").make(SETUP)
    shared = []
    for encoding in (inside, outside):
        at = At(announced_length=6)
        at = At(announced_length=6, ids=encoding.positions(tokens, at))
        shared.append(encoding.prepare(at))
    assert torch.equal(shared[1], 2 * shared[0])
    assert encodings.hooks(resolve("doubled(alibi)")) == ["positions", "prepare", "bias"]
    assert encodings.hooks(resolve("doubled(nope)")) == ["positions"]


def test_wrappers_nest_and_take_settings():
    cls = resolve("doubled(doubled(rope(base=100.0)), times=3)")
    assert cls.info.name == "doubled(doubled(rope(base=100.0)),times=3)"
    assert compose.settings(cls) == {"times": 3, "doubled(rope(base=100.0))": {"times": 2, "rope(base=100.0)": {"base": 100.0}}}
    encoding = cls.make(SETUP)
    assert encoding.positions(torch.zeros(1, 3, dtype=torch.long), At(announced_length=3)).tolist() == [0, 6, 12]
    assert encoding.base.base.base == 100.0


def test_a_wrapper_combines_the_declarations_and_the_sources():
    assert resolve("doubled(learned)").info.shift_invariant is False
    assert resolve("doubled(rope)").info.formula.endswith(KNOWN["rope"].info.formula)
    assert len({source_hash(resolve(name)) for name in ("doubled(rope)", "doubled(alibi)", "rope", "alibi")}) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"rope(base=1{'0' * 310})", "setting base of rope must be of type float, such as 10000.0, got 1000"),
        ("rope(base='x')", "setting base of rope must be of type float, such as 10000.0, got 'x'"),
        ("nope(x=1)", "nope has no settings, got 'x'"),
        ("rope(nope)", "rope wraps no other encoding"),
        ("doubled", "doubled wraps another encoding; expected it in brackets"),
        ("doubled(rope, nope)", "doubled wraps one encoding, got 2"),
        ("rope(base=__import__('os'))", "must be finite numbers, True, False or quoted words"),
        ("rope.__class__", "is not an encoding"),
        ("rope(", "is not an encoding"),
        ("interpolated(learned)", "fractions, which learned does not accept"),
    ],
)
def test_invalid_names_are_rejected(text, message):
    with pytest.raises(InputError) as caught:
        resolve(text)
    assert message in str(caught.value)
