"""Fixed sinusoids, added to the token embeddings."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .base import At, Encoding
from .bibliography import published


def sinusoids(ids: Int[Tensor, "*B T"], width: int, base: float = 10000.0) -> Float[Tensor, "*B T width"]:
    """PE(p, 2t) = sin(p/base^(2t/width)), PE(p, 2t+1) = cos(same), interleaved (Vaswani et al. 2017, section 3.5)."""
    rates = base ** -(torch.arange(0, width, 2, device=ids.device, dtype=torch.float64) / width)
    angles = ids[..., None].double() * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).float()


class Sinusoidal(Encoding):
    """x_p = tok_p + PE(p) at the input of the first layer. PE has amplitude 1; our token embeddings have unit variance."""

    info = published(
        "sinusoidal",
        family="absolute",
        formula="x_p = tok_p + PE(p), PE(p, 2t) = sin(p·10000^(−2t/D)), PE(p, 2t+1) = cos(p·10000^(−2t/D))",
        past="defined, but with untrained combinations of phases",
        lengths="base 10000, as published",
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        self.base = base

    def prepare(self, at: At) -> Float[Tensor, "*B T D"]:
        return sinusoids(at.positions, self.setup.width, self.base)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + at.shared if at.layer == 0 else x


class SinusoidalEveryLayer(Sinusoidal):
    """Adds PE(p) to the residual stream at the input of every layer; layer l sees it l + 1 times."""

    info = published(
        "sinusoidal_every_layer",
        like=Sinusoidal.info,
        formula="x_p += PE(p) before each layer, PE(p, 2t) = sin(p·10000^(−2t/D)), PE(p, 2t+1) = cos(p·10000^(−2t/D))",
    )

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + at.shared
