"""Probes of attention: how it changes as sequences grow, and whose attention is like whose.

All read the places i where the answer is predicted, with weights A_ij of keys j; encodings that compute their attention
themselves are left out where weights are needed.

``growth``, by layer, means over places and heads:

- ``entropy``: H(A_i)/ln(i + 1), 1 for uniform attention;
- ``largest_weight``: max_j A_ij (Veličković et al. 2024: it must fall as the sequence grows);
- ``output_std``: standard deviation over examples of each feature of the heads' outputs at one place, averaged over features
  and places that two examples have (arXiv 2504.02827: it falls with length);
- ``slope of x``: of ln x over ln T, least squares over the lengths from L on, T being tokens; −½ for the output of uniform
  attention.

``similarity`` (Kazemnejad et al. 2023), by layer, at L and 2 L, to the model of the same seed without encoding: the minimum
over pairs of heads, one of each model, of (1/rows) Σ JSD(P_row‖Q_row) on the same examples, in nats: 0 for equal attention, at
most ln 2. The published code (``src/analyzers/attention_kl_analyzer.py``) compares only heads i < j, and its ``KLDivLoss(log p,
m)`` computes KL(m‖p), so its numbers pass ln 2; here all pairs are compared, by JSD = H((P + Q)/2) − (H(P) + H(Q))/2.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bench.encodings import At, hooks
from bench.encodings.attention import masked_softmax, scores
from bench.training.model import Decoder

from .record import Value
from .subject import Subject, as_tokens, predicting, trained_subject

REFERENCE = "nope"
CELLS = 2**21
"""Largest number of tokens² of a batch, which bounds the memory."""
Look = Callable[[Int[Tensor, " R"], Float[Tensor, "R H T"] | None, Float[Tensor, "R H d"]], dict[str, Tensor]]
"""Name → numbers of R places, from their positions, weights and outputs."""


@torch.inference_mode()
def read_attention(
    model: Decoder, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None
) -> list[tuple[Float[Tensor, "B H T T"] | None, Float[Tensor, "B H T d"]]]:
    """For each layer: its attention A_ij = softmax(q·k/√d + bias) of query i and key j, None if the encoding computes its
    attention itself; and the heads' outputs, before they are mixed.

    Arguments:
        announced_length, generator: see ``Decoder.forward``.
    """
    found = []
    encoding, attend, own = model.encoding, model.encoding.attend, "attend" in hooks(type(model.encoding))

    def reading(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        out = attend(q, k, v, bias, at)
        found.append((None if own else masked_softmax(scores(q, k, encoding.setup), bias, at), out))
        return out

    model.eval()
    vars(encoding)["attend"] = reading  # an instance's attribute has precedence over its class's method
    try:
        model(tokens, announced_length, generator)
    finally:
        del vars(encoding)["attend"]
    return found


def at_places(subject: Subject, length: int, count: int, look: Look) -> dict[int, dict[str, Tensor]]:
    """Layer → what ``look`` returns of ``count`` examples of one length."""
    found: dict[int, list[dict[str, Tensor]]] = {}
    announced, generator = subject.context(length)
    examples = subject.examples(length, count)
    size = max(1, CELLS // examples.tokens.shape[1] ** 2)
    for start in range(0, count, size):
        part = examples.rows(slice(start, start + size))
        asked = predicting(part)
        for layer, (weights, output) in enumerate(read_attention(subject.model, as_tokens(part), announced, generator)):
            weights = None if weights is None else weights.transpose(1, 2)[asked]
            found.setdefault(layer, []).append(look(asked.nonzero()[:, 1], weights, output.transpose(1, 2)[asked]))
    return {layer: {name: torch.cat([part[name] for part in parts]) for name in parts[0]} for layer, parts in found.items()}


def growth(subject: Subject) -> list[Value]:
    """Means by length and layer, and their slopes past L."""
    values, points = [], dict[tuple[str, int], dict[int, float]]()
    for length in subject.lengths:
        for layer, places in at_places(subject, length, 16, spread).items():
            for quantity, value in summary(places).items():
                values.append(Value(quantity, value, length, layer))
                if length >= subject.run.train_length:
                    points.setdefault((quantity, layer), {})[subject.task.tokens(length)] = value
    return values + [Value(f"slope of {name}", slope(own), layer=layer) for (name, layer), own in points.items()]


def spread(place: Tensor, weights: Tensor | None, output: Tensor) -> dict[str, Tensor]:
    """What growth reads at every place."""
    found = {"place": place, "output": output}
    if weights is None:
        return found
    weights = weights.double()
    entropy = torch.special.entr(weights).sum(-1) / (place[:, None] + 1).clamp_min(2).log()
    return found | {"entropy": entropy, "largest_weight": weights.amax(-1)}


def summary(places: dict[str, Tensor]) -> dict[str, float]:
    """Quantity → mean over places and heads."""
    numbers = {name: places[name].mean().item() for name in ("entropy", "largest_weight") if name in places}
    output, place = places["output"].flatten(1), places["place"]
    spreads = [own.std(0).mean().item() for at in place.unique() if len(own := output[place == at]) > 1]
    return numbers | ({"output_std": fmean(spreads)} if spreads else {})


def slope(points: dict[int, float]) -> float | None:
    """Slope of ln y over ln x; None without two positive y."""
    logs = np.array([(math.log(x), math.log(y)) for x, y in points.items() if y > 0])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]) if len(logs) > 1 else None


def similarity(subject: Subject) -> list[Value]:
    """The divergence from the attention without encoding; nothing for that model itself, or without weights."""
    if subject.run.encoding == REFERENCE:
        return []
    other = trained_subject(replace(subject.run, encoding=REFERENCE), subject.out)
    return [
        Value("divergence", float(divergences(p, q).min()), length, layer, at=f"{REFERENCE} seed {subject.run.seed}")
        for length in dict.fromkeys((subject.run.train_length, subject.past))
        for layer, (p, q) in enumerate(zip(read_rows(subject, length), read_rows(other, length), strict=False))
    ]


def read_rows(subject: Subject, length: int) -> list[Float[Tensor, "R H T"]]:
    """The attention of each layer at the asked places; empty if a layer has no weights."""

    def look(place: Tensor, weights: Tensor | None, output: Tensor) -> dict[str, Tensor]:
        return {} if weights is None else {"rows": weights.double()}

    layers = at_places(subject, length, 10, look).values()
    return [layer["rows"] for layer in layers] if all(layers) else []


def divergences(p: Float[Tensor, "R H T"], q: Float[Tensor, "R G T"]) -> Float[Tensor, "H G"]:
    """Mean Jensen–Shannon divergence of the rows of every pair of heads, in nats."""

    def entropy(x: Tensor) -> Tensor:
        return torch.special.entr(x).sum(-1).mean(0)

    middle = torch.stack([entropy((p[:, [h]] + q) / 2) for h in range(p.shape[1])])
    return (middle - (entropy(p)[:, None] + entropy(q)) / 2).clamp_min(0)
