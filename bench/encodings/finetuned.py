"""A short further training at longer lengths, for encodings that are stretched past L."""

from .base import Info, Stage, Wrapper

# Interpolation with one scale for all lengths past L, as in the paper: tuning at L′ is then tuning for what is tested.
ENTRIES = ("finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))", "finetuned(rope)")


class Finetuned(Wrapper):
    """The wrapped encoding as it is; its model trains on for 1 % of the steps at lengths up to L′, all announced as L′.

    So what hangs on the announced length is met there as at L′, and from then on: s = L′/L in YaRN and in interpolation, for
    short sequences too, as in the paper.
    """

    info = Info(
        name="finetuned",
        family="training",
        title="Extending Context Window of Large Language Models via Positional Interpolation",
        authors="Chen, Wong, Chen, Tian",
        year=2023,
        link="https://arxiv.org/abs/2306.15595",
        formula="1 % of the steps at lengths 1 … L′, after the others",
        past="lengths up to L′ were met, in a hundredth of the training",
        provenance="the idea is the paper's, and YaRN's with some 0.1 % of the training; share and lengths are our choice",
        shift_invariant=True,
        ranking="longer",
    )
    stage = Stage()
