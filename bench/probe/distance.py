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
from .subject import CELLS, Subject, as_tokens, batches, predicting

VERSION = 1
EXAMPLES = 8


def measure(subject: Subject) -> list[Value]:
    values = []
    for length in sorted({subject.train_length, subject.past, subject.task.longest}):
        examples = subject.examples(length, EXAMPLES)
        for (layer, quantity), by_place in distances(subject, examples, length).items():
            by_head = by_place.mean(0).tolist()
            values += [Value(quantity, value, length, layer, head) for head, value in enumerate(by_head)]
    return values


def distances(subject: Subject, examples: Examples, length: int) -> dict[tuple[int, str], Float[Tensor, "places H"]]:
    """(layer, quantity) → normalised distance of every asked query; without layers whose attention has no weights."""
    found: dict[tuple[int, str], list[Tensor]] = {}
    announced, generator = subject.context(length)
    for part in batches(examples, 2 * CELLS):  # in single precision, so twice as many as growth
        asked = predicting(part)

        def use(attention: Attention, asked: Tensor = asked) -> None:
            if attention.weights is None:
                return
            place = torch.arange(attention.weights.shape[-1])
            share = (place[:, None] - place) / (place[:, None] + 1)
            mean = (attention.weights * share).sum(-1) / attention.weights.sum(-1)
            peak = (place - attention.weights.argmax(-1)) / (place + 1)
            for quantity, by_place in (("peak_distance", peak), ("mean_distance", mean)):
                found.setdefault((attention.layer, quantity), []).append(by_place.transpose(1, 2)[asked])

        read_attention(subject.model, as_tokens(part), announced, generator, use)
    return {key: torch.cat(parts) for key, parts in found.items()}
