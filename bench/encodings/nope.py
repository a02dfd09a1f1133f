"""No positional encoding: the causal mask is the only order signal."""

from .base import Encoding, Info


class NoPE(Encoding):
    """s_ij = q_i·k_j/√d. A decoder with ``<bos>`` and a causal mask can still infer positions (Kazemnejad et al. 2023)."""

    info = Info(
        name="nope",
        family="none",
        title="The Impact of Positional Encoding on Length Generalization in Transformers",
        authors="Kazemnejad, Padhi, Natesan Ramamurthy, Das, Reddy",
        year=2023,
        link="https://arxiv.org/abs/2305.19466",
        formula="s_ij = q_i·k_j/√d",
        past="unchanged: there are no positions",
        provenance="the paper's authors' code, McGill-NLP/length-generalization, type `none`",
        source="official code",
        shift_invariant=True,
    )
