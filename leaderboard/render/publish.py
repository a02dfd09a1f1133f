"""The published board as files: rendered from the store's results, or compared with the files that are there.

::

    <folder>/README.md                      the front page
    <folder>/suites/<suite>/…               pages of a suite: all tables and figures, and each task
    <folder>/INSIDE.md                      what probes found, and suites that boards do not rank, if there are any
    <folder>/pages/<name>.md                a page for each encoding
    <folder>/findings.md                    published findings, and whether they were reproduced
    <folder>/images/<suite>/…               the board's figures, and in ``pages/`` those of the encoding pages
    <folder>/rendered.json                  library versions, and the hash of every file
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path

from bench.findings.finding import shipped_findings
from bench.findings.outcome import Outcome, published_outcomes, read_outcomes
from bench.probe.record import ProbeRecord
from leaderboard import ARCHIVE
from leaderboard.data.cards import Card, read_cards, with_cards
from leaderboard.data.conditions import attach_conditions, attach_others
from leaderboard.data.file_names import IMAGES, PAGES
from leaderboard.data.grid import Grid
from leaderboard.data.probes import with_probes
from leaderboard.data.record_files import read_file, write_if_changed
from leaderboard.data.store import RESULTS, published_grids
from leaderboard.figures import board_figures, encoding_figure, inside_files
from leaderboard.results.probes import PROBES
from leaderboard.stats.summary import summarise
from tasks import InputError

from .board import render_details
from .encoding_pages import Entry, figure_path, page_path, render_encoding_page
from .findings_page import FINDINGS, render_findings
from .front_page import README, SUITES, published_paths, render_front_page
from .inside_page import INSIDE, inside_section, render_inside

MANIFEST = "rendered.json"
MOST_NAMED = 3
"""Files that a failed check names; the others are counted."""


@dataclass(frozen=True)
class PublishedBoard:
    """Everything published, read once."""

    grids: Mapping[str, list[Grid]]
    """Suite → its versions, newest first."""
    cards: Mapping[str, Card]
    archived: Sequence[str] = ()
    """Names of the archived boards next to this one."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """Finding → outcome."""

    @cached_property
    def suites(self) -> dict[str, list[Grid]]:
        """Those with tasks that boards rank by. The others are only on the page of probes."""
        ranked = {name: [grid for grid in versions if grid.columns] for name, versions in self.grids.items()}
        return {name: versions for name, versions in ranked.items() if versions}

    @cached_property
    def inside(self) -> dict[str, Sequence[ProbeRecord]]:
        """Suite → records of its probes: of those without a board, then of the others that have some."""
        probes = {name: versions[0].probes for name, versions in self.grids.items()}
        unranked = {name: own for name, own in probes.items() if name not in self.suites}
        return unranked | {name: own for name, own in probes.items() if own}

    @cached_property
    def entries(self) -> dict[str, dict[str, list[Entry]]]:
        """Encoding → suite → the versions with runs of it, newest first."""
        found: dict[str, dict[str, list[Entry]]] = {}
        for name, versions in self.suites.items():
            for grid in versions:
                for rows in summarise(grid).values():
                    for row in (row for row in rows if row.record):
                        found.setdefault(row.name, {}).setdefault(name, []).append(Entry(grid, row, rows))
        return dict(sorted(found.items()))

    def more_pages(self) -> list[str]:
        """Links to the pages that are not of a suite."""
        inside = [f"[what the models do inside]({INSIDE})"] if self.inside else []
        return inside + ([f"[published findings, reproduced or not]({FINDINGS})"] if self.outcomes else [])

    def text_files(self) -> dict[str, bytes]:
        """Path → bytes of the board and the pages, which no drawing library affects."""
        files = {README: render_front_page(self.suites, self.archived, self.more_pages()).encode()}
        for name, versions in self.suites.items():
            pages = render_details(versions, published_paths(name))
            files |= {path: text.encode() for path, text in pages.items()}
        if self.outcomes:
            files[FINDINGS] = render_findings(shipped_findings(), self.outcomes).encode()
        for encoding, suites in self.entries.items():
            page = render_encoding_page(encoding, suites, self.cards.get(encoding, Card()))
            files[page_path(encoding)] = (page + inside_section(encoding, self.inside, self.grids)).encode()
        if self.inside:
            files[INSIDE] = render_inside(self.inside, self.grids, self.outcomes).encode()
        return files

    def is_figure(self, path: str) -> bool:
        """Whether a path is that of one of the board's figures."""
        return (parts := Path(path).parts)[0] == IMAGES and len(parts) > 2 and parts[1] in (*self.suites, *self.inside)

    def figure_files(self) -> dict[str, bytes]:
        """Path → bytes of the figures of the board and of the pages."""
        files = {
            f"{IMAGES}/{name}/{file}": data
            for name, versions in self.suites.items()
            for file, data in board_figures.draw(versions[0]).items()
        }
        for encoding, suites in self.entries.items():
            for name, entries in suites.items():
                for look, data in encoding_figure.render_encoding(entries[0].grid, encoding).items():
                    files[figure_path(name, encoding, look)] = data
        return files | inside_files.figure_files(self.inside, self.grids, set(self.entries))


def read_published_board(folder: Path) -> PublishedBoard:
    """Read a leaderboard's store.

    Raises:
        InputError: a file that cannot be read or is malformed.
    """
    cards, grids = read_cards(folder), published_grids(folder)
    archived = sorted(path.parent.name for path in (folder.parent / ARCHIVE.name).glob(f"*/{README}"))
    return PublishedBoard(
        attach_others(attach_conditions(with_cards(with_probes(grids, folder), cards))),
        cards,
        archived,
        read_outcomes(published_outcomes(folder)),
    )


