"""A short extra training stage at longer lengths: of the whole model, or of a temperature for each head."""

import torch
from torch import Tensor, nn

from tasks import InputError

from .base import At, Stage, Wrapper
from .bibliography import published

# Interpolation uses one scale for all lengths past L, as in the paper, so that the scale tuned at L′ is the one tested.
ENTRIES = ("finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))", "finetuned(rope)", "head_scale(nope)")


class Finetuned(Wrapper):
    """The wrapped encoding, unchanged; its model trains for ``percent`` % more steps, at lengths up to L′, all announced as L′.

    So whatever depends on the announced length has its value for L′ in that stage: s = L′/L in YaRN and interpolation, for
    short sequences too, as in the paper.
    """

    info = published("finetuned")

    def __init_subclass__(cls) -> None:
        cls.stage = Stage(cls.chosen.get("percent", 1.0) / 100)
        if faults := list(cls.stage.faults("longer", plugin=False)):
            raise InputError(f"{cls.info.name}: {faults[0]}")

    def __init__(self, setup, *, percent: float = 1.0):
        super().__init__(setup)

    @classmethod
    def trained_as(cls):
        return cls.inner


class HeadScale(Wrapper):
    """Scores times a number s_h for each head and layer, which is 1 in training and learned alone in a stage after it."""

    info = published("head_scale")
    combined_with = ("nope",)
    stage = Stage(encoding_only=True)

    def __init__(self, setup):
        super().__init__(setup)
        self.s = nn.Parameter(torch.ones(setup.layers, setup.heads))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        q, k = super().rotate(q, k, at)
        s = self.s if at.after_stage else self.s.detach()
        return q * s[at.layer, :, None, None].to(q.dtype), k
