"""No positional encoding: the causal mask is the only order signal."""

from .base import Encoding
from .bibliography import published


class NoPE(Encoding):
    """s_ij = q_i·k_j/√d. A decoder with ``<bos>`` and a causal mask can still infer positions (Kazemnejad et al. 2023)."""

    info = published(
        "nope",
        family="none",
        formula="s_ij = q_i·k_j/√d",
        past="unchanged: there are no positions",
        shift_invariant=True,
    )
