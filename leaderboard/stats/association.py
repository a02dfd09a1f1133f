"""Which numbers from inside the trained models go with the score past L, over encodings.

Exploratory: scores and probes were known when this was written; ``MEASURES`` and the test were committed before they were
computed. Shapes: E encodings, T tasks, M measures, B permutations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from bench.probe.record import ProbeRecord
from leaderboard.data.grid import Column, Grid, once_per_grid
from leaderboard.data.probes import lengths_of, mean

from .orders import kendall_tau
from .scores import FUZZ
from .significance import ALPHA
from .summary import summarise_cell

PERMUTATIONS = 9_999
CHUNK = 333
"""Permutations handled at once, which bounds the memory."""
LEAST = 5
"""Fewest encodings: four have so few orders that no p is below ``ALPHA``."""

Runs = Sequence[ProbeRecord]
"""Records of one probe, of all runs of one encoding on one task."""


class Measure(NamedTuple):
    """One number for each encoding and task."""

    probe: str
    about: str
    """What is measured, for readers."""
    says: str
    """What goes with a higher score; ``{}`` stands for more or less."""
    rising: Literal["more", "less"]
    """Which of the two, if the measure rises with the score."""
    value: Callable[[Runs], float | None]
    """None if the runs lack it."""
    where: str = ""
    """The lengths, where another measure says the same of other ones."""

    def finding(self, tau: float) -> str:
        """What goes with a higher score, given the measure's correlation with it."""
        return self.says.format("more" if (tau > 0) == (self.rising == "more") else "less")


def lowest_error(runs: Runs, length: int) -> float | None:
    """The position probe's error at the layer that shows positions best, as a share of chance."""
    layers = {v.layer for run in runs for v in run.of("error", length=length)}
    errors = [x for layer in layers if (x := mean(runs, "error", length=length, layer=layer)) is not None]
    chance = mean(runs, "chance", length=length)
    return min(errors) / chance if errors and chance else None


def change_of_distance(runs: Runs) -> float | None:
    """Of the normalised mean attention distance, from L to the longest length."""
    longest = max(lengths_of(runs, "mean_distance"), default=0)
    before, after = (mean(runs, "mean_distance", length=n) for n in (runs[0].train_length, longest))
    return None if before is None or after is None else after - before


MEASURES = {
    "position at L": Measure(
        "position",
        "error of the position read out of the best layer, as a share of chance, at L",
        "hidden states that show absolute positions {} exactly",
        "less",
        lambda runs: lowest_error(runs, runs[0].train_length),
        "at L",
    ),
    "position past L": Measure(
        "position",
        "error of the position read out of the best layer, as a share of chance, past L",
        "hidden states that show absolute positions {} exactly",
        "less",
        lambda runs: lowest_error(runs, max(lengths_of(runs, "error"), default=0)),
        "past L",
    ),
    "farther": Measure(
        "distance",
        "normalised mean attention distance at the longest length, less that at L",
        "heads that look back {} as sequences grow, as a share of their length",
        "more",
        change_of_distance,
    ),
    "first token": Measure(
        "growth",
        "share of heads whose mean weight of the first token is over .3, at L",
        "heads that attend to the first token {} often",
        "more",
        lambda runs: mean(runs, "first_token", length=runs[0].train_length),
    ),
    "entropy": Measure(
        "growth",
        "slope of the attention's entropy as a share of that of uniform attention",
        "attention that spreads {} as sequences grow",
        "more",
        lambda runs: mean(runs, "slope of entropy"),
    ),
    "largest weight": Measure(
        "growth",
        "slope of the largest attention weight",
        "a largest attention weight that falls {} as sequences grow",
        "less",
        lambda runs: mean(runs, "slope of largest_weight"),
    ),
    "output": Measure(
        "growth",
        "slope of the standard deviation of the heads' outputs",
        "outputs of heads whose spread falls {} as sequences grow",
        "less",
        lambda runs: mean(runs, "slope of output_std"),
    ),
}


class Check(NamedTuple):
    """The same without a group of encodings."""

    about: str
    """What they have."""
    left_out: tuple[str, ...]
    means: Float[np.ndarray, " M"]
    ps: Float[np.ndarray, " M"]


@dataclass(frozen=True)
class Association:
    """All measures against the score, over the encodings that have every measure on every task."""

    encodings: tuple[str, ...]
    """From the highest score down."""
    tasks: tuple[str, ...]
    values: Float[np.ndarray, "E T M"]
    """Measures in the order of ``MEASURES``."""
    scores: Float[np.ndarray, "E T"]
    """Mean score past L of the runs that were probed."""
    taus: Float[np.ndarray, "T M"]
    """``correlations`` of the two."""
    ps: Float[np.ndarray, " M"]
    """Adjusted for all measures."""
    checks: tuple[Check, ...] = ()
    """Without the encodings that add positions to the embedding, which the probe reads there; and without those that share the
    training of another one, which the test counts as different. Added after the first result was known."""

    @property
    def means(self) -> Float[np.ndarray, " M"]:
        """τ, mean over tasks."""
        return mean_tau(self.taus)

    @property
    def found(self) -> Mapping[str, float]:
        """Measure → its mean τ, of those that go with the score; strongest first."""
        named = zip(MEASURES, self.means.tolist(), self.ps, strict=True)
        return dict(sorted(((name, tau) for name, tau, p in named if p <= ALPHA), key=lambda one: -abs(one[1])))

    def of_measure(self, name: str) -> Float[np.ndarray, " E"]:
        """A measure of each encoding, mean over tasks."""
        return self.values[..., list(MEASURES).index(name)].mean(1)


