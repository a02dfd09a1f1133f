"""Comparison of submitted results with recomputed ones: bit for bit on equal machines, else by one test over all of them.

On another machine, the same seed trains differently, at most as differently as another seed would. How much seeds differ is
taken from the board, never from the submission: a test whose variance its author can choose shows nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.stats import fisher_exact

from bench.result import Result

OUTCOME = ("status", "steps", "longest_seen", "parameters", "loss", "scores")
"""Fields that training and test determine; another check covers those of the data."""
ALPHA = 0.01
"""Family-wise error rate of the comparisons of one check (Bonferroni)."""
DRAWS = 20_000
FEWEST = 5
"""Encodings with several seeds that the board must have."""
MOST_FLIPS = 14
"""Up to so many differences, all choices of their signs are tried."""
EARLY, EARLY_GPU = 1e-3, 0.02
"""Largest relative difference of two first logged losses of one seed on two machines, and if one names a GPU, which computes
in bf16; see RULES.md."""


@dataclass(frozen=True)
class ClaimComparison:
    """A number as submitted, and as recomputed."""

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


def compared_score(runs: Sequence[Result]) -> str:
    """The score that tells runs apart: exact match, or token accuracy if no answer of these runs is right as a whole."""
    return "exact" if any(s.exact for run in runs for s in run.scores) else "token"


def mean_score(run: Result, score: str) -> tuple[float, float]:
    """Mean of a score over l ≤ L, and over l > L."""
    parts = (run.in_distribution, run.out_of_distribution)
    inside, outside = (float(np.mean([getattr(s, score) for s in part])) for part in parts)
    return inside, outside


def other_early_loss(one: Result, other: Result) -> bool:
    """Whether the first logged losses differ by more than rounding: those of one seed come from the same weights and data."""
    losses = [run.loss[0][1] for run in (one, other) if run.loss]
    tolerance = EARLY if all(run.device.startswith("cpu") for run in (one, other)) else EARLY_GPU
    return len(losses) == 2 and abs(losses[0] - losses[1]) > tolerance * max(losses)


def joint_p(
    submitted: Sequence[Result],
    found: Sequence[Result],
    board: Sequence[Result],
    rng: np.random.Generator,
    score: str = "exact",
) -> tuple[float, str]:
    """p of all differences in a mean score together, and what it was compared with.

    The statistics are the size of the sum of the differences (results that are all too good) and the sum of their squares
    (results that have little to do with the found ones), each over l ≤ L and over l > L; p is Bonferroni's for the four. Their
    distribution: an encoding of the board is drawn, and for each run two of its seeds on that run's task. If the board has
    too few encodings with several seeds, the signs of the differences are drawn instead (Fisher 1935), which needs no variance
    but many runs, and only the sums are tested.

    Arguments:
        board: published results of built-in encodings, on this suite or those that are to represent it.
        score: see ``compared_score``.
    """
    differences = np.array([mean_score(a, score) for a in submitted]) - np.array([mean_score(b, score) for b in found])
    tasks = [run.task for run in submitted]
    several = several_seeds(board, set(tasks), score)
    if len(several) < FEWEST:
        count = len(differences)
        every = np.array(list(product((1, -1), repeat=count))) if count <= MOST_FLIPS else rng.choice((1, -1), (DRAWS, count))
        p = p_of(statistics(differences)[:2], statistics(every[..., None] * differences)[:, :2], count > MOST_FLIPS)
        return p, f"signs of {count} differences, since the board has {len(several)} encodings with several seeds"
    draws = [pair_differences(by_task, tasks, -(-DRAWS // len(several)), rng) for by_task in several]
    return p_of(statistics(differences), statistics(np.concatenate(draws)), True), f"seeds of {len(several)} encodings"


def several_seeds(board: Sequence[Result], tasks: set[str], score: str = "exact") -> list[dict[str, list[tuple[float, float]]]]:
    """Task → mean score of each seed, for each encoding (of each suite) with several seeds on all these tasks."""
    values: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for run in board:
        values.setdefault((run.fingerprint, run.encoding.name), {}).setdefault(run.task, []).append(mean_score(run, score))
    return [by_task for by_task in values.values() if all(len(by_task.get(task, ())) > 1 for task in tasks)]


def pair_differences(
    by_task: dict[str, list[tuple[float, float]]], tasks: Sequence[str], draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "N R 2"]:
    """Differences between two seeds of one encoding, drawn for each run."""
    found = []
    for task in tasks:
        seeds = np.array(by_task[task])
        one = rng.integers(len(seeds), size=draws)
        other = (one + rng.integers(1, len(seeds), size=draws)) % len(seeds)
        found.append(seeds[one] - seeds[other])
    return np.stack(found, 1)


def statistics(differences: Float[np.ndarray, "*N R 2"]) -> Float[np.ndarray, "*N 4"]:
    return np.concatenate([np.abs(differences.sum(-2)), (differences**2).sum(-2)], -1)


def p_of(found: Float[np.ndarray, " K"], null: Float[np.ndarray, "N K"], drawn: bool) -> float:
    """Smallest p, times their number. Draws count the observation itself (Davison & Hinkley 1997, section 4.2)."""
    at_least = (null >= found - 1e-12).sum(0)
    p = (at_least + 1) / (len(null) + 1) if drawn else at_least / len(null)
    return min(1.0, len(found) * float(p.min()))


def compare_by_examples(submitted: Result, found: Result) -> list[ClaimComparison]:
    """Compare one model on two sets of examples, at each length, by Fisher's exact test of right and wrong (two-sided)."""
    comparisons = []
    for ours, theirs in zip(submitted.scores, found.scores, strict=True):
        counts = [[right := round(s.exact * s.count), s.count - right] for s in (ours, theirs)]
        what = f"{submitted.task} seed {submitted.seed}, length {ours.length}"
        comparisons.append(ClaimComparison(what, ours.exact, theirs.exact, float(fisher_exact(counts).pvalue)))
    return comparisons


def significant(comparisons: Sequence[ClaimComparison]) -> list[str]:
    """The significant differences after Bonferroni's correction, greatest first."""
    count = len(comparisons)
    differences = sorted((c for c in comparisons if c.p * count <= ALPHA), key=lambda c: c.p)
    return [f"{c.what}: {c.submitted:.3f} submitted, {c.found:.3f} found (p = {c.p * count:.1g})" for c in differences]
