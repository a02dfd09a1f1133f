"""The columns of the board: one list, from which markdown, terminal, web page and JSON take key, title, format and help."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tasks
from leaderboard.results.facts import family_title

from .text import printable

DASH = "–"
TERMINAL, PAGE, WEB = "terminal", "page", "web"
"""Views: the terminal, markdown pages of suites and encodings, the web page."""
EVERYWHERE = (TERMINAL, PAGE, WEB)
SCORE = "exact match beyond L, chance-corrected (0 is chance, 1 is perfect), averaged over octaves of length, then over tasks"


class Column(NamedTuple):
    """A column of the frame of rows as readers see it."""

    key: str
    title: str
    show: Callable[[Any], str]
    """Text of a row of the frame."""
    help: str
    views: Sequence[str] = EVERYWHERE
    value: Callable[[Any], Any] | None = None
    """What the web page sorts by; by default the frame's column ``key``. Numbers are aligned to the right."""
    numeric: bool = True


def number(value: Any, digits: int = 3) -> str:
    """``.760``, ``1.000``; a dash where it is unknown."""
    if value is None or not np.isfinite(value):
        return DASH
    text = f"{value:z.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def ratio(value: Any) -> str:
    return DASH if value is None or not np.isfinite(value) else f"{value:.2f}"


def span(low: Any, high: Any, digits: int = 2) -> str:
    """``.73–.78``."""
    return DASH if low is None or not np.isfinite(low) else f"{number(low, digits)}–{number(high, digits)}"


def rank(row: Any, low: str = "rank_low", high: str = "rank_high") -> str:
    """``3`` or ``1–8``."""
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


def shown_number(key: str) -> Callable[[Any], str]:
    """How a column shows a number of the row: two digits."""
    return lambda row: number(row[key], 2)


def parameters(row: Any) -> str:
    low, high = row["parameters_low"], row["parameters_high"]
    return f"{low:,.0f}" if low == high else f"{low:,.0f}–{high:,.0f}"


def signs(row: Any) -> str:
    """Marks after the name."""
    return (" ⚑" if row["fails_within"] else "") + (" ≈" if row["source"] == "second-hand" else "")


def columns_of(names: Sequence[str]) -> list[Column]:
    """The columns of a suite with these tasks, in order."""
    titles = {task: tasks.title(task).lower() for task in names}
    fixed = [
        Column("rank_low", "rank", rank, "with 95 % confidence, for all rows at once, the true rank is in this interval"),
        Column("encoding", "encoding", lambda r: printable(r["encoding"]) + signs(r), "⚑ fails a task even within the training "
               "length; ≈ not checked against the authors' paper or code", numeric=False),
        Column("score", "score", lambda r: number(r["score"]), SCORE),
        Column("low", "95\u00a0%", lambda r: span(r["low"], r["high"]), "95 % interval of the score over blocks (seeds)"),
        Column("rate_low", "by rate", lambda r: span(r["rate_low"], r["rate_high"]),
               "score at the worst and at the best learning "
               "rate", (PAGE, WEB)),
        Column("p_first", "P(first)", lambda r: number(r["p_first"], 2),
               "probability to be first under random weights of tasks"),
        Column("weighted_low", "rank, any weights", lambda r: rank(r, "weighted_low", "weighted_high"),
               "95 % interval of the rank "
               "under random weights of tasks and resampled blocks", (WEB,)),
    ]  # fmt: skip
    by_task = [
        Column(f"score.{task}", title, shown_number(f"score.{task}"), f"score on {task}") for task, title in titles.items()
    ]
    limits = [
        Column(f"limit.{task}", f"{title} to", partial(limit, task=task), f"length limit on {task}: beyond this multiple of L, "
               "fewer than half of the answers are right (chance-corrected)", (WEB,))
        for task, title in titles.items()
    ]  # fmt: skip
    kinds = {
        "within": "exact match within the training length",
        "token": "token accuracy beyond L, chance-corrected,",
        "nll": "loss beyond L, nats per answer token,",
    }
    details = [
        Column(f"{kind}.{task}", f"{title}, {kind}", shown_number(f"{kind}.{task}"), f"{meaning} on {task}", (WEB,))
        for kind, meaning in kinds.items()
        for task, title in titles.items()
    ]
    costs = [
        Column("step_time", "step time", lambda r: ratio(r["step_time"]),
               "time of a training step at L on one CPU thread, relative "
               "to nope"),
        Column("step_time_past", "at 4 L", lambda r: ratio(r["step_time_past"]), "the same at 4 L", (PAGE, WEB)),
        Column("memory", "memory", lambda r: ratio(r["memory"]), "peak memory of a step at 4 L, relative to nope", (WEB,)),
        Column("parameters_high", "parameters", parameters, "parameters of the encoding in this suite", (WEB,)),
        Column("blocks", "blocks", lambda r: str(int(r["blocks"])), "seeds that have all tasks", (PAGE, WEB)),
        Column("family", "family", lambda r: family_title(r["family"]), "family of the encoding", (WEB,), numeric=False),
        Column("source", "compared with", lambda r: r["source"] or DASH,
               "what the code was compared with", (WEB,), numeric=False),
    ]  # fmt: skip
    return [*fixed, *by_task, *costs, *limits, *details]


def of_task(task: str) -> list[Column]:
    """The columns of the page of a task."""
    every = {column.key: column for column in columns_of([task])}
    own = Column(
        f"low.{task}",
        "95\u00a0%",
        lambda r: span(r[f"low.{task}"], r[f"high.{task}"]),
        "95 % interval of the score over blocks",
    )
    renamed = {f"score.{task}": "score", f"limit.{task}": "half right to × L", f"within.{task}": "within L"}
    keys = ("encoding", f"score.{task}", own.key, f"limit.{task}", f"within.{task}", "step_time")
    found = [own if key == own.key else every[key] for key in keys]
    return [column._replace(title=renamed.get(column.key, column.title)) for column in found]


def shown(names: Sequence[str], view: str, rows: pd.DataFrame) -> list[Column]:
    """The columns of a view, without those that no row has a value for."""
    every = [row for _, row in rows.iterrows()]
    return [c for c in columns_of(names) if view in c.views and any(c.show(row) not in (DASH, "") for row in every)]


def plain_row(row: pd.Series) -> dict[str, Any]:
    """A row as plain data, for JSON: None where a value is unknown."""

    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return {str(key): plain(value) for key, value in row.items()}
