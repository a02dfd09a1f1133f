"""What an output may hang on: nothing that comes later, and not on where the sequence ends."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from ..model import Decoder
from .subject import Case, Fault, Subject, check, differs, mode, states

ROWS = 64
"""Sequences at a time."""


@dataclass(frozen=True)
class Look:
    """One way to look for a leak."""

    case: Case
    width: int
    """Tokens of the sequences."""
    nominal: int
    """Tokens they were announced to have."""
    places: Sequence[int]
    """After each of them, all tokens change."""
    training: bool
    lowered: bool = False
    """Under bf16 autocast, as on a GPU."""

    def __str__(self) -> str:
        train = self.case.setup.train_tokens
        past = "" if self.width == self.nominal else f" announced as {self.nominal}"
        return f"{mode(self.training)}, {self.width} tokens{past} (L is {train}), {self.case}"


def spread(count: int, width: int) -> list[int]:
    """Some places of a sequence, its ends among them."""
    return sorted({round(n * (width - 2) / (count - 1)) for n in range(count)})


def looks(subject: Subject) -> Iterable[Look]:
    """Every place at L and at L′ on one task, some at every length up to L′, on other tasks and in other suites' models."""
    main = subject.main
    train, longest = main.setup.train_tokens, main.setup.longest_tokens
    for training in (True, False):
        yield Look(main, train, train, range(train - 1), training)
        yield Look(main, longest, longest, range(longest - 1), training)
        yield Look(main, train, longest, spread(8, train), training)
        yield Look(main, longest, longest, spread(8, longest), training, lowered=True)
        for case in subject.cases[1:]:
            for width in (case.setup.train_tokens, case.setup.longest_tokens):
                yield Look(case, width, width, spread(8, width), training)
        for case in subject.elsewhere:
            for width in (case.setup.train_tokens, min(2 * case.setup.train_tokens, case.setup.longest_tokens)):
                yield Look(case, width, width, spread(3, width), training)
    for width in range(2, longest):
        yield Look(main, width, width, [(7 * width) % (width - 1)], training=False)


def changed(tokens: Int[Tensor, "N T"], donors: Int[Tensor, "N T"], places: Sequence[int], symbols: int) -> Tensor:
    """Row n with the donor's tokens after place ``places[n]``, of which the first is sure to be another one."""
    after = torch.arange(tokens.shape[1]) > torch.tensor(places)[:, None]
    mixed = torch.where(after, donors, tokens)
    rows, first = torch.arange(len(places)), torch.tensor(places) + 1
    same = mixed[rows, first] == tokens[rows, first]
    mixed[rows, first] = (mixed[rows, first] + same.long()) % symbols
    return mixed


def leaks(model: Decoder, look: Look) -> list[tuple[int, int, int]]:
    """Where an output hangs on a later token: the last place that was kept, the place of the output, and the layer, from 0."""
    found = []
    bases = look.case.sequences(2, look.width, seed=look.width)
    pairs = [(base, place) for base in range(len(bases)) for place in look.places]
    for start in range(0, len(pairs), ROWS):
        which, places = (list(part) for part in zip(*pairs[start : start + ROWS], strict=True))
        before = bases[which]
        donors = look.case.sequences(len(places), look.width, seed=1000 + start)
        after = changed(before, donors, places, len(look.case.setup.symbols))
        # Twice the same shape and seed: whoever draws for each row draws the same, and rounding is the same too.
        with torch.autocast("cpu", torch.bfloat16, enabled=look.lowered):
            given = [layers(model, tokens, look) for tokens in (before, after)]
        for layer, (a, b) in enumerate(zip(*given, strict=True)):
            wrong = differs(a, b) & (torch.arange(look.width) <= torch.tensor(places)[:, None])
            found += [(places[n], int(place), layer) for n, place in wrong.nonzero().tolist()]
    return sorted(found, key=lambda leak: (leak[2], leak[1]))


def layers(model: Decoder, tokens: Int[Tensor, "B T"], look: Look) -> list[Tensor]:
    """What every layer gives."""
    given: list[Tensor] = []
    handles = [
        block.register_forward_hook(lambda _, __, x: given.append(x.detach().float().view(*tokens.shape, -1)))
        for block in model.blocks
    ]
    try:
        states(model, tokens, look.nominal, look.training)
    finally:
        for handle in handles:
            handle.remove()
    return given


@check(
    "causality",
    expected="no output hangs on a later token: in training and evaluation, in every layer, at every place, at L and past it "
    "up to L′",
    advice="look at what the hooks compute across places: an entry for query i may use keys, values and inputs up to i alone "
    "(mind roll, flip, sums and means over all of T, and tokens in `positions`)",
)
def causality(subject: Subject) -> str:
    faults: list[str] = []
    models: dict[str, Decoder] = {}
    tried = 0
    for look in looks(subject):
        key = str(look.case)
        models[key] = models.get(key) or subject.model(look.case)
        tried += 2 * len(look.places)
        if found := leaks(models[key], look):
            kept, place, layer = found[0]
            where = f"first in layer {layer} of 0 … {look.case.setup.layers - 1}"
            faults.append(f"{look}: the output at place {place} changes with tokens after {kept}, {where}")
        if len(faults) == 3:
            break
    if faults:
        raise Fault("; ".join(faults))
    return f"none of {tried:,} changes of later tokens was seen by an earlier output"


@check(
    "cutting",
    expected="a sequence that is cut short gives the outputs of the whole one, and any length may be announced",
    advice="the length of a sequence is at.nominal, which is announced, and never the T of the tensor at hand",
)
def cutting(subject: Subject) -> str:
    tried = 0
    for case in subject.cases:
        model, setup = subject.model(case), case.setup
        for training in (True, False):
            for nominal in (setup.train_tokens, setup.longest_tokens):
                tokens = case.sequences(2, nominal, seed=0)
                whole = states(model, tokens, nominal, training)
                for size in range(1, nominal) if case is subject.main else spread(5, nominal):
                    size = max(1, size)
                    cut = states(model, tokens[:, :size], nominal, training)
                    tried += 1
                    if differs(cut, whole[:, :size]).any():
                        place = int(differs(cut, whole[:, :size]).any(0).nonzero()[0])
                        raise Fault(
                            f"{mode(training)}, {nominal} tokens announced, {case}: the output at place {place} is another one "
                            f"when the sequence is cut after {size} tokens"
                        )
    return f"the same in each of {tried} cuts"
