"""What the tests of pictures share: grids, and looking into a page and into an SVG."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import numpy as np
from synthetic_results import full, record, result, suite

from bench.results import Timings
from leaderboard import grid, plot
from leaderboard.summary import summarise
from leaderboard.theme import LIGHT

SVG = "{http://www.w3.org/2000/svg}"
CURVES = {"nope": (1, 1, 0.5, 0.25), "rope": (1, 0.9, 0.1, 0)}


def only(of, runs, failures=None):
    (found,) = grid.build(of, runs, failures or {})
    return found


def simple(**changes):
    return only(of := suite(**changes), full(of, CURVES))


def crowd(count: int, families: int = 5, seeds: Sequence[int] = (0, 1, 2)):
    """A grid of so many encodings, ``nope``, ``e01``, ``e02``, …: each with a family, a step time and curves of its own."""
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
                timings = Timings(step_ms=pace, train_s=8.0, evaluate_s=1.0, total_s=9.0)
                runs.append(result(of, task, made, seed, exact, timings=timings))
    return only(of, runs)


def page_of(draw, *arguments, theme=LIGHT):
    """The page that a picture is."""
    with plot.fresh_settings(theme):
        return draw(*arguments, theme)


def classes_of(found):
    return summarise(found)


def lines(page, gid):
    """Lines of that name on a page, in the order they were drawn."""
    return [artist for artist in page.figure.get_children() if artist.get_gid() == gid]


def texts(page):
    return [text.get_text() for text in page.figure.texts]


def svg_texts(data: bytes):
    return [element.text for element in ET.fromstring(data).iter(f"{SVG}text")]
