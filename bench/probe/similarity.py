"""Attention similarity (Kazemnejad et al. 2023): whose attention is like whose.

For each layer the minimum over pairs of heads, one of each model, of (1/rows) Σ JSD(P_row‖Q_row), over the rows where the
answer is predicted, on the same examples, in nats: 0 for equal attention, at most ln 2. The published code
(``src/analyzers/attention_kl_analyzer.py``) compares only heads i < j, and ``KLDivLoss(log p, m)`` computes KL(m‖p), so
that its numbers pass ln 2; here all pairs of heads are compared, by JSD = H((P + Q)/2) − (H(P) + H(Q))/2. The baseline is
another seed of the same encoding. Models of one seed share their first weights and are more alike.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .reading import Attention, read_attention
from .record import Value
from .subject import Subject, as_tokens, predicting

VERSION = 1
EXAMPLES = 10
PLACES = 128
"""Most places asked in one example, evenly spaced; a text has an answer token at every place."""
Rows = dict[int, list[Float[np.ndarray, "R H T"]]]
"""Length → the attention of each layer at the asked places."""


def read_rows(subject: Subject) -> Rows:
    """Attention at L and past it; a length is missing if the encoding's attention has no weights."""
    rows: Rows = {}
    for length in dict.fromkeys((subject.train_length, subject.past)):
        examples = subject.examples(length, EXAMPLES)
        asked, layers = predicting(examples, PLACES), list[np.ndarray]()

        def use(attention: Attention, asked: Tensor = asked, layers: list[np.ndarray] = layers) -> None:
            if attention.weights is not None:
                weights = attention.weights.transpose(1, 2)[asked].double().clamp_min(0)
                layers.append((weights / weights.sum(-1, keepdim=True)).numpy())

        read_attention(subject.model, as_tokens(examples), *subject.context(length), use)
        if len(layers) == len(subject.model.blocks):
            rows[length] = layers
    return rows


def compare(one: Rows, other: Rows, name: str) -> list[Value]:
    """The divergence of two models' attention, by length and layer; ``name`` is that of the other one."""
    return [
        Value("divergence", float(divergences(torch.from_numpy(p), torch.from_numpy(q)).min()), length, layer, at=name)
        for length in one
        if length in other
        for layer, (p, q) in enumerate(zip(one[length], other[length], strict=True))
    ]


def divergences(p: Float[Tensor, "R H T"], q: Float[Tensor, "R G T"]) -> Float[Tensor, "H G"]:
    """Mean Jensen–Shannon divergence of the rows of every pair of heads, in nats."""

    def entropy(x: Tensor) -> Tensor:
        return torch.special.entr(x).sum(-1).mean(0)

    middle = torch.stack([entropy((p[:, [h]] + q) / 2) for h in range(p.shape[1])])
    return (middle - (entropy(p)[:, None] + entropy(q)) / 2).clamp_min(0)
