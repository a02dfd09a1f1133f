"""RoPE whose heads come in pairs: one with the real part of the rotated product, one with its imaginary part."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At
from .rope import RoPE, rotate_pairs


class RoPEPlusPlus(RoPE):
    """Heads 2n and 2n + 1 share the query, key and value of head 2n; in the second, the query is turned back by π/2."""

    info = replace(
        RoPE.info,
        name="rope_pp",
        title="Beyond Real: Imaginary Extension of Rotary Position Embeddings for Long-Context LLMs",
        authors="Liu, Song, Guo, Qiu",
        year=2025,
        link="https://arxiv.org/abs/2512.07525",
        formula="head pairs with one q, k, v: R(i)q·R(j)k and R(i)R(−π/2)q·R(j)k, as in `rope`",
        past="as `rope`",
        provenance="OpenMOSS/rope_pp, modeling_llama_rope_pp.py, imag_mode imag1 (as many attention heads as RoPE, half of the "
        "projections); here the projections of odd heads stay unused",
        source="official code",
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup, base=base)
        if setup.heads % 2:
            raise InputError(f"rope_pp needs an even number of heads, got {setup.heads}")

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos, sin = at.shared
        q, k = q[:, ::2], rotate_pairs(k[:, ::2], cos, sin)
        # cos(φ − π/2) = sin φ and sin(φ − π/2) = −cos φ
        q = torch.stack([rotate_pairs(q, cos, sin), rotate_pairs(q, sin, -cos)], 2).flatten(1, 2)
        return q, k.repeat_interleave(2, 1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        return super().attend(q, k, v[:, ::2].repeat_interleave(2, 1), bias, at)
