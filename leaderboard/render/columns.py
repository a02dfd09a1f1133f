"""The columns of the board: one list, from which markdown, terminal, web page and JSON take key, title, format and help."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tasks
from leaderboard.stats.scores import limit_text

from .text import printable

DASH = "–"
TERMINAL, PAGE, WEB = "terminal", "page", "web"
"""Views: the terminal, markdown pages of suites and encodings, the web page."""
EVERYWHERE = (TERMINAL, PAGE, WEB)
SCORE = "exact match beyond L (text: 1/perplexity), 0 is chance, 1 perfect; mean over octaves, then over tasks"
SIGNS = {
    "⚑": "fails a task even within the training length",
    "≈": "not checked against the authors' paper or code",
    "◉": "sees content: it could compute more than positions",
    "▲": "and takes over 1.5 times the time, matrix products or parameters of nope",
}
"""Mark after a name → its meaning."""
DETAILS = {
    "within": "exact match within the training length",
    "token": "token accuracy beyond L, chance-corrected,",
    "nll": "loss beyond L, nats per answer token,",
}
"""Kind of column that each task has on the web page → its meaning."""


class Column(NamedTuple):
    """A column of the frame of rows as readers see it."""

    key: str
    """Column of the frame; the web page sorts by it."""
    title: str
    show: Callable[[Any], str]
    """Text of a row of the frame."""
    help: str
    views: Sequence[str] = EVERYWHERE
    numeric: bool = True
    """Aligned to the right."""


def columns_of(names: Sequence[str]) -> list[Column]:
    """The columns of a suite with these tasks, in order."""
    titles = {task: tasks.title(task).lower() for task in names}
    limits = "beyond this multiple of L, fewer than half of the answers are right (chance-corrected)"
    marks = "; ".join(f"{sign} {meaning}" for sign, meaning in SIGNS.items())
    found = [
        Column("rank_low", "rank", ranks("rank"), "interval of the true rank, with 95 % confidence for all rows at once"),
        Column("encoding", "encoding", lambda row: printable(row["encoding"]) + signs(row), marks, numeric=False),
        Column("score", "score", numbers("score", 3), SCORE),
        Column("low", "95\u00a0%", spans("low", "high"), "95 % interval of the score over blocks (seeds)"),
        Column("rate_low", "by rate", spans("rate_low", "rate_high"), "score at the worst and best learning rate", (PAGE, WEB)),
        Column("p_first", "P(first)", numbers("p_first"), "chance to be first, under random weights of tasks, or yours"),
        Column("weighted_low", "rank, any weights", ranks("weighted"), "95 % interval under random weights", (PAGE, WEB)),
        Column("text", "text", numbers("text"), "bits per character of real text at the longest test length; less is better"),
        Column("step_time", "step time", numbers("step_time"), "time of a training step at L on one CPU, relative to nope"),
        Column("flops", "FLOPs", numbers("flops"), "matrix products of a forward pass at L, relative to nope", (PAGE, WEB)),
        *(Column(f"score.{task}", title, numbers(f"score.{task}"), f"score on {task}") for task, title in titles.items()),
        Column("memory", "memory", numbers("memory"), "peak memory of a step at 4 L, relative to nope", (WEB,)),
        Column("parameters_high", "parameters", parameters, "parameters of the encoding in this suite", (WEB,)),
        Column("blocks", "blocks", lambda row: str(int(row["blocks"])), "seeds that have all tasks and rates", (PAGE, WEB)),
        Column("finished", "date", lambda row: row["finished"][:10], "day of the newest run", (WEB,), False),
    ]
    for task, title in titles.items():
        low, high = f"low.{task}", f"high.{task}"
        found.append(Column(f"limit.{task}", f"{title} to", partial(limit, task=task), f"on {task}: {limits}", (WEB,)))
        found.append(Column(low, f"{title}, 95\u00a0%", spans(low, high), f"95 % interval of the score on {task}", (WEB,)))
        for kind, meaning in DETAILS.items():
            key = f"{kind}.{task}"
            found.append(Column(key, f"{title}, {kind}", numbers(key), f"{meaning} on {task}", (WEB,)))
    return found


def shown(names: Sequence[str], view: str, rows: pd.DataFrame) -> list[Column]:
    """The columns of a view, without those that no row has a value for."""
    every = rows_of(rows)
    return [c for c in columns_of(names) if view in c.views and any(c.show(row) not in (DASH, "") for row in every)]


def rows_of(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


def number(value: Any, digits: int = 2) -> str:
    """``.76``, ``1.00``, ``−.05``; a dash where it is unknown."""
    if value is None or not np.isfinite(value):
        return DASH
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:z.{digits}f}").replace("-", "−")


def span(low: Any, high: Any) -> str:
    """``.73–.78``."""
    return DASH if low is None or not np.isfinite(low) else f"{number(low)}–{number(high)}"


def limit(row: Any, task: str) -> str:
    """``1.3``, ``≥8.0``; in multiples of L."""
    return limit_text(row[f"limit.{task}"], row[f"limit_mark.{task}"])


def parameters(row: Any) -> str:
    low, high = row["parameters_low"], row["parameters_high"]
    return f"{low:,.0f}" if low == high else f"{low:,.0f}–{high:,.0f}"


def signs(row: Any) -> str:
    """Marks after the name."""
    marked = row["fails_within"], row["source"] == "second-hand", row["sees_content"], row["costly"]
    return "".join(f" {sign}" for sign, has in zip(SIGNS, marked, strict=True) if has)


def numbers(key: str, digits: int = 2) -> Callable[[Any], str]:
    return lambda row: number(row[key], digits)


def spans(low: str, high: str) -> Callable[[Any], str]:
    return lambda row: span(row[low], row[high])


def ranks(kind: str) -> Callable[[Any], str]:
    """``3`` or ``1–8``."""

    def show(row: Any) -> str:
        low, high = row[f"{kind}_low"], row[f"{kind}_high"]
        return DASH if not np.isfinite(low) else f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f}"

    return show
