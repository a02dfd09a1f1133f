"""Position interpolation: ids of longer sequences are scaled down into the trained range."""

from jaxtyping import Real
from torch import Tensor

from tasks import InputError

from .base import At, Encoding, Setup, Wrapper
from .bibliography import published

ENTRIES = ("interpolated(rope)", "interpolated(rope_scaled)", "interpolated(sinusoidal)", "interpolated(alibi)")


def stretch_factor(setup: Setup, at: At, dynamic: bool) -> float:
    """Factor s for a sequence of N announced tokens: 1 if N ≤ L; beyond, N/L if ``dynamic``, else L′/L."""
    if at.announced_length <= setup.train_tokens:
        return 1.0
    return max(1.0, (at.announced_length if dynamic else setup.longest_tokens) / setup.train_tokens)


def require_float_ids(name: str, inner: type[Encoding]) -> None:
    """Reject an encoding that takes no fractional ids as soon as the wrapper ``name`` around it is named."""
    while inner.float_ids and issubclass(inner, Wrapper):
        inner = inner.inner
    if not inner.float_ids:
        raise InputError(
            f"{name} turns position ids into fractions, which {inner.info.name} does not accept; "
            "expected an encoding that computes with given ids, such as rope"
        )


class Interpolated(Wrapper):
    """The wrapped encoding with ids p·L/N if the announced length N > L. Ids become fractions, so it cannot wrap tables.

    With ``fixed``, ids are p·L/L′ for every N > L, as in the paper, which tunes for one chosen length.
    """

    info = published(
        "interpolated",
        family="ids",
        formula="p ← p·L/N when N > L",
        past="ids stay in the trained range, at untrained fractions",
        lengths="s = N/L (fixed: L′/L)",
        shift_invariant=True,
    )

    def __init_subclass__(cls) -> None:
        require_float_ids("interpolated", cls.inner)

    @classmethod
    def trained_as(cls):
        return cls.inner

    def __init__(self, setup, *, fixed: bool = False):
        super().__init__(setup)
        self.fixed = fixed

    def positions(self, tokens: Tensor, at: At) -> Real[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        s = stretch_factor(self.setup, at, dynamic=not self.fixed)
        return ids if s == 1 else ids.double() / s
