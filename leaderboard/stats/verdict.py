"""Whether a published finding is reproduced: each part of its claim as a number with an interval, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from bench.findings.finding import Expectation, Finding, Samples

from .compare import welch
from .scores import mean_interval

Verdict = Literal["not reproduced", "not decided", "in order only", "reproduced"]
VERDICTS: Sequence[Verdict] = ("not reproduced", "not decided", "in order only", "reproduced")
"""From worst to best: a finding has the worst verdict of its parts."""
RULES = {
    "reproduced": "every part holds, and where numbers were published, differences are within the tolerance of them",
    "in order only": "every part holds, but a difference is further than the tolerance from the published one",
    "not decided": "the interval of some part contains both outcomes",
    "not reproduced": "the interval of some part excludes the claim",
}


@dataclass(frozen=True)
class Part:
    """One comparison of the claim, from our runs."""

    text: str
    """Such as ``nope − rope > 0`` or ``nope > 0.95``."""
    estimate: float
    """Of the left side."""
    half_width: float | None
    """Of the 95 % interval over seeds; None if there is none: a single seed, or a bound."""
    published: float | None
    """The same number from the paper; None if it was not published."""
    verdict: Verdict


def judge(finding: Finding, samples: Samples) -> tuple[Verdict, list[Part]]:
    """The verdict, and the parts of the claim it follows from.

    Differences of means over seeds have Welch's 95 % interval. "Reproduced" needs no correction for several parts, since the
    claim holds only if all parts do. "Not reproduced" needs one part ruled out, so its error grows with their number, by up to
    2.5 % each.

    Arguments:
        samples: see ``Finding.samples``; labels without a seed leave their parts undecided.
    """
    parts = [part for one in finding.expect for part in judge_one(finding, one, samples)]
    return min((part.verdict for part in parts), key=VERDICTS.index), parts


def judge_one(finding: Finding, expectation: Expectation, samples: Samples) -> list[Part]:
    def values(label: str) -> np.ndarray:
        return np.array(list(samples.get(label, {}).values()), float)

    if expectation.at_most:
        return [bound_part(label, bound, values(label)) for label, bound in expectation.at_most.items()]
    numbers = finding.source.numbers
    if expectation.same:
        a, b = expectation.same
        estimate, half = difference(values(a), values(b))
        verdict = within(estimate, half, expectation.within)
        text = f"|{a} − {b}| ≤ {expectation.within:g}"
        return [Part(text, estimate, half, published_difference(numbers, a, b), verdict)]
    parts, by = [], expectation.by
    for left, right in product(as_list(expectation.more), as_list(expectation.than)):
        estimate, half = difference(*(x if isinstance(x, float) else values(x) for x in (left, right)))
        published = published_difference(numbers, left, right)
        verdict, text = above(estimate, half, by, published, finding.tolerance), f"{left} − {right} > {by:g}"
        # Next to a number, readers see the mean, not the difference.
        if isinstance(left, float):
            text, estimate, published = f"{right} < {left - by:g}", left - estimate, numbers.get(str(right))
        elif isinstance(right, float):
            text, estimate, published = f"{left} > {right + by:g}", estimate + right, numbers.get(left)
        parts.append(Part(text, estimate, half, published, verdict))
    return parts


def as_list(side: list[str] | float) -> list[str | float]:
    return [*side] if isinstance(side, list) else [side]


def published_difference(numbers: dict[str, float], a: str | float, b: str | float) -> float | None:
    first, second = (x if isinstance(x, float) else numbers.get(x) for x in (a, b))
    return None if first is None or second is None else first - second


def difference(a: np.ndarray | float, b: np.ndarray | float) -> tuple[float, float | None]:
    """Mean of ``a`` minus mean of ``b``, and the half-width of its interval; a float is a known number.

    NaN without values, and where a value is NaN.
    """
    if isinstance(a, float):
        estimate, half = difference(b, a)
        return -estimate, half
    if not len(a) or (isinstance(b, np.ndarray) and not len(b)):
        return math.nan, None
    if isinstance(b, float):
        mean, half = mean_interval(a)
        return mean - b, half
    return welch(a, b)


def above(estimate: float, half: float | None, bound: float, published: float | None, tolerance: float) -> Verdict:
    """The verdict on a difference that must be larger than ``bound``, by its interval."""
    if half is None or not math.isfinite(estimate):
        return "not decided"
    if estimate - half > bound:
        return "reproduced" if published is None or abs(estimate - published) <= tolerance else "in order only"
    return "not reproduced" if estimate + half <= bound else "not decided"


def within(estimate: float, half: float | None, bound: float) -> Verdict:
    """The verdict on a difference that must not be larger than ``bound``, by its interval (as two one-sided tests)."""
    if half is None or not math.isfinite(estimate):
        return "not decided"
    if abs(estimate) + half <= bound:
        return "reproduced"
    return "not reproduced" if abs(estimate) - half > bound else "not decided"


def bound_part(label: str, bound: float, values: np.ndarray) -> Part:
    """A number that no seed may exceed."""
    worst = float(values.max()) if len(values) else math.nan
    verdict: Verdict = "not decided" if math.isnan(worst) else "reproduced" if worst <= bound else "not reproduced"
    return Part(f"{label} ≤ {bound:g}, worst seed", worst, None, None, verdict)
