"""The published board as files: rendered from the store's results, or compared with the files that are there.

::

    <folder>/README.md                        the front page
    <folder>/suites/<suite>.md                table of a suite; ``<suite>-<task>.md`` of a task of it
    <folder>/pages/<encoding>.md              a screen for each encoding
    <folder>/findings.md, INSIDE.md           findings of the literature, and about the insides of models
    <folder>/images/<suite>/…                 figures
    <folder>/rendered.json                    versions of the drawing libraries, and the hash of every file
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from leaderboard.results.file_names import IMAGES, PAGES, page_name
from leaderboard.results.files import RESULTS, read_file, write_if_changed
from leaderboard.results.probes import PROBES, probe_frame, read_published
from tasks import InputError

from .pages import FINDINGS, INSIDE, README, SUITES, text_files
from .published import Published
from .verdict import leaders, main_rows, references, verdict

MANIFEST = "rendered.json"
MOST_NAMED = 3
"""Files that a failed check names; the others are counted."""
DRAWN_WITH = ("matplotlib", "numpy")


def figure_files(published: Published) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every figure."""
    from leaderboard.figures import inside, plots
    from leaderboard.figures.style import as_svg

    for suite, board in published.boards.items():
        first, rope = list(leaders(board, plots.MOST_LINES - 1)["encoding"]), "rope"
        strong = first if rope in first else [*first, rope]
        said, top = verdict(board), leaders(board)
        title = f"{said.open or len(top)} encodings may be first" if said.open != 1 else f"{said.best[0]} leads"
        place = f"{IMAGES}/{suite}"
        if len(main_rows(board)):
            yield f"{place}/overview.svg", as_svg(plots.overview(board, top, references(board), title))
        if main_rows(board)["step_time"].notna().any():
            yield f"{place}/cost.svg", as_svg(plots.cost(board, strong))
        yield f"{place}/curves.svg", as_svg(plots.curves(board, strong, "Exact match by test length, chance-corrected"))
        for task in board.tasks:
            rows = board.rows.sort_values(f"score.{task}", ascending=False, kind="stable")["encoding"]
            best = [*rows.head(plots.MOST_LINES - 1), rope]
            yield f"{place}/task-{task}.svg", as_svg(plots.curves(board, best, "The first four, and rope", only=[task]))
        if not said.one_rate:
            yield f"{place}/rates.svg", as_svg(plots.rates(board, strong))
    drawn: set[str] = set()
    for suite, board in published.boards.items():
        for name in board.rows["encoding"]:
            if name not in drawn:
                drawn.add(name)
                yield f"{IMAGES}/{suite}/{PAGES}/{page_name(name)}.svg", as_svg(plots.one_encoding(board, name))
    probes = read_published(published.folder)
    if probes:
        frame = probe_frame(record for own in probes.values() for record in own)
        for name, chart in inside.CHARTS.items():
            if chart.where["suite"] in probes:
                yield f"{IMAGES}/inside/{name}.svg", as_svg(inside.draw(chart, frame))


def render_published(folder: Path) -> list[str]:
    """Write all files that differ from the rendering of the store, and remove those of an earlier rendering.

    Returns:
        The paths written or removed, in order.

    Raises:
        InputError: a broken or empty store, or a path that cannot be written.
    """
    published = Published(folder)
    files = {path: text.encode() for path, text in text_files(published).items()} | dict(figure_files(published))
    old = read_manifest(folder)["files"] if (folder / MANIFEST).exists() else {}
    # The front page last: it never links to a missing page.
    order = [*sorted(files, key=lambda path: (path == README, path)), *sorted(old.keys() - files.keys())]
    changed = [path for path in order if write_if_changed(folder / path, files.get(path))]
    hashes = {path: short_sha256(files[path]) for path in sorted(files)}
    content = {"drawn with": drawing_versions(), "results": result_hashes(folder), "files": hashes}
    write_if_changed(folder / MANIFEST, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return changed


def check_rendered(folder: Path) -> str:
    """Compare the published files with the store; the result in one sentence.

    Pages are rendered again. Figures must have the hashes that were written when they were drawn, from the same results.

    Raises:
        InputError: files differ (the message names the first), or the store is broken or empty.
    """
    published = Published(folder)
    expected = {path: short_sha256(text.encode()) for path, text in text_files(published).items()}
    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder / MANIFEST} is missing; `lprime publish` writes it again")
    written = read_manifest(folder)
    expected |= {path: value for path, value in written["files"].items() if path.startswith(f"{IMAGES}/")}
    results = result_hashes(folder)
    faults = [str(folder / path) for path in sorted(results.keys() | written["results"].keys())
              if results.get(path) != written["results"].get(path)]  # fmt: skip
    faults += differences(folder, expected, written["files"])
    if faults:
        more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
        named = ", ".join(faults[:MOST_NAMED])
        raise InputError(f"{named}{more}: not the rendering of {folder / RESULTS}; `lprime publish` renders all again")
    return f"{len(expected)} files under {folder} match the {len(results)} result files"


def differences(folder: Path, expected: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Files that are missing, differ, or are left over, the front page first.

    Arguments:
        expected: path → hash.
        known: the same as recorded in the manifest.
    """
    faults = []
    for path in sorted(expected.keys() | known.keys() | existing_files(folder), key=lambda p: (p != README, p)):
        if path not in expected:
            faults.append(f"{folder / path} (left over)")
        elif not (folder / path).is_file():
            faults.append(f"{folder / path} (missing)")
        elif short_sha256(read_file(folder / path)) != expected[path] or known.get(path) != expected[path]:
            faults.append(str(folder / path))
    return faults


def existing_files(folder: Path) -> set[str]:
    """All pages and figures in the folder, expected or not."""
    found = [*(folder / PAGES).rglob("*.md"), *(folder / SUITES).rglob("*.md"), *(folder / IMAGES).rglob("*.*")]
    return {path.relative_to(folder).as_posix() for path in found if path.is_file()}


def is_rendered_path(path: str) -> bool:
    """Whether a path below the board's folder may belong to a rendered file, which rendering again may remove."""
    parts = Path(path).parts
    return path in (README, FINDINGS, INSIDE) or (len(parts) > 1 and parts[0] in (PAGES, IMAGES, SUITES) and ".." not in parts)


def read_manifest(folder: Path) -> dict[str, dict[str, str]]:
    """The manifest of the last rendering.

    Raises:
        InputError: a broken file.
    """
    path = folder / MANIFEST
    try:
        manifest: Any = json.loads(read_file(path))
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
    return {name: metadata.version(name) for name in DRAWN_WITH}
