"""Alternating layers: most use RoPE on a local window, the others attend to all tokens without positions."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At, distances
from .rope import RoPE, rotate_pairs


class RoPENoPE(RoPE):
    """Every fourth layer (the last, if there are fewer) is NoPE over all keys; the others are RoPE over keys with i − j < w.

    w = L/2 by default. So RoPE never sees a distance it was not trained on; only the NoPE layers look further back.
    """

    info = replace(
        RoPE.info,
        name="rope_nope",
        title="Rope to Nope and Back Again: A New Hybrid Attention Strategy",
        authors="Yang, Venkitesh, Talupuru, Lin, Cairuz, Blunsom, Locatelli",
        year=2025,
        link="https://arxiv.org/abs/2501.18795",
        formula="`nope` in layers l with l + 1 divisible by 4, else `rope` over i − j < w = L/2",
        past="RoPE layers see no untrained distance; NoPE layers are unchanged",
        provenance="transformers' cohere2 (RNoPE-SWA, w = 4096); Llama 4's iRoPE has chunks and a temperature; w is our choice",
    )

    def __init__(self, setup, *, base: float = 10000.0, every: int = 4, window: int = 0):
        super().__init__(setup, base=base)
        if every < 1 or window < 0:
            raise InputError(f"rope_nope needs every ≥ 1 and window ≥ 0 (0 means L/2), got every {every} and window {window}")
        self.every = min(every, setup.layers)
        self.window = window or (setup.train_tokens + 1) // 2

    def is_nope(self, at: At) -> bool:
        return (at.layer + 1) % self.every == 0

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        outside = distances(at.positions) >= self.window
        return *super().prepare(at), -1e4 * outside.float().unsqueeze(-3)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos, sin, _ = at.shared
        return (q, k) if self.is_nope(at) else (rotate_pairs(q, cos, sin), rotate_pairs(k, cos, sin))

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B 1 T T"] | None:
        return None if self.is_nope(at) else at.shared[-1]
