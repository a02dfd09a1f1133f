"""Whether a published finding is reproduced: its claim as one test, its parts, and the verdict.

Numbers of one seed are compared with each other, since all encodings meet the same data and recipe there: a claim is tested by
the one-sample t-test of the seeds' differences. It is tested as a whole, by the mean of its parts' differences. A single part
refutes it only after Holm's correction for the number of parts, which the verdicts on parts have too. Outcomes of 0 and 1 are
tested exactly, by Fisher's test or the binomial one; then every part must be significant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import scipy  # its submodules are loaded when they are used

from .finding import ALPHA, Expectation, Finding, Outcome, Samples
from .reading import Measure

REPRODUCED, DIRECTION, NOT, OPEN = "reproduced", "direction only", "not reproduced", "inconclusive"
CANNOT, NOT_RUN, STALE = "setting cannot test it", "not run", "not run since its rule changed"
RULES = (REPRODUCED, DIRECTION, NOT, CANNOT, OPEN, NOT_RUN, STALE)
"""Verdicts, in the order of the page.

Reproduced: the claim is significant at one-sided 2.5 %, every difference is as large as the claim says, and no published one is
further away than the tolerance; if every difference is at least on its side, direction only. Not reproduced: the whole claim is
significantly smaller than it says, or one part is, after Holm's correction. Setting cannot test it: not significant, and what
was known before the runs promised no more. Inconclusive: none of these.
"""
POWER, FLOOR = 0.8, 0.05
"""Least planned power; accuracy over guessing below which all earlier runs are too bad to show a difference."""


@dataclass(frozen=True)
class Part:
    """One comparison of the claim, or all of them as one, from our runs."""

    text: str
    """Such as ``nope − rope > 0`` or ``nope > 0.95``."""
    estimate: float
    """Of the left side; NaN without runs."""
    half_width: float | None
    """Of the 95 % interval over seeds; None for a single seed, and for outcomes of 0 and 1."""
    published: float | None
    """The same number from the paper; None if it was not published."""
    bound: float
    """What the left side is compared with."""
    on_side: bool
    """Whether the estimate is on the side of the claim."""
    near: bool
    """Whether it is large enough, and as near to the published number as it has to be."""
    p: float
    """One-sided: of such numbers if this part were false."""
    p_against: float
    """The same if it were true."""
    verdict: str = OPEN


@dataclass(frozen=True)
class Judgement:
    """The verdict on a finding."""

    verdict: str
    """One of ``RULES``."""
    parts: Sequence[Part]
    whole: Part
    """The whole claim, by the mean of all differences."""
    why: str = ""
    """Why it is not reproduced, in a few words."""


class Difference(NamedTuple):
    """A weighted sum of numbers that must be above a bound, by a margin to count."""

    weights: dict[str, float]
    bound: float
    by: float

    def values(self, samples: Samples) -> list[float]:
        """Its value for each seed that all its labels have."""
        seeds = set.intersection(*(set(samples.get(label, {})) for label in self.weights))
        return [sum(weight * samples[label][seed] for label, weight in self.weights.items()) for seed in sorted(seeds)]

    def of(self, means: Mapping[str, float]) -> float | None:
        """Its value for one number a label; None if a label has none."""
        known = self.weights.keys() <= means.keys()
        return sum(weight * means[label] for label, weight in self.weights.items()) if known else None


def p_above(values: Sequence[float], bound: float) -> float:
    """One-sided p of the t-test that the mean is above a bound; 1 without two values."""
    if len(values) < 2:
        return 1.0
    distance, error = fmean(values) - bound, stdev(values) / math.sqrt(len(values))
    return float(scipy.stats.t.sf(distance / error, len(values) - 1)) if error else float(distance <= 0)


def exact_p(difference: Difference, samples: Samples, claim: bool) -> float:
    """One-sided p of a part about outcomes of 0 and 1, or of its opposite: binomial for one label, Fisher's for two."""
    found = [[*samples.get(label, {}).values()] for label in difference.weights]
    if not all(found):
        return 1.0
    side = "greater" if claim == (next(iter(difference.weights.values())) > 0) else "less"
    solved = [round(sum(own)) for own in found]
    if len(found) == 1:
        return float(scipy.stats.binomtest(solved[0], len(found[0]), abs(difference.bound), side).pvalue)
    return float(scipy.stats.fisher_exact([solved, [len(own) - k for own, k in zip(found, solved, strict=True)]], side).pvalue)


def verdict_of(finding: Finding, outcome: Outcome | None) -> Judgement:
    """The verdict on a finding's outcome; without numbers of ours if there is none of the present rule."""
    run = outcome is not None and outcome.rule == finding.rule
    found, cannot = judge(finding, outcome.samples if outcome and run else {}), untestable(finding)
    if cannot and (not run or found.verdict == OPEN):
        return replace(found, verdict=CANNOT, why=cannot)
    if not run:
        return replace(found, verdict=STALE if outcome else NOT_RUN, why=f"needs {finding.minutes:g} core-minutes")
    return replace(found, why="" if found.verdict == REPRODUCED else finding.why_not)


