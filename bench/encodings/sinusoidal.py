"""Fixed sinusoids, added to the token embeddings."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .base import At, Encoding, Info


def sinusoids(ids: Int[Tensor, "*B T"], width: int, base: float = 10000.0) -> Float[Tensor, "*B T width"]:
    """PE(p, 2t) = sin(p/base^(2t/width)), PE(p, 2t+1) = cos(same), interleaved (Vaswani et al. 2017, section 3.5)."""
    rates = base ** -(torch.arange(0, width, 2, device=ids.device, dtype=torch.float64) / width)
    angles = ids[..., None].double() * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).float()


class Sinusoidal(Encoding):
    """x_p = tok_p + PE(p) at the input of the first layer. PE has amplitude 1; our token embeddings have unit variance."""

    info = Info(
        name="sinusoidal",
        family="absolute",
        title="Attention Is All You Need",
        authors="Vaswani et al.",
        year=2017,
        link="https://arxiv.org/abs/1706.03762",
        formula="x_p = tok_p + PE(p), PE(p, 2t) = sin(p·10000^(−2t/D)), PE(p, 2t+1) = cos(p·10000^(−2t/D))",
        past="defined, but with untrained combinations of phases",
        provenance="the paper, without its factor √D on token embeddings: ours are initialised with unit variance; compared "
        "with kimiyoung/transformer-xl, whose sines come first",
        source="port",
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

    info = replace(
        Sinusoidal.info,
        name="sinusoidal_every_layer",
        title="Universal Transformers",
        authors="Dehghani, Gouws, Vinyals, Uszkoreit, Kaiser",
        year=2019,
        link="https://arxiv.org/abs/1807.03819",
        formula="x_p += PE(p) before each layer, PE(p, 2t) = sin(p·10000^(−2t/D)), PE(p, 2t+1) = cos(p·10000^(−2t/D))",
        provenance="tensor2tensor, universal_transformer_util.py, step_preprocess (read, not run), without its signal for the "
        "depth; PE as in `sinusoidal`, where tensor2tensor divides by D/2 − 1 in the exponent",
        source="second-hand",
    )

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + at.shared
