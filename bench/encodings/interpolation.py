"""Positions squeezed into the range met in training, for sequences longer than that."""

from jaxtyping import Real
from torch import Tensor

from tasks import InputError

from .base import At, Info, Setup, Wrapper

ENTRIES = ("interpolated(rope)", "interpolated(sinusoidal)", "interpolated(alibi)")


def stretch(setup: Setup, at: At, dynamic: bool) -> float:
    """s, by which to squeeze a sequence of N tokens: 1 within the train length L; past it N/L if ``dynamic``, else L′/L."""
    if at.nominal <= setup.train_tokens:
        return 1.0
    return max(1.0, (at.nominal if dynamic else setup.longest_tokens) / setup.train_tokens)


class Interpolated(Wrapper):
    """The wrapped encoding with ids p·L/N, N the announced length, when N > L. Ids become fractions: tables can't be wrapped.

    With ``fixed``, ids are p·L/L′ for every N > L, as in the paper, where one length is chosen to be tuned for and kept.
    """

    info = Info(
        name="interpolated",
        family="ids",
        title="Extending Context Window of Large Language Models via Positional Interpolation",
        authors="Chen, Wong, Chen, Tian",
        year=2023,
        link="https://arxiv.org/abs/2306.15595",
        formula="p ← p·L/N when N > L",
        past="ids stay in the range met in training, at fractions never met",
        provenance="transformers, rope type `linear`; that N is the length of each test, without tuning, is our choice "
        "(around `alibi` it is that of Al-Khateeb et al. 2023, https://arxiv.org/abs/2310.13017, from memory)",
        shift_invariant=True,
    )

    def __init_subclass__(cls) -> None:
        """Refuses what it cannot wrap as soon as it is named, before anything is trained."""
        inner = cls.inner
        while inner.float_ids and issubclass(inner, Wrapper):
            inner = inner.inner
        if not inner.float_ids:
            raise InputError(
                f"interpolated makes position ids fractions, which {inner.info.name} can't look up in its table; "
                "expected an encoding that computes with ids, such as rope"
            )

    def __init__(self, setup, *, fixed: bool = False):
        super().__init__(setup)
        self.fixed = fixed

    def positions(self, tokens: Tensor, at: At) -> Real[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        s = stretch(self.setup, at, dynamic=not self.fixed)
        return ids if s == 1 else ids.double() / s
