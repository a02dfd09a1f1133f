"""Comparison of two results of one run: bit for bit on equal machines, else by a statistical test."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import fisher_exact
from scipy.stats import t as student

from bench.result import LengthScore, Result

OUTCOME = ("status", "steps", "longest_seen", "parameters", "loss", "scores")
ALPHA = 0.01
"""Family-wise error rate of the comparisons of one check (Bonferroni)."""


@dataclass(frozen=True)
class Comparison:
    """A number as submitted, and as reproduced."""

    what: str
    submitted: float
    found: float
    p: float
    """Probability of a difference at least as great if both are honest."""


def same_environment(one: Result, other: Result) -> bool:
    """Whether equal runs must give equal bits: same name of the device, same threads, torch and numpy."""
    packages = ("torch", "numpy")
    return (one.device, one.threads) == (other.device, other.threads) and all(
        one.versions.get(name) == other.versions.get(name) for name in packages
    )


def differing_fields(one: Result, other: Result, fields: Sequence[str] = OUTCOME) -> list[str]:
    """Fields in which two results differ; log-likelihoods may differ by rounding, because tests reveal one token at a time."""

    def value(result: Result, name: str) -> object:
        return [s.model_copy(update={"nll": None}) for s in result.scores] if name == "scores" else getattr(result, name)

    found = [name for name in fields if value(one, name) != value(other, name)]
    if "scores" in fields and "scores" not in found:
        pairs = [(a.nll, b.nll) for a, b in zip(one.scores, other.scores, strict=True)]
        alike = [
            a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)) for a, b in pairs
        ]
        found += [] if all(alike) else ["scores"]
    return found


def score_groups(run: Result) -> Iterator[tuple[str, list[LengthScore]]]:
    yield "l ≤ L", run.in_distribution
    yield "l > L", run.out_of_distribution


def compare_by_seeds(submitted: Result, found: Result, seeds: Sequence[Result], fresh: bool) -> list[Comparison]:
    """Compare mean exact match over l ≤ L and over l > L by a two-sided t test with the submitted seeds' variance.

    On another machine the same seed trains differently, as another seed would. So the difference has twice the variance of a
    run, which is estimated from the submitted seeds, with their degrees of freedom. If all seeds agree, the sampling error of
    the test examples replaces this estimate; it is added if the test examples are ``fresh``. With few seeds only great
    differences are detected.

    Arguments:
        seeds: all submitted runs of that task, two or more.
    """
    comparisons = []
    for (where, ours), (_, theirs) in zip(score_groups(submitted), score_groups(found), strict=True):
        means = [np.mean([s.exact for s in scores]) for run in seeds for w, scores in score_groups(run) if w == where]
        sampling = sum(sampling_variance(s) for s in ours) / len(ours) ** 2
        variance = max(float(np.var(means, ddof=1)), sampling) + (sampling if fresh else 0)
        a, b = (float(np.mean([s.exact for s in scores])) for scores in (ours, theirs))
        p = 2 * float(student.sf(abs(a - b) / math.sqrt(2 * variance), len(means) - 1))
        comparisons.append(Comparison(f"{submitted.task} seed {submitted.seed}, {where}", a, b, p))
    return comparisons


def sampling_variance(score: LengthScore) -> float:
    """Variance of a share of so many examples; never zero (Agresti & Coull 1998 add two successes and two failures)."""
    share = (score.exact * score.count + 2) / (score.count + 4)
    return share * (1 - share) / score.count


def compare_by_examples(submitted: Result, found: Result) -> list[Comparison]:
    """Compare one model on two sets of examples, at each length, by Fisher's exact test of right and wrong (two-sided)."""
    comparisons = []
    for ours, theirs in zip(submitted.scores, found.scores, strict=True):
        counts = [[right := round(s.exact * s.count), s.count - right] for s in (ours, theirs)]
        what = f"{submitted.task} seed {submitted.seed}, length {ours.length}"
        comparisons.append(Comparison(what, ours.exact, theirs.exact, float(fisher_exact(counts).pvalue)))
    return comparisons


def significant(comparisons: Sequence[Comparison]) -> list[str]:
    """The significant differences after Bonferroni's correction, greatest first."""
    count = len(comparisons)
    differences = sorted((c for c in comparisons if c.p * count <= ALPHA), key=lambda c: c.p)
    return [f"{c.what}: {c.submitted:.3f} submitted, {c.found:.3f} found (p = {c.p * count:.1g})" for c in differences]
