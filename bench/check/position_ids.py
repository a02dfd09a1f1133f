"""Position ids: ``shift_invariant`` and ``float_ids`` must be declared correctly."""

import torch
from torch import Tensor

from bench.encodings import Encoding, Wrapper

from .checks import Fault, encoding_check
from .subject import Case, Subject, hidden_states, rows_differ

SHIFTS = (1, 37, 5000)
"""Constants added to position ids."""


@encoding_check(
    "positions",
    expected="shift_invariant and float_ids are declared correctly: whether adding a constant to all position ids changes "
    "outputs, and whether ids may be fractions",
    advice="set shift_invariant in info, and float_ids on the class, to what was found",
)
def check_positions(subject: Subject) -> str:
    cls, case = subject.cls, subject.main
    width = case.setup.train_tokens
    tokens = case.sequences(2, width, seed=0)
    ids = torch.arange(width)
    shifts = [n for n in (*SHIFTS, case.setup.longest_tokens - width) if n >= 0]
    original = states_with_ids(subject, case, tokens, ids, noise=1.0)
    shifted = []
    for shift in shifts:
        try:
            shifted.append(states_with_ids(subject, case, tokens, ids + shift, noise=1.0))
        except IndexError:  # a table may end, but not before L′
            if width + shift <= case.setup.longest_tokens:
                raise
    changes_much = any(rows_differ(original, other, 1e-2).any() for other in shifted)
    changes = any(rows_differ(original, other, 1e-3).any() for other in shifted)
    if cls.info.shift_invariant and changes:
        raise Fault("adding a constant to all position ids changes outputs, but info says shift_invariant=True")
    if not cls.info.shift_invariant and not changes_much:
        raise Fault("adding a constant to all position ids changes nothing, but info says shift_invariant=False")
    if takes_fractions(cls):
        advice = "declare float_ids = False"
        try:
            half = states_with_ids(subject, case, tokens, ids.double() / 2)
        except (RuntimeError, IndexError, TypeError) as error:
            raise Fault(f"fractional position ids raise {type(error).__name__}: {error}", advice) from error
        if not half.isfinite().all():
            raise Fault("fractional position ids give numbers that are not finite", advice)
    effect, may = "nothing" if cls.info.shift_invariant else "outputs", "may" if takes_fractions(cls) else "may not"
    return f"adding a constant to all ids changes {effect}, and ids {may} be fractions, as declared"


def takes_fractions(cls: type[Encoding]) -> bool:
    """Whether an encoding takes fractional ids; a wrapper passes ids on, so everything inside must take them too."""
    return cls.float_ids and (not issubclass(cls, Wrapper) or takes_fractions(cls.inner))


def states_with_ids(subject: Subject, case: Case, tokens: Tensor, ids: Tensor, noise: float = 0.1) -> Tensor:
    """Outputs of a model with the given position ids instead of its encoding's own."""
    model = subject.model(case, noise=noise)
    model.encoding.positions = lambda tokens, at: ids  # type: ignore[method-assign]
    model.cacheable = False
    return hidden_states(model, tokens)
