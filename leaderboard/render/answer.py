"""The sentences above a board's first table: which encoding to use, how sure that is, what it costs, and where it holds."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from leaderboard.data.grid import Grid
from leaderboard.format import plural, reach_text
from leaderboard.stats.significance import ALPHA
from leaderboard.stats.summary import BASE, Row, separation

from . import columns
from .markdown import escape

FAR = 2
"""The multiple of L past which the sentences say what carries."""
NOISE = 1.05
"""Step times that differ by less than this factor count as equal."""
MOST = 8
"""Most names in a list."""


def answer(grid: Grid, classes: Mapping[str, Sequence[Row]], show: Callable[[Row], str] = lambda row: escape(row.name)) -> str:
    """A paragraph on the first table; empty where no encoding has run on every task.

    Arguments:
        show: the name of a row as markdown.
    """
    rows = [row for row in next(iter(classes.values()), ()) if row.complete]
    if not rows:
        return ""
    first, *others = rows
    close = [row for row in others if separation(first, row) is None]
    below = [row for row in others if separation(first, row) == "above"]
    pairs = [(a, b) for a, b in combinations(rows, 2) if b.name in a.ps]
    has = f"{show(first)} has the highest score, {columns.SCORE.text(first)}"
    if not others:
        parts = [
            f"**{show(first)}** alone has run on every task: score {columns.SCORE.text(first)}; there is nothing to compare."
        ]
    elif not first.ps:
        parts = [f"**{has}**, in too few seeds for a test: small differences mean nothing."]
    elif close:
        parts = [f"**Use one of {len(close) + 1}**: {has}, and the test does not separate it from {listed(close, show)}."]
    else:
        parts = [
            f"**Use {show(first)}**: its score, {columns.SCORE.text(first)}, is separated from that of every other encoding."
        ]
    if pairs:
        count, error = sum(separation(a, b) is not None for a, b in pairs), f"{100 * ALPHA:g} %"
        share = f"{100 * count / len(pairs):.0f} %"
        text = f"The test separates {count} of {len(pairs)} pairs ({share}), with a chance of {error} "
        text += "that any of the board's verdicts is false"
        clear = f"; clearly below the first {'is' if len(below) == 1 else 'are'} {listed(below, show)}" if below else ""
        parts.append(f"{text}{clear}.")
    return " ".join([*parts, *cost([first, *close], show), *carried(grid, rows, show), scope(grid)])


def listed(rows: Sequence[Row], show: Callable[[Row], str]) -> str:
    """``a, b and c``; those past ``MOST`` are counted."""
    names = [show(row) for row in rows[:MOST]]
    names += [f"{len(rows) - MOST} others"] if len(rows) > MOST else []
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def cost(rows: Sequence[Row], show: Callable[[Row], str]) -> list[str]:
    """Which of the rows to choose from costs least: of the fastest, the one with the fewest parameters."""

    def price(row: Row) -> str:
        return f"a step {columns.STEP_TIME.text(row)} × {BASE}'s and {columns.PARAMETERS.text(row)} parameters"

    timed = [(row.step_time, row) for row in rows if row.step_time is not None]
    if not timed:
        return []
    fastest = min(time for time, _ in timed)
    cheapest = min(
        (row for time, row in timed if time <= NOISE * fastest), key=lambda row: (row.parameters or (0, 0), row.step_time)
    )
    if len(rows) == 1:
        return [f"It costs {price(cheapest)} of its own."]
    if cheapest is rows[0]:
        return [f"Of these it costs least: {price(cheapest)} of its own."]
    return [f"Of these, {show(cheapest)} costs least: {price(cheapest)} of its own ({show(rows[0])}: {price(rows[0])})."]


def carried(grid: Grid, rows: Sequence[Row], show: Callable[[Row], str]) -> list[str]:
    """On which tasks encodings reach ``FAR`` times L, and how far the furthest gets on the others."""
    far, short = [], []
    for column in grid.columns:
        reaches = [(reach, row) for row in rows if (reach := row.cells[column.task].reach)]
        count = sum(reach.at >= FAR for reach, _ in reaches)
        if count:
            far.append(f"{escape(column.task)} by {count} of {len(rows)}")
        else:
            best, row = max(reaches, key=lambda entry: entry[0].at)
            short.append(f"{escape(column.task)} (furthest: {show(row)}, {reach_text(best)} L)")
    parts = [f"Carried past {FAR} L: {', '.join(far)}"] if far else []
    parts += [f"{'not' if far else f'Nothing is carried past {FAR} L'}: {', '.join(short)}"] if short else []
    return ["; ".join(parts) + "."] if parts else []


def scope(grid: Grid) -> str:
    """The model and the training lengths, beyond which nothing was measured."""
    model = grid.suite.model if grid.suite else None
    size = f"{plural(model.layers, 'layer')}, width {model.width} and " if model else ""
    lengths = ", ".join(f"{column.train_length} on {escape(column.task)}" for column in grid.columns)
    return f"All this is for {size}training at L = {lengths}; elsewhere the order may differ."
