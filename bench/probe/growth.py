"""What changes in the attention as sequences grow, by layer, with the slope from L to the longest length.

At the places i where the answer is predicted, averaged over places and heads:

- ``entropy``: H(A_i)/ln(i + 1), 1 for uniform attention;
- ``largest_weight``: max_j A_ij (Veličković et al. 2024: it must fall as the sequence grows);
- ``first_token``: share of the heads whose mean weight of the first token is over .3 (attention sinks);
- ``logit_range``: largest minus smallest logit of the keys that i sees;
- ``output_std``: standard deviation over examples of each feature of the heads' outputs at one place, averaged over features
  and places that two examples have (arXiv 2504.02827: it falls with length).

``slope of x``: of ln x over ln T, least squares over the lengths from L on, T being tokens; −½ for the output of uniform
attention.
"""

import math
from statistics import fmean

import numpy as np
import torch

from .reading import Attention, read_attention
from .record import Value
from .subject import Subject, as_tokens, batches, predicting

VERSION = 2
EXAMPLES = 16
SINK = 0.3
MEANS = ("entropy", "largest_weight", "logit_range")
QUANTITIES = (*MEANS, "first_token", "output_std")


def measure(subject: Subject) -> list[Value]:
    values, tokens = list[Value](), dict[int, int]()
    for length in subject.lengths:
        tokens[length] = subject.task.tokens(length)
        for layer, numbers in by_layer(subject, length).items():
            values += [Value(quantity, value, length, layer) for quantity, value in numbers.items()]
    past = [length for length in subject.lengths if length >= subject.train_length]
    for layer in range(subject.run.suite.model.layers):
        for quantity in QUANTITIES:
            points = {v.length: v.value for v in values if (v.quantity, v.layer) == (quantity, layer) and v.length in past}
            values.append(Value(f"slope of {quantity}", slope([tokens[n] for n in points], list(points.values())), layer=layer))
    return values


def by_layer(subject: Subject, length: int) -> dict[int, dict[str, float]]:
    """Layer → quantity → its mean at one length."""
    found: dict[int, list[dict[str, torch.Tensor]]] = {}
    announced, generator = subject.context(length)
    for part in batches(subject.examples(length, EXAMPLES)):
        asked = predicting(part)

        def use(attention: Attention, asked: torch.Tensor = asked) -> None:
            found.setdefault(attention.layer, []).append(at_places(attention, asked))

        read_attention(subject.model, as_tokens(part), announced, generator, use)
    return {layer: summary({k: torch.cat([part[k] for part in parts]) for k in parts[0]}) for layer, parts in found.items()}


def at_places(attention: Attention, asked: torch.Tensor) -> dict[str, torch.Tensor]:
    """Each quantity at every asked place, [places, H, …], and the places."""
    found = {"output": attention.output.transpose(1, 2)[asked], "place": asked.nonzero()[:, 1]}
    if attention.weights is None or attention.logits is None:
        return found
    weights, logits = (x.transpose(1, 2)[asked].double() for x in (attention.weights, attention.logits))
    count = found["place"][:, None] + 1
    used = (logits > logits.amax(-1, keepdim=True) - 1e3) & (torch.arange(weights.shape[-1]) < count[..., None])
    return found | {
        "entropy": torch.special.entr(weights.clamp_min(0)).sum(-1) / count.clamp_min(2).log(),
        "largest_weight": weights.amax(-1),
        "first_weight": weights[..., 0],
        "logit_range": logits.amax(-1) - logits.masked_fill(~used, math.inf).amin(-1),
    }


def summary(places: dict[str, torch.Tensor]) -> dict[str, float]:
    """Quantity → mean over places and heads."""
    numbers = {name: places[name].mean().item() for name in MEANS if name in places}
    if "first_weight" in places:
        numbers["first_token"] = (places["first_weight"].mean(0) > SINK).double().mean().item()
    output, place = places["output"].flatten(1), places["place"]
    spreads = [own.std(0).mean().item() for at in place.unique() if len(own := output[place == at]) > 1]
    return numbers | ({"output_std": fmean(spreads)} if spreads else {})


def slope(x: list[float], y: list[float | None]) -> float | None:
    """Slope of ln y over ln x; None without two positive points."""
    points = np.array([(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if b and b > 0])
    return float(np.polyfit(points[:, 0], points[:, 1], 1)[0]) if len(points) > 1 else None
