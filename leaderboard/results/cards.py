"""Cards in the published store: declarations of each encoding, and its properties and costs measured by ``bench.measure``."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from bench.measure.card import Card
from bench.result import reading

from .file_names import RESULTS, write_if_changed

CARDS = "cards.json"
DECLARED = ("source", "lengths", "stage_share")
"""Columns that a card may declare anew, so that a corrected source needs no new runs."""
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
    rows = {
        name: (card.measured.costs[0].step_ratio, card.measured.costs[-1].peak_ratio)
        for name, card in read_cards(folder).items()
        if card.measured and card.measured.suite == suite and card.measured.costs
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=COSTS)


def declared(runs: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Runs whose encodings are described as their cards declare them now; those without a card keep what their results say."""
    cards = {name: card.declared for name, card in read_cards(folder).items() if card.declared}
    known = runs["encoding"].isin(list(cards))
    for column in DECLARED if known.any() else ():
        values = runs["encoding"].map({name: getattr(own, column) for name, own in cards.items()})
        runs[column] = values.where(known, runs[column]).astype(runs[column].dtype)
    return runs
