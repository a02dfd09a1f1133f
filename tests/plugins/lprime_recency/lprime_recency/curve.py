"""How much a key of the past is favoured."""

from jaxtyping import Float
from torch import Tensor


def recency(distance: Float[Tensor, "*shape"], reach: float) -> Float[Tensor, "*shape"]:
    """1 at distance 0, ½ at ``reach``, towards 0 beyond."""
    return reach / (reach + distance)
