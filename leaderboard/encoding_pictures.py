"""The picture of one encoding's page: its curve on every task with each seed, as plain SVG since every page has one."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape as xml

import numpy as np
from jaxtyping import Float

import tasks

from .grid import Column, Grid
from .markdown import printable, share, times
from .statistics import out_of_distribution
from .summary import BASE
from .tables import VISIBLE_CHANCE
from .theme import THEMES, Theme

ACROSS = 3
WIDTH, HEIGHT = 262.0, 196.0
"""Pixels of a panel with its titles."""
LEFT, RIGHT, TOP, BOTTOM = 30.0, 8.0, 40.0, 24.0
"""Around its axes."""
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
Y_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def encoding_curves(grid: Grid, encoding: str) -> dict[str, bytes]:
    """Look, ``light`` or ``dark`` → SVG: exact match by test length on each task that has runs, mean and single seeds.

    NoPE's mean stands beside it in grey. The bytes hang on the runs alone, and on no library.
    """
    return {theme.name: picture(grid, encoding, theme).encode() for theme in THEMES}


def picture(grid: Grid, encoding: str, theme: Theme) -> str:
    columns = [c for c in grid.columns if (c.task, encoding) in grid.runs]
    across = min(ACROSS, len(columns))
    width, height = across * WIDTH, math.ceil(len(columns) / across) * HEIGHT + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" font-family="{FONT}" font-size="10" fill="{theme.muted}">',
        f"<title>{xml(printable(encoding))}: exact match by test length</title>",
        f'<rect width="{width:g}" height="{height:g}" fill="{theme.background}"/>',
    ]
    for i, column in enumerate(columns):
        down, right = divmod(i, across)
        parts.append(f'<g transform="translate({right * WIDTH:g} {down * HEIGHT:g})">')
        parts += [*panel(grid, column, encoding, theme), "</g>"]
    return "\n".join([*parts, *key(grid, columns, encoding, theme, height - 8), "</svg>"]) + "\n"


def panel(grid: Grid, column: Column, encoding: str, theme: Theme) -> list[str]:
    """One task, in its own coordinates."""
    exact = grid.exact(column.task, encoding)
    known = tasks.catalogue().get(column.task)
    title = printable(f"{known.title if known else column.task} ({column.variant})", 34)
    past = share(float(out_of_distribution(column.at, exact, column.train_length).mean()))
    x = [across(column, n) for n in column.lengths]
    end, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<text x="{LEFT:g}" y="16" font-size="12" font-weight="600" fill="{theme.text}">{xml(title)}</text>',
        f'<text x="{LEFT:g}" y="30">past L {past}, {len(exact)} seed{"s" * (len(exact) != 1)}</text>',
        f'<rect x="{LEFT:g}" y="{TOP:g}" width="{across(column, column.train_length) - LEFT:.1f}" height="{bottom - TOP:g}" '
        f'fill="{theme.shade}"/>',
    ]
    longest = max(run.longest_seen for run in grid.runs[column.task, encoding])
    if longest > column.train_length:
        start, stop = (across(column, min(n, column.lengths[-1])) for n in (column.train_length, longest))
        shade = f'x="{start:.1f}" y="{TOP:g}" width="{stop - start:.1f}" height="{bottom - TOP:g}"'
        parts.append(f'<rect {shade} fill="{theme.tuned_shade}"/>')
    for tick in Y_TICKS:
        parts.append(f'<path d="M{LEFT:g} {up(tick):.1f}H{end:g}" stroke="{theme.grid}"/>')
        if tick in (0, 0.5, 1):
            label = f'<text x="{LEFT - 5:g}" y="{up(tick) + 3.5:.1f}" text-anchor="end">{tick:g}</text>'
            parts.append(label)
    parts.append(f'<path d="M{across(column, column.train_length):.1f} {TOP:g}V{bottom:g}" stroke="{theme.muted}"/>')
    for place, label in ticks(column):
        parts.append(f'<text x="{place:.1f}" y="{bottom + 14:g}" text-anchor="middle">{label}</text>')
    if max(column.chance) > VISIBLE_CHANCE:
        chance = line(x, np.array(column.chance))
        parts.append(f'<path d="{chance}" fill="none" stroke="{theme.muted}" stroke-dasharray="1.5 3"/>')
    if encoding != BASE and (column.task, BASE) in grid.runs:
        base = line(x, grid.exact(column.task, BASE).mean(0))
        parts.append(f'<path d="{base}" fill="none" stroke="{theme.muted}" stroke-width="1.5" stroke-dasharray="5 3"/>')
    colour = theme.colours[1]
    if len(exact) > 1:
        for seed in exact:
            parts.append(f'<path d="{line(x, seed)}" fill="none" stroke="{colour}" stroke-opacity=".45"/>')
            dots = "".join(f"M{a:.1f} {up(b):.1f}h0" for a, b in zip(x, seed, strict=True))
            parts.append(f'<path d="{dots}" stroke="{colour}" stroke-opacity=".6" stroke-width="3.5" stroke-linecap="round"/>')
    parts.append(f'<path d="{line(x, exact.mean(0))}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    return parts


def across(column: Column, length: float) -> float:
    """Pixels from the left of a panel: lengths are a geometric grid, so on a logarithmic axis."""
    first, last = math.log(column.lengths[0]), math.log(column.lengths[-1])
    return LEFT + 4 + (math.log(length) - first) / (last - first) * (WIDTH - RIGHT - LEFT - 8)


def up(value: float) -> float:
    """Pixels from the top of a panel."""
    return HEIGHT - BOTTOM - 2 - value * (HEIGHT - BOTTOM - TOP - 4)


def line(x: Sequence[float], y: Float[np.ndarray, " N"]) -> str:
    """A path through points."""
    return "M" + "L".join(f"{a:.1f} {up(float(b)):.1f}" for a, b in zip(x, y, strict=True))


def ticks(column: Column) -> list[tuple[float, str]]:
    """Labels of the axis and their places: L and the ends first, then what fits between."""
    kept: list[int] = []
    ends = (column.train_length, column.lengths[-1], column.lengths[0])
    for length in sorted(column.lengths, key=lambda n: (ends.index(n) if n in ends else 3, n)):
        if all(abs(across(column, length) - across(column, other)) > 28 for other in kept):
            kept.append(length)
    if column.train_length not in kept:  # tested only near it
        kept.append(column.train_length)
    multiples = {n: times(n / column.train_length) for n in kept}
    return [(across(column, n), "L" if multiples[n] == "1" else f"{multiples[n]} L") for n in sorted(kept)]


def key(grid: Grid, columns: Sequence[Column], encoding: str, theme: Theme, y: float) -> list[str]:
    """What is drawn how, in one line below."""
    colour, entries = theme.colours[1], []
    entries.append((f'stroke="{colour}" stroke-width="2.5"', "mean over seeds"))
    if any(len(grid.runs[c.task, encoding]) > 1 for c in columns):
        entries.append((f'stroke="{colour}" stroke-opacity=".5"', "one seed"))
    if encoding != BASE and any((c.task, BASE) in grid.runs for c in columns):
        entries.append((f'stroke="{theme.muted}" stroke-width="1.5" stroke-dasharray="5 3"', f"mean of {BASE}"))
    if any(max(c.chance) > VISIBLE_CHANCE for c in columns):
        entries.append((f'stroke="{theme.muted}" stroke-dasharray="1.5 3"', "chance"))
    entries.append((f'stroke="{theme.shade}" stroke-width="9"', "trained, l ≤ L"))
    if any(run.longest_seen > c.train_length for c in columns for run in grid.runs[c.task, encoding]):
        entries.append((f'stroke="{theme.tuned_shade}" stroke-width="9"', "seen in a later stage"))
    parts, x = [], LEFT
    for stroke, label in entries[: 2 if len(columns) == 1 else None]:  # a single panel has no room for more
        parts.append(f'<path d="M{x:g} {y - 3:g}h18" {stroke}/><text x="{x + 24:g}" y="{y:g}">{label}</text>')
        x += 44 + 5.4 * len(label)
    return parts