def render_published(folder: Path) -> list[str]:
    """Write all files that differ from the rendering of the store, and remove those of an earlier rendering.

    A store with cards but no results gives a board that says so.

    Returns:
        The paths written or removed, in order.

    Raises:
        InputError: a broken or empty store, or a path that cannot be written.
    """
    board = read_published_board(folder)
    if not board.suites and not board.cards:
        raise InputError(f"nothing is published under {folder / RESULTS}; `lprime publish SUITE` adds the results of a suite")
    old = (read_manifest(folder) or {}).get("files", {})
    files = board.text_files() | board.figure_files()
    # The board after all it links to and before what it no longer links to: it never links to a missing page or figure.
    order = [*sorted(files, key=lambda path: (path == README, path)), *sorted(old.keys() - files.keys())]
    changed = [path for path in order if write_if_changed(folder / path, files.get(path))]
    write_if_changed(folder / MANIFEST, manifest_json(folder, files))
    return changed


def check_rendered(folder: Path) -> str:
    """Compare the published files with a new rendering of the store, byte for byte; the result in one sentence.

    The board's figures are drawn again only if the installed libraries are those that drew them; otherwise they must still have
    the published hashes.

    Raises:
        InputError: files differ (the message names the first), or the store is broken or empty.
    """
    board, written = read_published_board(folder), read_manifest(folder)
    if not board.suites and written is None:
        raise InputError(f"nothing is published under {folder}; expected {RESULTS}/<suite>/<encoding>.jsonl")
    if written is None:
        raise InputError(f"{folder / MANIFEST} is missing; `lprime publish` writes it again")
    known, here = written["files"], drawing_versions()
    redraw = written["drawn with"] == here
    files = board.text_files()
    kept = {path: h for path, h in known.items() if path not in files and board.is_figure(path)}
    expected = {path: short_sha256(data) for path, data in files.items()}
    expected |= {p: short_sha256(data) for p, data in board.figure_files().items()} if redraw else kept
    expected |= result_hashes(folder)

    faults = differences(folder, expected, known | written["results"])
    if faults:
        more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
        named = ", ".join(faults[:MOST_NAMED])
        raise InputError(f"{named}{more}: not the rendering of {folder / RESULTS}; `lprime publish` renders all again")
    count = len(written["results"])
    compared = f"{len(expected) - count} files under {folder} match the {count} result files"
    if redraw:
        return compared
    versions = ", ".join(f"{k} {v} (here {here.get(k)})" for k, v in written["drawn with"].items() if here.get(k) != v)
    return f"{compared}; {len(kept)} figures are unchanged but were not drawn again: they come from {versions}"


def differences(folder: Path, expected: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Files that are missing, differ, or are left over, each with the reason; the board first.

    Arguments:
        expected: path → hash of the store's files and their rendering.
        known: the same as recorded in the manifest.
    """
    faults = []
    for path in sorted(expected.keys() | known.keys() | existing_files(folder), key=lambda p: (p != README, p)):
        exists = (folder / path).is_file()
        if path not in expected:
            reason = "left over" if path in known else "not written by lprime, move it away"
            faults += [f"{folder / path} ({reason})"] if exists or path in known else []
        elif not exists:
            faults.append(f"{folder / path} (missing)")
        elif short_sha256(read_file(folder / path)) != expected[path] or known.get(path) != expected[path]:
            faults.append(str(folder / path))
    return faults


def existing_files(folder: Path) -> set[str]:
    """All pages and figures in the folder, expected or not."""
    images = folder / IMAGES
    found = [*(folder / PAGES).glob("*.md"), *(folder / SUITES).glob("*/*.md"), *images.rglob("*.png"), *images.rglob("*.svg")]
    return {path.relative_to(folder).as_posix() for path in found}


def is_rendered_path(path: str) -> bool:
    """Whether a path below the board's folder may belong to a rendered file, which rendering again may remove."""
    parts = Path(path).parts
    return path in (README, FINDINGS, INSIDE) or (len(parts) > 1 and parts[0] in (PAGES, IMAGES, SUITES) and ".." not in parts)


def manifest_json(folder: Path, files: Mapping[str, bytes]) -> str:
    hashes = {path: short_sha256(files[path]) for path in sorted(files)}
    content = {"drawn with": drawing_versions(), "results": result_hashes(folder), "files": hashes}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_manifest(folder: Path) -> dict[str, dict[str, str]] | None:
    """The manifest of the last rendering; None if there is none.

    Raises:
        InputError: a broken file.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        manifest = json.loads(read_file(path))
        parts = [manifest["drawn with"], manifest["results"], manifest["files"]]
        valid = all(isinstance(v, str) for part in parts for v in part.values()) and all(map(is_rendered_path, parts[2]))
    except (ValueError, TypeError, KeyError, AttributeError):
        valid = False
    if not valid:
        raise InputError(f"{path} was not written by `lprime publish`; restore it from git, or delete it and publish again")
    return manifest


def result_hashes(folder: Path) -> dict[str, str]:
    """Path → hash of each of the store's files."""
    files = (path for place in (RESULTS, PROBES) for path in (folder / place).rglob("*.json*"))
    found = sorted(path for path in files if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): short_sha256(read_file(path)) for path in found}


def short_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def drawing_versions() -> dict[str, str]:
    """Versions that the bytes of a figure depend on, in addition to the results."""
    from matplotlib.ft2font import __freetype_version__

    packages = {name: metadata.version(name) for name in ("matplotlib", "numpy")}
    return packages | {"freetype": __freetype_version__, "machine": platform.machine()}