@once_per_grid
def association(grid: Grid) -> Association | None:
    """The association over a grid's probes; None with fewer than ``LEAST`` encodings, or without a ranked task."""
    own: dict[tuple[str, str], dict[str, list[ProbeRecord]]] = {}
    for record in grid.probes:
        if record.values:
            own.setdefault((record.encoding, record.task), {}).setdefault(record.probe, []).append(record)
    rows: dict[str, list[tuple[list[float], float]]] = {}
    for name in dict.fromkeys(record.encoding for record in grid.probes):
        found = [cell_numbers(grid, column, name, own.get((name, column.task), {})) for column in grid.columns]
        if all(found):
            rows[name] = [one for one in found if one]
    if len(rows) < LEAST or not grid.columns:
        return None
    names = sorted(rows, key=lambda name: -sum(score for _, score in rows[name]))
    x = np.array([[values for values, _ in rows[name]] for name in names])
    y = np.array([[score for _, score in rows[name]] for name in names])
    records = {run.encoding.name: run for run in grid.all_runs}
    groups = {
        "positions in the embedding": [name for name in names if records[name].encoding.family == "absolute"],
        "weights trained for another encoding": [name for name in names if records[name].trained_as],
    }
    checks = tuple(
        check(about, left_out, names, x, y)
        for about, left_out in groups.items()
        if left_out and len(names) - len(left_out) >= LEAST
    )
    tasks = tuple(column.task for column in grid.columns)
    return Association(tuple(names), tasks, x, y, correlations(x, y), adjusted_ps(x, y), checks)


def cell_numbers(
    grid: Grid, column: Column, name: str, records: Mapping[str, Sequence[ProbeRecord]]
) -> tuple[list[float], float] | None:
    """The measures of an encoding on a task, and its mean score, of the same runs: those that all probes have measured.

    None if a measure does not exist.
    """
    probes = {one.probe for one in MEASURES.values()}
    seeds = set.intersection(*({record.seed for record in records.get(probe, ())} for probe in probes))
    shared = {probe: [record for record in records.get(probe, ()) if record.seed in seeds] for probe in probes}
    values = [one.value(shared[one.probe]) for one in MEASURES.values()] if seeds else []
    cell = summarise_cell(grid, column, name)
    scores = [score for run, score in zip(cell.runs, cell.scores, strict=True) if run.seed in seeds]
    known = [value for value in values if value is not None]
    return (known, float(np.mean(scores))) if len(known) == len(MEASURES) else None


def check(
    about: str,
    left_out: Sequence[str],
    names: Sequence[str],
    values: Float[np.ndarray, "E T M"],
    scores: Float[np.ndarray, "E T"],
) -> Check:
    """The means and p without some encodings."""
    kept = [n for n, name in enumerate(names) if name not in left_out]
    x, y = values[kept], scores[kept]
    return Check(about, tuple(left_out), mean_tau(correlations(x, y)), adjusted_ps(x, y))


def correlations(values: Float[np.ndarray, "E T M"], scores: Float[np.ndarray, "E T"]) -> Float[np.ndarray, "T M"]:
    """Kendall's τ-b over encodings; NaN where all are tied."""
    return kendall_tau(np.moveaxis(values, 0, -1), scores.T[:, None])


def mean_tau(taus: Float[np.ndarray, "*B T M"]) -> Float[np.ndarray, "*B M"]:
    """Mean over tasks. A task on which all encodings are tied shows no association: 0."""
    return np.nan_to_num(taus).mean(-2)


def adjusted_ps(
    values: Float[np.ndarray, "E T M"], scores: Float[np.ndarray, "E T"], permutations: int = PERMUTATIONS
) -> Float[np.ndarray, " M"]:
    """Two-sided p of each measure: share of permutations in which the largest |mean τ| of all measures is at least its own.

    A permutation gives each encoding the scores of another one, on all tasks at once, so that tasks and measures depend on each
    other as they do (Westfall & Young 1993). Encodings are taken to be exchangeable.
    """
    rng, count = np.random.default_rng(0), len(values)
    x = np.moveaxis(values, 0, -1)
    observed = abs(mean_tau(correlations(values, scores)))
    beyond = np.zeros(len(observed), int)
    for start in range(0, permutations, CHUNK):
        orders = rng.permuted(np.tile(np.arange(count), (min(CHUNK, permutations - start), 1)), axis=1)
        drawn = abs(mean_tau(kendall_tau(x, np.moveaxis(scores[orders], 1, -1)[:, :, None]))).max(-1)
        beyond += (drawn[:, None] >= observed - FUZZ).sum(0)
    return (1 + beyond) / (1 + permutations)
