"""Whether a published finding is reproduced: its claim as one test, its parts, and the verdict.

Means over seeds are compared with Welch's standard error and degrees of freedom, seeds that fail or succeed with exact tests.
The claim is tested as a whole: by the mean of its parts' differences, or, if its parts are not all differences, by the weakest
part (an intersection–union test). A single part refutes the claim only after Holm's correction for the number of parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, fisher_exact, t

from .finding import Expectation, Finding, Samples
from .outcome import Outcome
from .planned import ALPHA, LEAST_POWER

REPRODUCED, DIRECTION, NOT, OPEN = "reproduced", "direction only", "not reproduced", "inconclusive"
CANNOT, WITHDRAWN = "setting cannot test it", "withdrawn"
NOT_RUN, STALE = "not run", "not run since its rule changed"
RULES = {
    REPRODUCED: "the claim is significant at one-sided 2.5 %, every part is on its side, and no published difference is "
    "further away than the tolerance",
    DIRECTION: "the same, but a published difference is further away than the tolerance",
    OPEN: "the claim is neither significant nor refuted",
    NOT: "the opposite of the claim, or of one part after Holm's correction, is significant at one-sided 2.5 %",
    CANNOT: f"the power that was planned before the runs is under {LEAST_POWER:.0%}",
    WITHDRAWN: "the rule was not fair to the claim",
}
"""Verdict → what it means, from best to worst."""


@dataclass(frozen=True)
class Part:
    """One comparison of the claim, from our runs."""

    text: str
    """Such as ``nope − rope > 0`` or ``nope > 0.95``."""
    estimate: float
    """Of the left side; NaN without runs."""
    half_width: float | None
    """Of the 95 % interval over seeds; None if there is none: a single seed, a bound, or an exact test."""
    published: float | None
    """The same number from the paper; None if it was not published."""
    holds: bool
    """Whether the estimate is on the side of the claim."""
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
    """Why it is withdrawn or cannot be tested."""


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
    if finding.planned and finding.planned.power < LEAST_POWER:
        return Judgement(CANNOT, why=f"power {finding.planned.power:.0%}: {finding.planned.source}")
    if outcome is None or outcome.rule != finding.rule:
        return Judgement(NOT_RUN if outcome is None else STALE)
    return judge(finding, outcome.samples)


def judge(finding: Finding, samples: Samples) -> Judgement:
    """The verdict on the numbers of our runs.

    Arguments:
        samples: see ``Finding.samples``; labels without a seed leave the claim inconclusive.
    """
    parts = [part for one in finding.expect for part in parts_of(finding, one, samples)]
    adjusted = holm([part.p_against for part in parts])
    differences = [pair for one in finding.expect for pair in pairs_of(one)]
    if len(differences) == len(parts) and finding.success is None:
        whole = contrast(mean_weights(differences), samples)
        bound = sum(bound for _, bound in differences) / len(parts)
        p, p_against = whole.p_above(bound), whole.p_below(bound)
    else:
        p, p_against = max(part.p for part in parts), min(adjusted)
    if min(p_against, *adjusted) <= ALPHA:
        verdict = NOT
    elif p <= ALPHA and all(part.holds for part in parts):
        verdict = REPRODUCED if all(is_near(part, finding.tolerance) for part in parts) else DIRECTION
    else:
        verdict = OPEN
    by_part = [
        NOT if against <= ALPHA else OPEN if part.p > ALPHA else REPRODUCED if is_near(part, finding.tolerance) else DIRECTION
        for part, against in zip(parts, adjusted, strict=True)
    ]
    return Judgement(verdict, [replace(part, verdict=own) for part, own in zip(parts, by_part, strict=True)], p)


def is_near(part: Part, tolerance: float) -> bool:
    """Whether a part's estimate is as near to the published one as it has to be."""
    return part.published is None or abs(part.estimate - part.published) <= tolerance


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, n in enumerate(sorted(range(len(ps)), key=lambda n: ps[n])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[n]))
        adjusted[n] = largest
    return adjusted


Weights = dict[str, float]


