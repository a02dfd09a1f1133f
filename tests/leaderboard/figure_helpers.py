"""Shared by the tests of figures: grids, and looking into figures and SVGs."""

import warnings
from collections.abc import Sequence
from xml.etree import ElementTree as ET

import numpy as np
from matplotlib.text import Text
from synthetic_results import full, only_grid, record, result, suite, timings

from leaderboard.figures import canvas
from leaderboard.figures.theme import LIGHT

SVG = "{http://www.w3.org/2000/svg}"
CURVES = {"nope": (1, 1, 0.5, 0.25), "rope": (1, 0.9, 0.1, 0)}


def simple(**changes):
    return only_grid(of := suite(**changes), full(of, CURVES))


def crowd(count: int, families: int = 5, seeds: Sequence[int] = (0, 1, 2)):
    """A grid of ``count`` encodings, ``nope``, ``e01``, ``e02``, …, each with its own family, step time and curves."""
    names = ["nope", *(f"e{i:02}" for i in range(1, count))]
    of = suite(seeds=list(seeds), encodings=names)
    rng, runs = np.random.default_rng(count), []
    for i, name in enumerate(names):
        made = record(name, family=f"family {i % families}")
        pace = 10.0 * np.exp(rng.exponential(0.3))
        for task in ("parity", "sorting"):
            floor = 0.5 * (task == "parity")
            for seed in seeds:
                past = np.sort(rng.integers(101, size=2))[::-1] / 100
                exact = [1, 1, *(floor + (1 - floor) * past)]
                runs.append(result(of, task, made, seed, exact, timings=timings(pace)))
    return only_grid(of, runs)


def figure_of(draw, *arguments, theme=LIGHT):
    """The figure that a function draws."""
    with canvas.figure_settings(theme), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure = draw(*arguments, theme)
        figure.draw_without_rendering()  # places titles
    return figure


def lines(ax, name):
    """The lines of that name in an axes."""
    return [line for line in ax.get_lines() if line.get_label() == name]


def line_of(ax, name):
    """x and y of the only line of that name."""
    (line,) = lines(ax, name)
    return line.get_data()


def texts(artist):
    """All texts in a figure or axes, running text on one line."""
    return [text.get_text().replace("\n", " ") for text in artist.findobj(Text) if text.get_text()]


def bold_names(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts if text.get_fontweight() == "bold"]


def overlaps(figure):
    """Pairs of texts that overlap, and texts that are cut off at the edge of the figure."""
    outside = set()
    for ax in figure.axes:
        for i, (low, high) in enumerate((sorted(ax.get_xlim()), sorted(ax.get_ylim()))):
            ticks = (ax.get_xticklabels, ax.get_yticklabels)[i]()
            outside |= {tick for tick in ticks if not low <= tick.get_position()[i] <= high}  # not drawn
    shown = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible() and t not in outside]
    boxes = [text.get_window_extent().padded(-0.8) for text in shown]
    names = [text.get_text() for text in shown]
    cut = [name for name, box in zip(names, boxes, strict=True) if not figure.bbox.padded(1).containsx(box.x1)]
    cut += [n for n, box in zip(names, boxes, strict=True) if min(box.x0, box.y0) < 0 or box.y1 > figure.bbox.y1]
    return [(names[i], names[j]) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])] + cut


def svg_texts(data: bytes):
    return [element.text for element in ET.fromstring(data).iter(f"{SVG}text")]
