"""Performance profiles: which share of an encoding's runs scores above each threshold."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from . import inference
from . import statistics as st
from .beside import HIGH, LOW, Box, broken
from .curves import APART, Style
from .labels import along, place, touch
from .markdown import share
from .plot import LINE, MARGIN, NORMAL, POINT, SMALL, WIDTH, Page, fitted, footer_height, label, text_width
from .spotlight import apart, spotlight
from .summary import Row
from .theme import Theme

LEFT, HEIGHT = 0.5, 3.6
TICKS = 0.42
"""Inches below the panel, for values and title of the axis."""
REFERENCES = ("nope", "alibi", "rope")
BEST = 3
MOST = 6
"""With more bands, none can be seen."""
WIDEST = 130.0
"""Points that a name may take."""
DISC = 4.0
"""Points across, where a name's line meets its curve."""


def picture(classes: Mapping[str, Sequence[Row]], theme: Theme) -> Page:
    """One panel; the best few and some references with bands, all others grey. Encodings without a score are left out."""
    rows = {row.name: row for group in classes.values() for row in group if row.complete}
    looks = spotlight(classes)  # an encoding looks the same in all pictures of a suite
    members = {name: looks[name] for name in spotlight(classes, REFERENCES, BEST, MOST) if name in rows}
    notes = [note(len(rows) - len(members), any(row.interval for row in rows.values()), bool(apart(classes) & set(members)))]
    heading = "Performance profiles: share of runs that score above τ, mean over tasks"
    top = Page(1, theme).heading(heading)
    page = Page(top + HEIGHT + TICKS + footer_height(notes), theme)
    page.heading(heading)
    box = Box(LEFT, top, WIDTH - LEFT - MARGIN, HEIGHT)
    frame(page, box)
    grey = [steps(row.scores) for name, row in rows.items() if name not in members]
    if grey:
        x, y = (np.concatenate([np.append(corners[axis], np.nan) for corners in grey]) for axis in (0, 1))
        page.line(across(box, x), box.up(y), theme.grey, 0.6, zorder=1, gid="others")
    for depth, (name, style) in enumerate(reversed(members.items())):
        own, colour = rows[name].scores, style.colour(theme)
        x, y = steps(own)
        shade = band(own)
        if shade is not None:
            low, high = (box.up(end) for end in shade)
            corners = np.stack([np.concatenate([across(box, x), across(box, x)[::-1]]), np.concatenate([low, high[::-1]])], 1)
            page.area(corners, colour, alpha=0.14, zorder=2, gid=f"band of {label(name)}")
        width = 2.2 - depth / max(1, len(members) - 1)
        page.line(
            across(box, x), box.up(y), colour, width, linestyle=style.dashes, zorder=3 + depth / len(members), gid=label(name)
        )
    name_curves(page, box, {name: (rows[name].scores, style) for name, style in members.items()}, apart(classes))
    page.footer(notes, top + HEIGHT + TICKS)
    return page


