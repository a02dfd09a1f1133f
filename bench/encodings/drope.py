"""RoPE that is dropped after training: a short stage at the training lengths lets the model do without positions."""

from torch import Tensor

from .base import At, Stage
from .bibliography import published
from .ntk import as_rope
from .rope import RoPE


class DroPE(RoPE):
    """RoPE in training; no positions in the stage after it ("recalibration") and in the tests.

    The authors recalibrate for 0.5 % (Llama-2-7B: 10 of 2,000 billion tokens) to 21 % (SmolLM-360M: 126 of 600) of the steps
    before; smaller models for longer. We take an eighth, theirs for SmolLM-1.7B (126 of 1,000). The learning rate is that of
    all stages here: it starts at a tenth of the peak. Their optional norm of q and k, and their factor of the scores in
    tests, which is a number chosen for each model, are left out.
    """

    info = published("drope", like=RoPE.info)
    stage = Stage(share=0.125, longer=False)
    trained_as = classmethod(as_rope)

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        return () if at.after_stage else super().prepare(at)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return (q, k) if at.after_stage else super().rotate(q, k, at)
