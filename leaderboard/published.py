"""The published board as files: everything that the store gives, written beside it, or compared with what is there.

::

    <folder>/README.md                      the board
    <folder>/encodings/<name>.md            a page an encoding
    <folder>/pictures/<suite>/…             the board's pictures, and in ``encodings/`` the pages'
    <folder>/rendered.json                  what all that was made with, and the hash of every file
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from tasks import InputError

from . import encoding_pages as pages
from . import encoding_pictures, pictures, readme
from .cards import Card, priced, read_cards
from .grid import Grid
from .store import RESULTS, grids, read, write_changed
from .summary import summarise

MANIFEST = "rendered.json"
STRANGER = "nothing we made: move it away"
NAMED = 3
"""Files that a failed check names; the others are counted."""


@dataclass(frozen=True)
class Board:
    """Everything published, read once."""

    suites: Mapping[str, list[Grid]]
    cards: Mapping[str, Card]

    @cached_property
    def classes(self) -> dict[str, list[readme.Classes]]:
        return {name: [summarise(grid) for grid in versions] for name, versions in self.suites.items()}

    @cached_property
    def entries(self) -> dict[str, dict[str, list[pages.Entry]]]:
        """Encoding → suite → its versions with runs of it, newest first."""
        found: dict[str, dict[str, list[pages.Entry]]] = {}
        for name, versions in self.suites.items():
            for grid, classes in zip(versions, self.classes[name], strict=True):
                for rows in classes.values():
                    for row in (row for row in rows if row.record):
                        found.setdefault(row.name, {}).setdefault(name, []).append(pages.Entry(grid, row, rows))
        return dict(sorted(found.items()))

    def text(self) -> dict[str, bytes]:
        """Path → bytes of what no drawing library has a part in: the board, the pages and their pictures."""
        files = {readme.README: readme.render(self.suites, self.classes, list(self.cards)).encode()}
        for encoding, suites in self.entries.items():
            files[pages.address(encoding)] = pages.render(encoding, suites, self.cards.get(encoding, Card())).encode()
            for name, entries in suites.items():
                for look, data in encoding_pictures.encoding_curves(entries[0].grid, encoding).items():
                    files[pages.curves(name, encoding, look)] = data
        return files

    def draws(self, path: str) -> bool:
        """Whether a path is the place of one of the board's pictures."""
        return (parts := Path(path).parts)[0] == "pictures" and len(parts) == 3 and parts[1] in self.suites

    def drawn(self) -> dict[str, bytes]:
        """Path → bytes of the board's pictures."""
        return {
            f"pictures/{name}/{file}": data
            for name, versions in self.suites.items()
            for file, data in pictures.draw(versions[0], self.classes[name][0]).items()
        }


def read_board(folder: Path) -> Board:
    """Everything in a leaderboard's store.

    Raises:
        InputError: a file that cannot be read, or is not what it should be.
    """
    cards = read_cards(folder)
    return Board(priced(grids(folder), cards), cards)


def render(folder: Path) -> list[str]:
    """Write whatever differs from what the store gives, and remove what an earlier rendering left; the paths, in order.

    Raises:
        InputError: a broken store, nothing in it, or a place that cannot be written.
    """
    board = read_board(folder)
    if not board.suites:
        raise InputError(
            f"nothing is published under {folder / RESULTS}; `lprime publish SUITE` puts the results of a suite there"
        )
    old = (read_manifest(folder) or {}).get("files", {})
    files = board.text() | board.drawn()
    changed = [path for path in sorted(old) if path not in files and write_changed(folder / path, None)]
    # The board last, so that it never leads to a page or a picture that is not there.
    for path in sorted(files, key=lambda p: (p == readme.README, p)):
        if write_changed(folder / path, files[path]):
            changed.append(path)
    write_changed(folder / MANIFEST, manifest(folder, files))
    return changed


