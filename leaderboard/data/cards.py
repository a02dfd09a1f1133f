"""Cards in the published store: declarations of each encoding, and its properties and costs measured by ``bench.measure``."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from bench.measure.card import Card
from bench.result import Result

from .grid import Grid, RelativeCost
from .record_files import read_by_name, write_by_name
from .store import RESULTS

CARDS = "cards.json"


def read_cards(folder: Path) -> dict[str, Card]:
    """Encoding → card; empty without a file of cards.

    Raises:
        InputError: a broken file.
    """
    advice = "restore it from git, or delete it and publish again"
    return read_by_name(folder / RESULTS / CARDS, Card, "does not hold cards", advice)


def write_cards(folder: Path, cards: Mapping[str, Card]) -> None:
    """Write all cards, one encoding per line, sorted by name.

    Raises:
        InputError: the file cannot be written.
    """
    write_by_name(folder / RESULTS / CARDS, cards)


def with_cards(suites: Mapping[str, Iterable[Grid]], cards: Mapping[str, Card]) -> dict[str, list[Grid]]:
    """Add to all grids (by suite) the declarations and the relative costs of the encodings whose cards have them."""
    past = {name: card.declared.past for name, card in cards.items() if card.declared}

    def with_own(suite: str, grid: Grid) -> Grid:
        runs = {cell: tuple(with_declarations(own, cards)) for cell, own in grid.runs.items()}
        return replace(grid, costs=relative_costs(suite, cards), past=past, runs=runs)

    return {suite: [with_own(suite, grid) for grid in grids] for suite, grids in suites.items()}


def relative_costs(suite: str, cards: Mapping[str, Card]) -> dict[str, RelativeCost]:
    """Encoding → its costs, where they were measured on this suite's model."""
    costs = {}
    for name, card in cards.items():
        if card.measured and card.measured.suite == suite and (measured := card.measured.costs):
            first, last = measured[0], measured[-1]
            ratios = first.step_ratio, last.step_ratio, last.peak_ratio
            costs[name] = RelativeCost(*ratios, card.measured.busy, card.measured.device)
    return costs


def with_declarations(results: Iterable[Result], cards: Mapping[str, Card]) -> list[Result]:
    """Results whose encodings are described as their cards declare them now.

    So results from before these fields have them too, and a corrected source needs no new runs. Encodings without a card, such
    as submitted ones, keep what their results say.
    """

    def described(result: Result) -> Result:
        card = cards.get(result.encoding.name)
        if card is None or card.declared is None:
            return result
        changes = {name: getattr(card.declared, name) for name in ("source", "lengths", "stage_share")}
        return result.model_copy(update={"encoding": result.encoding.model_copy(update=changes)})

    return list(map(described, results))
