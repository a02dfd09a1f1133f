"""Figures of probes as files: those of a suite, and of each encoding for its own page."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from leaderboard.data.file_names import IMAGES, PAGES, page_name
from leaderboard.data.grid import Grid
from leaderboard.stats.association import association

from .association import STEM as ASSOCIATION
from .association import draw_association
from .canvas import file_name, render_svgs
from .inside import SUITE_FIGURES, Records, divergences, encoding_figure, of, split
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "inside"


def suite_stems(records: Records) -> list[str]:
    """The figures that a suite's records allow."""
    return [probe for probe in SUITE_FIGURES if of(records, probe) and (probe != "similarity" or divergences(records))]


def suite_path(suite: str, stem: str, look: str) -> str:
    """The path of a suite's figure, relative to the board."""
    return f"{IMAGES}/{suite}/{FOLDER}/{file_name(stem, look)}"


def encoding_path(suite: str, encoding: str, look: str) -> str:
    """The path of the figure of an encoding's page, relative to the board."""
    return f"{IMAGES}/{suite}/{FOLDER}/{PAGES}/{file_name(page_name(encoding), look)}"


def figure_files(probes: Mapping[str, Records], suites: Mapping[str, Sequence[Grid]], paged: set[str]) -> dict[str, bytes]:
    """Path → bytes of all figures of probes.

    Arguments:
        probes: suite → records.
        suites: suite → its versions.
        paged: encodings that have a page.
    """
    files = {}

    def add(path: Callable[[str], str], draw: "Callable[[Theme], Figure]") -> None:
        files.update({path(look): data for look, data in render_svgs(draw).items()})

    for suite, records in probes.items():
        if (versions := suites.get(suite)) and (goes := association(versions[0])) and goes.found:
            add(partial(suite_path, suite, ASSOCIATION), partial(draw_association, goes))
        for stem in suite_stems(records):
            add(partial(suite_path, suite, stem), partial(SUITE_FIGURES[stem], records))
        for encoding in split(records, "encoding"):
            if encoding in paged and has_figure(records, encoding):
                add(partial(encoding_path, suite, encoding), partial(encoding_figure, records, encoding))
    return files


def has_figure(records: Records, encoding: str) -> bool:
    """Whether there is a figure for the encoding's page."""
    return any(of(records, probe, encoding=encoding) for probe in ("position", "distance", "growth", "context"))