def pairs_of(expectation: Expectation) -> list[tuple[Weights, float]]:
    """Weights of each difference, and what it must exceed; a number moves to the other side. Empty unless ``more``."""

    def sides(side: list[str] | float) -> Sequence[str | float]:
        return side if isinstance(side, list) else [side]

    found = []
    for left, right in product(sides(expectation.more), sides(expectation.than)):
        weights = {x: sign for x, sign in ((left, 1.0), (right, -1.0)) if isinstance(x, str)}
        bound = expectation.by + (right if isinstance(right, float) else 0.0) - (left if isinstance(left, float) else 0.0)
        found.append((weights, bound))
    return found if not (expectation.same or expectation.at_most) else []


def mean_weights(differences: Sequence[tuple[Weights, float]]) -> Weights:
    """The weights of the mean of all differences."""
    total: Weights = {}
    for weights, _ in differences:
        for label, weight in weights.items():
            total[label] = total.get(label, 0.0) + weight / len(differences)
    return total


def parts_of(finding: Finding, expectation: Expectation, samples: Samples) -> list[Part]:
    numbers = finding.source.numbers
    if expectation.at_most:
        return [bound_part(label, bound, samples) for label, bound in expectation.at_most.items()]
    if expectation.same:
        (a, b), bound = expectation.same, expectation.within
        found, published = contrast({a: 1.0, b: -1.0}, samples), published_sum({a: 1.0, b: -1.0}, numbers)
        p = max(found.p_above(-bound), found.p_below(bound))
        against = min(1.0, 2 * min(found.p_above(bound), found.p_below(-bound)))
        holds = abs(found.estimate) <= bound
        return [Part(f"|{a} − {b}| ≤ {bound:g}", found.estimate, found.half_width, published, holds, p, against)]
    return [difference_part(weights, bound, finding, samples) for weights, bound in pairs_of(expectation)]


def difference_part(weights: Weights, bound: float, finding: Finding, samples: Samples) -> Part:
    """A difference of two means, or a mean, that must be above a bound. Readers see one mean as it is, not its negative."""
    found, published = contrast(weights, samples), published_sum(weights, finding.source.numbers)
    p, against = found.p_above(bound), found.p_below(bound)
    half_width, holds = found.half_width, found.estimate > bound
    if finding.success is not None:
        p, against = (counts_p(weights, bound, finding.success, samples, side) for side in ("greater", "less"))
        half_width = None
    labels = list(weights)
    if len(labels) == 2:
        text, sign = f"{labels[0]} − {labels[1]} > {bound:g}", 1.0
    else:
        sign = weights[labels[0]]
        text = f"{labels[0]} {'>' if sign > 0 else '<'} {sign * bound:g}"
    published = None if published is None else sign * published
    return Part(text, sign * found.estimate, half_width, published, holds, p, against)


def counts_p(weights: Weights, bound: float, success: float, samples: Samples, side: str) -> float:
    """Exact one-sided p of the seeds that succeed: Fisher's test of two labels, the binomial test of one against a share."""
    if not all(samples.get(label) for label in weights):
        return 1.0
    counts = {label: [sum(x >= success for x in samples[label].values()), len(samples[label])] for label in weights}
    rows = [[wins, seeds - wins] for wins, seeds in counts.values()]
    if len(rows) == 2:
        return float(fisher_exact(rows, alternative=side).pvalue)
    ((wins, seeds),) = counts.values()
    flipped = next(iter(weights.values())) < 0  # the share must be below the bound
    side = {"greater": "less", "less": "greater"}[side] if flipped else side
    return float(binomtest(wins, seeds, abs(bound), alternative=side).pvalue)


def bound_part(label: str, bound: float, samples: Samples) -> Part:
    """A number that no seed may exceed."""
    worst = max(samples.get(label, {}).values(), default=math.nan)
    p, against = (1.0, 1.0) if math.isnan(worst) else (0.0, 1.0) if worst <= bound else (1.0, 0.0)
    return Part(f"{label} ≤ {bound:g}, worst seed", worst, None, None, worst <= bound, p, against)


def published_sum(weights: Weights, numbers: Mapping[str, float]) -> float | None:
    return sum(weight * numbers[label] for label, weight in weights.items()) if weights.keys() <= numbers.keys() else None
