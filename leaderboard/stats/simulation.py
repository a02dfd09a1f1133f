"""Errors and power of the separation test on simulated boards: ``python -m leaderboard.stats.simulation``.

A simulated run is a draw from the runs of one encoding on one task of a published board, moved to the mean that the case
requires. So spreads differ between encodings and tasks as they do there, and floors, ceilings and ties occur as often. The
table has the textbook's test too, for comparison. Shapes: E encodings, T tasks, S runs, P pairs of encodings.
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import combinations
from math import lcm
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import t as student
from tabulate import tabulate

from leaderboard import PUBLISHED
from leaderboard.data.store import published_grids
from tasks import InputError, unknown

from .rows import all_rows
from .scores import FUZZ, Scores
from .significance import ALPHA, separation_ps
from .summary import summarise

Population = Float[np.ndarray, "E T S"]
"""Scores that the runs of each encoding on each task are drawn from, all equally likely."""
Test = Callable[[Sequence[Scores]], Float[np.ndarray, " P"]]
"""Adjusted p of each pair of encodings."""
Case = Callable[[Population, np.random.Generator], Population]
"""Moves the encodings of a board to the means that are to be tested."""
Seeds = Callable[[Population, Test, np.random.Generator], list[Scores]]
"""Draws the runs of a board."""
BOARDS = 1000
FIRST, MORE = 5, 5
"""Seeds of all encodings, and further seeds of those not separated from the first."""


def welch_holm_ps(scores: Sequence[Scores]) -> Float[np.ndarray, " P"]:
    """Welch's t-test of the overall score for each pair, with Satterthwaite's degrees of freedom, and Holm's correction."""
    means = np.array([np.mean([task.mean() for task in tasks]) for tasks in scores])
    parts = np.array([[task.var(ddof=1) / len(task) for task in tasks] for tasks in scores])
    freedom = np.array([[len(task) - 1 for task in tasks] for tasks in scores])
    i, j = np.triu_indices(len(scores), 1)
    total, squares = parts.sum(1), (parts**2 / freedom).sum(1)
    total, squares = np.maximum(total[i] + total[j], FUZZ**2), np.maximum(squares[i] + squares[j], FUZZ**4)
    ps = 2 * student.sf(np.abs(means[i] - means[j]) * parts.shape[1] / np.sqrt(total), total**2 / squares)
    order, adjusted = np.argsort(ps, kind="stable"), np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(ps[order] * np.arange(len(ps), 0, -1))
    return adjusted


TESTS: dict[str, Test] = {
    "step-down maximum": lambda scores: separation_ps(scores, replicates=1000),
    "Holm, Welch's t": welch_holm_ps,
}


def all_alike(population: Population, rng: np.random.Generator) -> Population:
    """All encodings are one of the board's."""
    return np.broadcast_to(population[rng.integers(len(population))], population.shape)


def equal_means(population: Population, rng: np.random.Generator) -> Population:
    """The same mean for all encodings on every task, each with its own spread."""
    return population - population.mean(-1, keepdims=True) + 0.5


