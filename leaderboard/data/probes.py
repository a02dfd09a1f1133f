"""Probes of a grid's runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from bench.probe.record import ProbeRecord
from leaderboard.results.probes import of_runs, read_published

from .grid import Grid


def with_probes(suites: Mapping[str, Sequence[Grid]], folder: Path) -> dict[str, list[Grid]]:
    """Add the published probes to the newest grid of each suite.

    Raises:
        InputError: a damaged line.
    """

    def own(name: str, grid: Grid) -> Grid:
        runs = {(r.fingerprint, r.task, r.encoding.name, r.seed, r.encoding.source_sha256) for r in grid.all_runs}
        return replace(grid, probes=of_runs(read_published(folder, name).get(name, ()), runs))

    return {name: [own(name, grid), *older] for name, (grid, *older) in suites.items()}


def mean(records: Iterable[ProbeRecord], quantity: str, **where: int | str | None) -> float | None:
    """Mean over runs of the means of a quantity."""
    found = [value for record in records if (value := record.mean(quantity, **where)) is not None]
    return fmean(found) if found else None


def lengths_of(records: Iterable[ProbeRecord], quantity: str) -> list[int]:
    return sorted({v.length for record in records for v in record.of(quantity) if v.length is not None})


def layers_of(records: Iterable[ProbeRecord], quantity: str) -> list[int]:
    return sorted({v.layer for record in records for v in record.of(quantity) if v.layer is not None})


def mean_divergences(records: Iterable[ProbeRecord]) -> dict[tuple[str, str, str], float]:
    """(task, encoding, other encoding) → mean divergence at L over layers and pairs of models.

    The models of a pair are of different seeds if there are any: those of one seed begin with the same weights and see the same
    examples, which makes them more alike than two seeds of one encoding.
    """
    pairs: dict[tuple[str, str, str], dict[bool, list[float]]] = {}
    for record in records:
        for value in record.of("divergence", length=record.train_length):
            other, _, seed = value.at.rpartition(" seed ")
            if value.value is not None:
                found = pairs.setdefault((record.task, record.encoding, other), {True: [], False: []})
                found[seed != str(record.seed)].append(value.value)
    return {key: fmean(found[True] or found[False]) for key, found in pairs.items()}
