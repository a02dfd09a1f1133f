"""Do two results of one run agree? Bit for bit where the machines are alike, by a test that says what it can tell where not."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import fisher_exact
from scipy.stats import t as student

from bench.results import LengthScore, Result

OUTCOME = ("status", "steps", "longest_seen", "parameters", "loss", "scores")
ALPHA = 0.01
"""The most that the chance of a single false alarm among all comparisons of one check may be (Bonferroni)."""


@dataclass(frozen=True)
class Difference:
    """A number as submitted, and as it was found."""

    what: str
    submitted: float
    found: float
    p: float
    """Of so great a difference, if both are honest."""


def alike(one: Result, other: Result) -> bool:
    """Were they made where equal runs give equal bits: same device, by its name, same threads, torch and numpy?"""
    packages = ("torch", "numpy")
    return (one.device, one.threads) == (other.device, other.threads) and all(
        one.versions.get(name) == other.versions.get(name) for name in packages
    )


def differing(one: Result, other: Result, what: Sequence[str] = OUTCOME) -> list[str]:
    """In what two results of one run differ."""
    return [name for name in what if getattr(one, name) != getattr(other, name)]


def halves(run: Result) -> Iterator[tuple[str, list[LengthScore]]]:
    yield "l ≤ L", run.in_distribution
    yield "l > L", run.out_of_distribution


def by_spread(submitted: Result, found: Result, seeds: Sequence[Result], fresh: bool) -> list[Difference]:
    """Mean exact match over l ≤ L and over l > L: is the new run no further from the submitted one than seeds are apart?

    On another machine the same seed takes another course, as another seed would. So the difference has twice the variance of a
    run, which is estimated from the submitted seeds: two-sided t test with their degrees of freedom. Where they all agree, the
    sampling error of the test examples stands in for it; it is added where the test examples are ``fresh``. Few seeds tell
    great differences only.

    Arguments:
        seeds: all submitted runs of that task, two or more.
    """
    tests = []
    for (where, ours), (_, theirs) in zip(halves(submitted), halves(found), strict=True):
        means = [np.mean([s.exact for s in part]) for run in seeds for w, part in halves(run) if w == where]
        sampling = sum(sampling_variance(s) for s in ours) / len(ours) ** 2
        variance = max(float(np.var(means, ddof=1)), sampling) + (sampling if fresh else 0)
        a, b = (float(np.mean([s.exact for s in part])) for part in (ours, theirs))
        p = 2 * float(student.sf(abs(a - b) / math.sqrt(2 * variance), len(means) - 1))
        tests.append(Difference(f"{submitted.task} seed {submitted.seed}, {where}", a, b, p))
    return tests


def sampling_variance(score: LengthScore) -> float:
    """Of a share of so many examples; never zero (Agresti & Coull 1998 add two of each kind)."""
    share = (score.exact * score.count + 2) / (score.count + 4)
    return share * (1 - share) / score.count


def by_examples(submitted: Result, found: Result) -> list[Difference]:
    """The same model on two sets of examples, at each length: Fisher's exact test of right and wrong ones, two-sided."""
    tests = []
    for ours, theirs in zip(submitted.scores, found.scores, strict=True):
        counts = [[right := round(s.exact * s.count), s.count - right] for s in (ours, theirs)]
        p = float(fisher_exact(counts).pvalue)
        tests.append(Difference(f"{submitted.task} seed {submitted.seed}, length {ours.length}", ours.exact, theirs.exact, p))
    return tests


def told(tests: Sequence[Difference]) -> list[str]:
    """The differences that are too great, after Bonferroni's correction, the greatest first."""
    great = sorted((d for d in tests if d.p * len(tests) <= ALPHA), key=lambda d: d.p)
    return [f"{d.what}: {d.submitted:.3f} submitted, {d.found:.3f} found (p = {d.p * len(tests):.1g})" for d in great]
