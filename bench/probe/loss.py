"""Loss in distribution: nats per answer token at l ≤ L, by length and by size of the model, from the results of runs.

The sizes are those of a suite and of its conditions on width and layers (``vary``). It is the counterpart of published tables
of perplexity by length and by size, on tasks with an answer.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bench.result import Result
from bench.suites.suite import Suite

SIZES = ("width", "layers")
"""Conditions that change the size."""


class Loss(NamedTuple):
    """Mean over seeds of one encoding on one task."""

    task: str
    encoding: str
    layers: int
    width: int
    parameters: int
    seeds: int
    by_length: dict[int, float]
    """Length ≤ L → nats per answer token, ``<eos>`` included."""

    @property
    def mean(self) -> float:
        return sum(self.by_length.values()) / len(self.by_length)


def sizes_of(suite: Suite) -> list[Suite]:
    """The suite, and its conditions that change only the size of the model."""
    return [suite, *(own for name, own in suite.conditions.items() if name.split("-")[0] in SIZES)]


def has_loss(suite: Suite, result: Result) -> bool:
    """Whether a result has a loss: it is of the suite's present fingerprint and did not diverge."""
    return result.fingerprint == suite.fingerprint and all(score.nll is not None for score in result.in_distribution)


def losses(results: Iterable[tuple[Suite, Result]]) -> list[Loss]:
    """One entry per task, encoding and size, with runs that did not diverge; in order of task, size and loss."""
    cells: dict[tuple[str, str, int, int], list[Result]] = {}
    for suite, result in results:
        key = result.task, result.encoding.name, suite.model.layers, suite.model.width
        if has_loss(suite, result):
            cells.setdefault(key, []).append(result)
    found = []
    for key, runs in cells.items():
        by_length = {
            score.length: sum(run.in_distribution[n].nll or 0.0 for run in runs) / len(runs)
            for n, score in enumerate(runs[0].in_distribution)
        }
        found.append(Loss(*key, runs[0].parameters.model, len(runs), by_length))
    return sorted(found, key=lambda loss: (loss.task, loss.parameters // 1000, loss.mean))


def of_common_seeds(results: Iterable[tuple[Suite, Result]]) -> list[tuple[Suite, Result]]:
    """The results of an encoding on a task whose seeds all its sizes have, for a comparison of sizes."""
    known = [(suite, result) for suite, result in results if has_loss(suite, result)]
    seeds: dict[tuple[str, str], dict[str, set[int]]] = {}
    for suite, result in known:
        seeds.setdefault((result.task, result.encoding.name), {}).setdefault(suite.name, set()).add(result.seed)
    common = {key: set.intersection(*by_suite.values()) for key, by_suite in seeds.items()}
    return [(suite, run) for suite, run in known if run.seed in common[run.task, run.encoding.name]]