def untestable(finding: Finding) -> str:
    """Why the setting cannot test the claim, from what was known before the runs; empty if it can, or if nothing was known."""
    if finding.plan is None:
        return ""
    if finding.plan.power < POWER:
        return f"planned power {finding.plan.power:.0%}"
    accuracies = all(isinstance(one, Measure) and one.score != "bits" for one in finding.measures.values())
    low = all(number < FLOOR for own in finding.plan.numbers.values() for number in own)
    return "all earlier runs guess" if accuracies and low and finding.plan.numbers else ""


def judge(finding: Finding, samples: Samples) -> Judgement:
    """The verdict on the numbers of our runs.

    Arguments:
        samples: see ``Finding.samples``; labels without a seed leave the claim inconclusive.
    """
    differences = [one for expectation in finding.expect for one in differences_of(expectation)]
    parts = [part_of(one, finding, samples) for one in differences]
    claimed, adjusted = holm([part.p for part in parts]), holm([part.p_against for part in parts])
    parts = [replace(one, verdict=verdict(p, q, [one])) for one, p, q in zip(parts, claimed, adjusted, strict=True)]
    if len(parts) == 1:
        return Judgement(parts[0].verdict, parts, parts[0])
    whole = part_of(mean_of(differences), finding, samples, f"mean of {len(parts)} differences")
    if finding.exact:
        whole = replace(whole, p=max(part.p for part in parts), p_against=1.0)
    whole = replace(whole, verdict=verdict(whole.p, min(whole.p_against, *adjusted), parts))
    return Judgement(whole.verdict, parts, whole)


def verdict(p: float, p_against: float, parts: Sequence[Part]) -> str:
    """The verdict on a claim of some parts, from the p of the claim and of its opposite."""
    if p <= ALPHA and all(part.on_side for part in parts):
        return REPRODUCED if all(part.near for part in parts) else DIRECTION
    return NOT if p_against <= ALPHA else OPEN


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given."""
    order = np.argsort(ps)
    adjusted = np.maximum.accumulate(np.minimum(1, np.array(ps)[order] * np.arange(len(ps), 0, -1)))
    return adjusted[order.argsort()].tolist()


def differences_of(expectation: Expectation) -> list[Difference]:
    """Each difference of an expectation; a number moves to the other side."""
    sides = (side if isinstance(side, list) else [side] for side in (expectation.more, expectation.than))
    found = []
    for left, right in product(*sides):
        weights = {x: sign for x, sign in ((left, 1.0), (right, -1.0)) if isinstance(x, str)}
        bound = (right if isinstance(right, float) else 0.0) - (left if isinstance(left, float) else 0.0)
        found.append(Difference(weights, bound, expectation.by))
    return found


def mean_of(differences: Sequence[Difference]) -> Difference:
    """The mean of all differences."""
    total: dict[str, float] = {}
    for one in differences:
        for label, weight in one.weights.items():
            total[label] = total.get(label, 0.0) + weight / len(differences)
    return Difference(total, fmean(one.bound for one in differences), fmean(one.by for one in differences))


def part_of(one: Difference, finding: Finding, samples: Samples, text: str = "") -> Part:
    """One difference in our runs. Readers see a single mean as it is, not its negative."""
    values, published = one.values(samples), one.of(finding.source.published)
    estimate = fmean(values) if values else math.nan
    p, p_against = p_above(values, one.bound), p_above([-x for x in values], -one.bound - one.by)
    half_width = None
    if len(values) > 1 and not finding.exact:
        half_width = float(scipy.stats.t.ppf(1 - ALPHA, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    if finding.exact and not text:
        p, p_against = exact_p(one, samples, True), exact_p(one, samples, False)
    first, *others = one.weights
    sign = 1.0 if others else one.weights[first]
    alone = f"{first} {'>' if sign > 0 else '<'} {sign * one.bound + 0.0:g}"  # 0.0 turns −0 into 0
    named = f"{first} − {others[0]} > {one.bound:g}" if others else alone
    return Part(
        text or named,
        sign * estimate,
        half_width,
        None if published is None else sign * published,
        sign * one.bound,
        on_side=estimate > one.bound,
        near=estimate >= one.bound + one.by and (published is None or abs(estimate - published) <= finding.tolerance),
        p=p,
        p_against=p_against,
    )


def comparison(finding: Finding, judged: Judgement) -> str:
    """The published number, ours, and both settings, on one line."""
    whole, ours = judged.whole, "not run"
    theirs = "an order" if whole.published is None else f"{whole.published:.2g}"
    if not math.isnan(whole.estimate):
        half = "" if whole.half_width is None else f" ± {whole.half_width:.2g}"
        ours = f"{whole.estimate:.2g}{half}, p {f'{whole.p:.1g}' if whole.p > 1e-16 else 'below 1e-16'}"
    return f"Published {theirs} ({finding.source.setting}); ours {ours} ({'; '.join(finding.differences)})"
