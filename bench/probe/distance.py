"""Attention distance (Kazemnejad et al. 2023, ``src/analyzers/attention_aggregate_analyzer.py``): how far back each head looks.

At the places i where the answer is predicted: (i − argmax_j A_ij)/(i + 1), and the mean distance Σ_j A_ij (i − j)/(i + 1), over
Σ_j A_ij where weights do not sum to 1, by layer and head, at L, at 2 L and at the longest length. 0 is the token itself;
``<bos>`` is at i/(i + 1).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import Examples

from .reading import Attention, read_attention
from .record import Value
from .subject import Subject, as_tokens, predicting

VERSION = 1
EXAMPLES = 8


def measure(subject: Subject) -> list[Value]:
    values = []
    for length in sorted({subject.train_length, subject.past, subject.task.longest}):
        examples = subject.examples(length, EXAMPLES)
        asked = predicting(examples)
        for layer, found in distances(subject, examples, length).items():
            for quantity, by_place in found.items():
                by_head = by_place.transpose(1, 2)[asked].mean(0).tolist()
                values += [Value(quantity, value, length, layer, head) for head, value in enumerate(by_head)]
    return values


def distances(subject: Subject, examples: Examples, length: int) -> dict[int, dict[str, Float[Tensor, "B H T"]]]:
    """Layer → quantity → normalised distance of every query; without layers whose attention has no weights."""
    found: dict[int, dict[str, Tensor]] = {}

    def use(attention: Attention) -> None:
        if attention.weights is None:
            return
        count = attention.weights.shape[-1]
        place = torch.arange(count)
        share = (place[:, None] - place) / (place[:, None] + 1)
        mean = (attention.weights * share).sum(-1) / attention.weights.sum(-1)
        peak = (place - attention.weights.argmax(-1)) / (place + 1)
        found[attention.layer] = {"peak_distance": peak, "mean_distance": mean}

    read_attention(subject.model, as_tokens(examples), *subject.context(length), use)
    return found