def check(folder: Path) -> str:
    """Compare the published files with what the store gives, byte for byte; what was found, in one sentence.

    The board's pictures are drawn again where the libraries are those that drew them; elsewhere they must at least be the files
    that were published.

    Raises:
        InputError: they differ, with the first files by name; or the store is broken.
    """
    board, written = read_board(folder), read_manifest(folder)
    if not board.suites and written is None:
        return f"nothing is published under {folder}"
    if written is None:
        raise InputError(f"{folder / MANIFEST} is missing; `lprime publish` writes it again")
    known, here = written["files"], drawn_with()
    redraw = written["drawn with"] == here
    files = board.text() if board.suites else {}
    kept = {path: h for path, h in known.items() if path not in files and board.draws(path)}
    expected = {path: digest(data) for path, data in files.items()}
    expected |= {p: digest(data) for p, data in board.drawn().items()} if redraw else kept
    expected |= results(folder) if board.suites else {}

    faults = differences(folder, expected, known | written["results"])
    if faults:
        more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
        raise InputError(
            f"{', '.join(faults[:NAMED])}{more}: not what {folder / RESULTS} gives; `lprime publish` renders all again"
        )
    count = len(written["results"])
    compared = f"{len(expected) - count} files under {folder} are what {count} files of results give"
    if redraw:
        return compared
    versions = ", ".join(f"{k} {v} (here {here.get(k)})" for k, v in written["drawn with"].items() if here.get(k) != v)
    return f"{compared}; {len(kept)} pictures were not drawn again, only found unchanged: they come from {versions}"


def differences(folder: Path, expected: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Files that are missing, differ, or are left over, with that said; the board first.

    Arguments:
        expected: path → hash of what the store gives, its own files included.
        known: the same of what was published, as the manifest tells.
    """
    faults = []
    for path in sorted(expected.keys() | known.keys() | strays(folder), key=lambda p: (p != readme.README, p)):
        there = (folder / path).is_file()
        if path not in expected:
            faults += [f"{folder / path} ({'left over' if path in known else STRANGER})"] if there or path in known else []
        elif not there:
            faults.append(f"{folder / path} (missing)")
        elif digest(read(folder / path)) != expected[path] or known.get(path) != expected[path]:
            faults.append(str(folder / path))
    return faults


def strays(folder: Path) -> set[str]:
    """Pages and pictures that are there, wanted or not."""
    found = [
        *(folder / pages.FOLDER).glob("*.md"),
        *(folder / "pictures").rglob("*.png"),
        *(folder / "pictures").rglob("*.svg"),
    ]
    return {path.relative_to(folder).as_posix() for path in found}


def ours(path: str) -> bool:
    """Whether a path below the board's folder may be that of a file we render, and remove again."""
    parts = Path(path).parts
    return path == readme.README or (len(parts) > 1 and parts[0] in (pages.FOLDER, "pictures") and ".." not in parts)


def manifest(folder: Path, files: Mapping[str, bytes]) -> str:
    hashes = {path: digest(files[path]) for path in sorted(files)}
    return (
        json.dumps({"drawn with": drawn_with(), "results": results(folder), "files": hashes}, indent=1, ensure_ascii=False)
        + "\n"
    )


def read_manifest(folder: Path) -> dict[str, dict[str, str]] | None:
    """What the last rendering wrote of itself; None where there was none.

    Raises:
        InputError: a broken file.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        found = json.loads(read(path))
        parts = [found["drawn with"], found["results"], found["files"]]
        whole = all(isinstance(v, str) for part in parts for v in part.values())
        safe = all(map(ours, found["files"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        whole = safe = False
    if not (whole and safe):
        raise InputError(f"{path} is not what `lprime publish` wrote; take it back from git, or delete it and publish again")
    return found


def results(folder: Path) -> dict[str, str]:
    """Path → hash of the store's files."""
    found = sorted(path for path in (folder / RESULTS).rglob("*.json*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): digest(read(path)) for path in found}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def drawn_with() -> dict[str, str]:
    """Whatever decides the bytes of a drawing."""
    from matplotlib.ft2font import __freetype_version__

    packages = {name: metadata.version(name) for name in ("matplotlib", "numpy", "pillow")}
    return packages | {"freetype": __freetype_version__, "machine": platform.machine()}
