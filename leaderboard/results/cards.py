"""Cards in the published store: the cost of each encoding, as ``bench.measure`` measured it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from bench.measure.card import Card
from bench.result import reading

from .file_names import RESULTS, write_if_changed

CARDS = "cards.json"
COSTS = ["step_time", "memory"]


def read_cards(folder: Path) -> dict[str, Card]:
    """Encoding → card; empty without a file of cards.

    Raises:
        InputError: a broken file.
    """
    path = folder / RESULTS / CARDS
    if not path.exists():
        return {}
    with reading(path, "does not hold cards", "restore it from git, or delete it and publish again"):
        return dict(sorted(TypeAdapter(dict[str, Card]).validate_json(path.read_bytes()).items()))


def write_cards(folder: Path, cards: Mapping[str, Card]) -> None:
    """Write all cards, one encoding per line, sorted by name.

    Raises:
        InputError: the file cannot be written.
    """
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {cards[name].model_dump_json()}" for name in sorted(cards)]
    write_if_changed(folder / RESULTS / CARDS, ("{\n" + ",\n".join(rows) + "\n}\n").encode() if rows else None)


def relative_costs(folder: Path, suite: str) -> pd.DataFrame:
    """Costs of a training step relative to NoPE, by encoding, where they were measured on this suite's model.

    ``step_time`` is at L, ``memory`` (peak) at the longest length measured.
    """
    cards = {name: card.costs for name, card in read_cards(folder).items() if card.suite == suite and card.costs}
    rows = {name: (costs[0].step_ratio, costs[-1].peak_ratio) for name, costs in cards.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=COSTS)
