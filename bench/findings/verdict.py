"""Whether a published finding is reproduced: its claim as one test, its parts, and the verdict.

Means over seeds are compared with Welch's standard error and degrees of freedom. The claim is tested as a whole, by the mean of
its parts' differences. A single part refutes the claim only after Holm's correction for the number of parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from .finding import ALPHA, Expectation, Finding, Outcome, Samples

REPRODUCED, DIRECTION, NOT, OPEN = "reproduced", "direction only", "not reproduced", "inconclusive"
WITHDRAWN, NOT_RUN, STALE = "withdrawn", "not run", "not run since its rule changed"
RULES = (REPRODUCED, DIRECTION, OPEN, NOT, WITHDRAWN)
"""Verdicts, from best to worst.

Reproduced: the claim is significant at one-sided 2.5 %, every part is on its side, and no published difference is further away
than the tolerance; otherwise, direction only. Not reproduced: the opposite of the claim, or of one part after Holm's
correction, is significant. Withdrawn: the rule was not fair to the claim.
"""


@dataclass(frozen=True)
class Part:
    """One comparison of the claim, from our runs."""

    text: str
    """Such as ``nope − rope > 0`` or ``nope > 0.95``."""
    estimate: float
    """Of the left side; NaN without runs."""
    half_width: float | None
    """Of the 95 % interval over seeds; None for a single seed."""
    published: float | None
    """The same number from the paper; None if it was not published."""
    holds: bool
    """Whether the estimate is on the side of the claim."""
    near: bool
    """Whether it is as near to the published number as it has to be."""
    p: float
    """One-sided: of such numbers if this part were false."""
    p_against: float
    """The same if it were true."""
    verdict: str = OPEN


@dataclass(frozen=True)
class Judgement:
    """The verdict on a finding."""

    verdict: str
    """One of ``RULES``, ``NOT_RUN`` or ``STALE``."""
    parts: Sequence[Part] = ()
    p: float = math.nan
    """One-sided, of the whole claim."""
    why: str = ""
    """Why it is withdrawn."""


class Contrast(NamedTuple):
    """A weighted sum of means over seeds."""

    estimate: float
    error: float
    """Standard error; NaN if a mean has fewer than two seeds."""
    df: float

    @property
    def half_width(self) -> float | None:
        """Of the 95 % interval; None if there is none."""
        return None if math.isnan(self.error) else float(t.ppf(1 - ALPHA, self.df)) * self.error

    def p_above(self, bound: float) -> float:
        """One-sided p of such an estimate or a larger one, if the truth is ``bound``."""
        if math.isnan(self.error) or math.isnan(self.estimate):
            return 1.0
        if self.error == 0:
            return float(self.estimate <= bound)
        return float(t.sf((self.estimate - bound) / self.error, self.df))

    def p_below(self, bound: float) -> float:
        return Contrast(-self.estimate, self.error, self.df).p_above(-bound)


def contrast(weights: Mapping[str, float], samples: Samples) -> Contrast:
    """Σ weight · mean over seeds, with Welch–Satterthwaite degrees of freedom."""
    values = {label: np.array(list(samples.get(label, {}).values()), float) for label in weights}
    if not all(len(x) for x in values.values()):
        return Contrast(math.nan, math.nan, math.nan)
    estimate = sum(weight * float(values[label].mean()) for label, weight in weights.items())
    if min(len(x) for x in values.values()) < 2:
        return Contrast(estimate, math.nan, math.nan)
    terms = {label: weight**2 * float(values[label].var(ddof=1)) / len(values[label]) for label, weight in weights.items()}
    total = sum(terms.values())
    freedom = sum(term**2 / (len(values[label]) - 1) for label, term in terms.items())
    return Contrast(estimate, math.sqrt(total), total**2 / freedom if freedom else math.inf)


def verdict_of(finding: Finding, outcome: Outcome | None) -> Judgement:
    """The verdict on a finding's outcome; without parts if there is none of the present rule."""
    if finding.withdrawn:
        return Judgement(WITHDRAWN, why=finding.withdrawn)
    if outcome is None or outcome.rule != finding.rule:
        return Judgement(NOT_RUN if outcome is None else STALE)
    return judge(finding, outcome.samples)


def judge(finding: Finding, samples: Samples) -> Judgement:
    """The verdict on the numbers of our runs.

    Arguments:
        samples: see ``Finding.samples``; labels without a seed leave the claim inconclusive.
    """
    differences = [pair for one in finding.expect for pair in pairs_of(one)]
    parts = [difference_part(weights, bound, finding, samples) for weights, bound in differences]
    adjusted = holm([part.p_against for part in parts])
    whole, bound = mean_of(differences)
    found = contrast(whole, samples)
    p, p_against = found.p_above(bound), min(found.p_below(bound), *adjusted)
    parts = [replace(one, verdict=verdict(one.p, against, [one])) for one, against in zip(parts, adjusted, strict=True)]
    return Judgement(verdict(p, p_against, parts), parts, p)


def verdict(p: float, p_against: float, parts: Sequence[Part]) -> str:
    """The verdict on a claim of some parts, from the p of the claim and of its opposite."""
    if p_against <= ALPHA:
        return NOT
    if p > ALPHA or not all(part.holds for part in parts):
        return OPEN
    return REPRODUCED if all(part.near for part in parts) else DIRECTION


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, n in enumerate(sorted(range(len(ps)), key=lambda n: ps[n])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[n]))
        adjusted[n] = largest
    return adjusted


Weights = dict[str, float]


def pairs_of(expectation: Expectation) -> list[tuple[Weights, float]]:
    """Weights of each difference, and what it must exceed; a number moves to the other side."""

    def sides(side: list[str] | float) -> Sequence[str | float]:
        return side if isinstance(side, list) else [side]

    found = []
    for left, right in product(sides(expectation.more), sides(expectation.than)):
        weights = {x: sign for x, sign in ((left, 1.0), (right, -1.0)) if isinstance(x, str)}
        bound = expectation.by + (right if isinstance(right, float) else 0.0) - (left if isinstance(left, float) else 0.0)
        found.append((weights, bound))
    return found


def mean_of(differences: Sequence[tuple[Weights, float]]) -> tuple[Weights, float]:
    """The weights of the mean of all differences, and what it must exceed."""
    total: Weights = {}
    for weights, _ in differences:
        for label, weight in weights.items():
            total[label] = total.get(label, 0.0) + weight / len(differences)
    return total, sum(bound for _, bound in differences) / len(differences)


def difference_part(weights: Weights, bound: float, finding: Finding, samples: Samples) -> Part:
    """A difference of two means, or a mean, that must be above a bound. Readers see one mean as it is, not its negative."""
    found, published = contrast(weights, samples), published_sum(weights, finding)
    near = published is None or abs(found.estimate - published) <= finding.tolerance
    first, *others = weights
    sign = 1.0 if others else weights[first]
    text = f"{first} − {others[0]} > {bound:g}" if others else f"{first} {'>' if sign > 0 else '<'} {sign * bound:g}"
    return Part(
        text,
        sign * found.estimate,
        found.half_width,
        None if published is None else sign * published,
        holds=found.estimate > bound,
        near=near,
        p=found.p_above(bound),
        p_against=found.p_below(bound),
    )


def published_sum(weights: Weights, finding: Finding) -> float | None:
    """The difference of published numbers; None if one was not published."""
    numbers = finding.source.numbers
    return sum(weight * numbers[label] for label, weight in weights.items()) if weights.keys() <= numbers.keys() else None