def groups_of_four(population: Population, rng: np.random.Generator) -> Population:
    """The same means in groups of four encodings, each with its own spread."""
    means = population.mean(-1, keepdims=True)[rng.permutation(len(population))].clip(0.3, 0.7)
    return population - population.mean(-1, keepdims=True) + means[np.arange(len(means)) // 4]


def as_published(population: Population, rng: np.random.Generator) -> Population:
    return population


CASES: Sequence[Case] = (all_alike, equal_means, groups_of_four, as_published)


def draw(population: Population, counts: Int[np.ndarray, " E"], rng: np.random.Generator) -> list[Scores]:
    """Runs of each encoding, ``counts`` of them on every task."""
    return [[rng.choice(task, count) for task in tasks] for tasks, count in zip(population, counts, strict=True)]


def alternating(*counts: int) -> Seeds:
    """Runs of a board whose encodings have the first number of seeds, the second, …, the first again."""

    def runs(population: Population, test: Test, rng: np.random.Generator) -> list[Scores]:
        return draw(population, np.resize(counts, len(population)), rng)

    return runs


def by_the_rule(population: Population, test: Test, rng: np.random.Generator) -> list[Scores]:
    """``FIRST`` for all, and ``MORE`` for the encodings not separated from the first."""
    count = len(population)
    runs, more = (draw(population, np.full(count, number), rng) for number in (FIRST, MORE))
    best = int(np.argmax([np.mean(tasks) for tasks in runs]))
    pairs = zip(combinations(range(count), 2), test(runs), strict=True)
    close = {best} | {i for pair, p in pairs if best in pair and p > ALPHA for i in pair}
    return [[np.append(*both) for both in zip(runs[i], more[i], strict=True)] if i in close else runs[i] for i in range(count)]


SEEDS: dict[str, Seeds] = {
    "3": alternating(3),
    "3 or 5, alternating": alternating(3, 5),
    "5": alternating(5),
    "10": alternating(10),
    "5 or 10, alternating": alternating(10, 5),
    "5, then the rule": by_the_rule,
}


def measure(case: Case, seeds: Seeds, test: Test, population: Population, boards: int) -> Float[np.ndarray, " 2"]:
    """Share of boards with a false separation, and share of the pairs with different means that are separated (NaN if none)."""
    rng, found = np.random.default_rng(0), np.zeros((boards, 2))
    first, second = np.triu_indices(len(population), 1)
    for board in range(boards):
        truth = np.clip(case(rng.permutation(population), rng), 0, 1)
        runs = seeds(truth, test, rng)
        observed = np.array([np.mean([task.mean() for task in tasks]) for tasks in runs])
        gap = np.round(truth.mean((1, 2))[first] - truth.mean((1, 2))[second], 9)
        rejected, right = test(runs) <= ALPHA, gap * (observed[first] - observed[second]) > 0
        different = (gap != 0).sum()
        found[board] = (rejected & ~right).any(), (rejected & right).sum() / different if different else np.nan
    separated = found[~np.isnan(found[:, 1]), 1]
    return np.array([found[:, 0].mean(), separated.mean() if len(separated) else np.nan])


def spread(runs: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Scores about the same mean, whose variance is what that of the runs estimates."""
    return runs.mean() + (runs - runs.mean()) * np.sqrt(len(runs) / (len(runs) - 1))


def published_population(folder: Path, suite: str, encodings: int | None) -> Population:
    """The scores of a published board, spread about their means as widely as the runs estimate.

    Arguments:
        encodings: how many, drawn from those of the board; None takes each once.
    """
    grids = published_grids(folder)
    if suite not in grids:
        raise unknown(f"suite published under {folder}", suite, grids)
    rows = [row for row in all_rows(summarise(grids[suite][0])) if row.interval]
    same = lcm(*(len(runs) for row in rows for runs in row.scores))  # each run of a cell as often as the others
    scores = np.array([[np.resize(spread(runs), same) for runs in row.scores] for row in rows])
    return scores if encodings is None else scores[np.random.default_rng(1).integers(len(scores), size=encodings)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors and power of the separation test on simulated boards.")
    parser.add_argument("--folder", type=Path, default=PUBLISHED, help="a leaderboard's folder")
    parser.add_argument("--suite", default="small")
    parser.add_argument("--boards", type=int, default=BOARDS, help="simulated boards of each case")
    parser.add_argument("--encodings", type=int, help="how many, drawn from the published ones [default: those]")
    args = parser.parse_args()
    try:
        population, lines = published_population(args.folder, args.suite, args.encodings), []
    except InputError as error:
        parser.error(str(error))
    for case in CASES:
        for name, seeds in SEEDS.items():
            found = [measure(case, seeds, test, population, args.boards) for test in TESTS.values()]
            numbers = [*(f"{100 * error:.1f}" for error, _ in found), *(f"{100 * power:.0f}" for _, power in found)]
            lines.append([case.__name__.replace("_", " "), name, *(number.replace("nan", "–") for number in numbers)])
    titles = [f"{what}, %: {test}" for what in ("boards with an error", "separated") for test in TESTS]
    print(tabulate(lines, ["encodings", "seeds", *titles], tablefmt="pipe", disable_numparse=True))


if __name__ == "__main__":
    main()
