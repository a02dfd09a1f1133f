"""The columns of the board: one list, from which markdown, terminal, web page and JSON take key, title, format and help."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tasks

DASH = "–"


class Column(NamedTuple):
    """A column of the frame of rows as readers see it."""

    key: str
    title: str
    show: Callable[[Any], str]
    """Text of a row, which has the columns of the frame as attributes by ``row[key]``."""
    help: str
    narrow: bool = True
    """Whether the terminal and the front page show it; pages of a suite and the web page show all."""
    numeric: bool = True


def number(value: Any, digits: int = 3) -> str:
    """``.760``, ``1.000``; a dash where it is unknown."""
    if value is None or not np.isfinite(value):
        return DASH
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def ratio(value: Any) -> str:
    return DASH if value is None or not np.isfinite(value) else f"{value:.2f}"


def span(low: Any, high: Any, digits: int = 3) -> str:
    """``.73–.78``."""
    if low is None or not np.isfinite(low):
        return DASH
    return f"{number(low, digits)}–{number(high, digits)}"


def rank(row: Any, low: str = "rank_low", high: str = "rank_high") -> str:
    if not np.isfinite(row[low]):
        return DASH
    first, last = int(row[low]), int(row[high])
    return str(first) if first == last else f"{first}–{last}"


def limit(row: Any, task: str) -> str:
    """``1.3``, ``≥8.0``; in multiples of L."""
    value, mark = row.get(f"limit.{task}", np.nan), row.get(f"limit_mark.{task}", "")
    if value is None or not np.isfinite(value):
        return DASH
    return f"{mark if isinstance(mark, str) else ''}{value:.{0 if value >= 9.95 else 1}f}"


def parameters(row: Any) -> str:
    low, high = row["parameters_low"], row["parameters_high"]
    return f"{low:,.0f}" if low == high else f"{low:,.0f}–{high:,.0f}"


def signs(row: Any) -> str:
    """Marks after the name."""
    return (" ⚑" if row["fails_within"] else "") + (" ≈" if row["source"] == "second-hand" else "")


def columns_of(names: list[str]) -> list[Column]:
    """The columns of a suite with these tasks, in order."""
    score = "exact match beyond L, chance-corrected (0 is chance, 1 is perfect), averaged over octaves of length, then over tasks"
    fixed = [
        Column("rank", "rank", rank, "with 95 % confidence, for all rows at once, the true rank is in this interval"),
        Column("encoding", "encoding", lambda r: r["encoding"] + signs(r), "⚑ fails a task within L; ≈ not checked against the "
               "authors' paper or code", numeric=False),
        Column("score", "score", lambda r: number(r["score"]), score),
        Column("interval", "95 %", lambda r: span(r["low"], r["high"], 2), "95 % interval of the score over blocks (seeds)"),
        Column("rates", "by rate", lambda r: span(r["rate_low"], r["rate_high"], 2), "score at the worst and at the best "
               "learning rate", narrow=False),
        Column("p_first", "P(first)", lambda r: number(r["p_first"], 2), "probability to be first under random weights of the tasks"),
        Column("weighted", "rank, any weights", lambda r: rank(r, "weighted_low", "weighted_high"), "95 % interval of the rank under "
               "random weights of the tasks and resampled blocks", narrow=False),
    ]  # fmt: skip
    by_task = [
        Column(f"score.{task}", tasks.title(task).lower(), lambda r, t=task: number(r[f"score.{t}"], 2), f"score on {task}")
        for task in names
    ]
    limits = [
        Column(f"limit.{task}", f"{tasks.title(task).lower()} to", lambda r, t=task: limit(r, t), f"length limit on {task}: fewer "
               "than half of the answers are right (chance-corrected) beyond this multiple of L", narrow=False)
        for task in names
    ]  # fmt: skip
    details = [
        Column(f"{kind}.{task}", f"{tasks.title(task).lower()}, {title}", lambda r, k=f"{kind}.{task}": number(r[k], 2),
               f"{meaning} on {task}", narrow=False)
        for kind, title, meaning in (("within", "within", "exact match within L"), ("token", "tokens", "token accuracy beyond L, "
                                     "chance-corrected"), ("nll", "loss", "loss beyond L, nats an answer token"))
        for task in names
    ]  # fmt: skip
    costs = [
        Column("step_time", "step time", lambda r: ratio(r["step_time"]), "time of a training step at L on one CPU thread, relative "
               "to nope"),
        Column("step_time_past", "at 4 L", lambda r: ratio(r["step_time_past"]), "the same at 4 L", narrow=False),
        Column("memory", "memory", lambda r: ratio(r["memory"]), "peak memory of a step at 4 L, relative to nope", narrow=False),
        Column("parameters", "parameters", parameters, "parameters of the encoding", narrow=False),
        Column("blocks", "blocks", lambda r: str(int(r["blocks"])), "seeds with all tasks"),
        Column("family", "family", lambda r: r["family"], "family of the encoding", narrow=False, numeric=False),
        Column("source", "source", lambda r: r["source"], "what the code was compared with", narrow=False, numeric=False),
        Column("lengths", "length settings", lambda r: r["lengths"] or DASH, "settings that are lengths in tokens", narrow=False,
               numeric=False),
    ]  # fmt: skip
    return [*fixed, *by_task, *limits, *costs, *details]


def plain_row(row: pd.Series) -> dict[str, Any]:
    """A row as plain data, for JSON: None where a value is unknown."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return {key: plain(value) for key, value in row.items()}
