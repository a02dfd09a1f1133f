"""A short extra training stage at longer lengths, for encodings that are stretched past L."""

from .base import Stage, Wrapper
from .bibliography import published

# Interpolation uses one scale for all lengths past L, as in the paper, so that the scale tuned at L′ is the one tested.
ENTRIES = ("finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))", "finetuned(rope)")


class Finetuned(Wrapper):
    """The wrapped encoding, unchanged; its model trains for 1 % more steps, at lengths up to L′, all announced as L′.

    So whatever depends on the announced length has its value for L′ in that stage: s = L′/L in YaRN and interpolation, for
    short sequences too, as in the paper.
    """

    info = published(
        "finetuned",
        family="training",
        formula="1 % more training steps, at lengths 1 … L′",
        past="lengths up to L′ are seen in the extra stage",
        lengths="extra stage at lengths 1 … L′, scaled",
        shift_invariant=True,
        ranking="longer",
    )
    stage = Stage()

    @classmethod
    def trained_as(cls):
        return cls.inner