def name_curves(
    page: Page, box: Box, members: Mapping[str, tuple[list[Float[np.ndarray, " S"]], Style]], marked: frozenset[str]
) -> None:
    """Each name where its curve is furthest from the others, with the mean score."""
    curves = {}
    for name, (own, _) in members.items():
        x, y = steps(own)
        line = along(across(box, x) / POINT, box.up(y) / POINT, 4)
        curves[name] = (line[:, :2] + line[:, 2:]) / 2
    anchors, texts = [], []
    for name, line in curves.items():
        others = [curves[key] for key in curves if key != name] or [line[:1]]
        lonely = np.min([np.linalg.norm(line[:, None] - other, axis=-1).min(1) for other in others], 0)
        anchors.append(line[int(np.argmax(lonely))])
        mark = f" {APART}" if name in marked else ""
        texts.append(f"{fitted(label(name), WIDEST, NORMAL)}{mark}  {share(st.overall(members[name][0]))}")
    at = np.array(anchors).reshape(-1, 2)
    sizes = np.array([(text_width(text, NORMAL) + 3, NORMAL * LINE) for text in texts]).reshape(-1, 2)
    within = box.left / POINT + 2, box.top / POINT, box.right / POINT, box.bottom / POINT - 2
    drawn = np.concatenate([np.zeros((0, 4)), *(np.concatenate([line - 0.8, line + 0.8], 1) for line in curves.values())])
    centres = place(at, sizes, within, drawn, [range(len(at))], DISC)
    for (_, style), text, size, centre, anchor in zip(members.values(), texts, sizes, centres, at, strict=True):
        colour = style.colour(page.theme)
        page.line(anchor[:1] * POINT, anchor[1:] * POINT, colour, 0, marker="o", markersize=DISC, markeredgewidth=0, zorder=5)
        x, y = np.stack([anchor, touch(anchor, centre, size)], 1) * POINT
        page.line(x, y, colour, 0.8, zorder=5)
        page.text(centre[0] * POINT, centre[1] * POINT, text, NORMAL, ha="center", va="middle", zorder=6)


def breaks(own: Sequence[Float[np.ndarray, " S"]]) -> Float[np.ndarray, " K"]:
    """0 and the scores at which a profile falls."""
    return np.unique(np.concatenate([[0.0], *own]))


def steps(own: Sequence[Float[np.ndarray, " S"]]) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Corners of the profile from τ = 0 to 1."""
    return stairs(breaks(own), st.profile(own, breaks(own)))


def band(own: Sequence[Float[np.ndarray, " S"]]) -> Float[np.ndarray, "2 M"] | None:
    """Ends of its band at the same places; resampled runs have no other scores, so it falls at the same thresholds."""
    ends = inference.profile_band(own, breaks(own))
    return None if ends is None else np.array([stairs(breaks(own), end)[1] for end in ends])


def stairs(
    at: Float[np.ndarray, " K"], values: Float[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Corners of a curve that has a value from each of these places up to the next, the last of which is 1."""
    return np.append(at, 1.0).repeat(2)[1:-1], values.repeat(2)


def across(box: Box, threshold: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    return box.left + threshold * box.width


def frame(page: Page, box: Box) -> None:
    """Grid, values and titles of both axes."""
    theme, ticks = page.theme, np.linspace(0, 1, 5)
    levels = box.up(ticks)
    page.line(*broken(np.array([[box.left, box.right]] * 5), np.stack([levels, levels], 1)), theme.grid, 0.6, zorder=0.5)
    page.line([box.left, box.right], [box.bottom] * 2, theme.muted, 0.6, zorder=0.6)
    for tick, text in zip(ticks, ("0", ".25", ".5", ".75", "1"), strict=True):
        page.text(box.left - 0.04, box.up(tick), text, SMALL, ha="right", va="middle", color=theme.muted)
        page.text(box.left + tick * box.width, box.bottom + 0.035, text, SMALL, ha="center", color=theme.muted)
    page.text(box.left + box.width / 2, box.bottom + 0.17, "score τ", SMALL, ha="center", color=theme.muted)
    middle = box.up((LOW + HIGH) / 2)
    style: dict[str, object] = {"rotation": 90, "ha": "center", "va": "center", "color": theme.muted}
    page.text(MARGIN + SMALL * POINT / 2, middle, "share of runs above τ", SMALL, **style)


def note(others: int, bands: bool, marked: bool) -> str:
    """How to read the curves."""
    parts = ["Higher is better; each step is a run", "number: the mean score, which is the area under the curve"]
    if bands:
        parts.append(f"bands: {st.LEVEL:.0%} by stratified bootstrap, at each τ by itself")
    if others:
        parts.append(f"named: the first {BEST} of the ranking, {', '.join(REFERENCES)}; grey: the {others} others")
    if marked:
        parts.append(f"{APART} ranked apart")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
