"""The published board as files: rendered from the store's results, or compared with the files that are there.

::

    <folder>/README.md                        the front page
    <folder>/suites/<suite>.md                table of a suite; ``<suite>-<task>.md`` of a task of it
    <folder>/pages/<encoding>.md              a screen for each encoding
    <folder>/findings.md                      findings of the literature
    <folder>/text.md, sizes.md                real text; larger models
    <folder>/GALLERY.md                       an example of every task and variant
    <folder>/images/<suite>/…                 figures
    <folder>/lines.json                       line of each encoding, which `lprime show` prints
    <folder>/rendered.json                    hashes of the results and of the figures drawn from them

The repository's README.md begins with the same verdict and picture, between two comments.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import tasks
from bench.result import read_json
from leaderboard.results.file_names import IMAGES, LINES, PAGES, RESULTS, page_name, write_if_changed
from leaderboard.stats.rows import Board
from tasks import InputError, plural

from .columns import number
from .pages import FINDINGS, GALLERY, ON_TEXT, README, SIZES, SUITES, front_page, text_files
from .published import CORPORA, Published, built_in
from .verdict import leaders, main_rows, needs, references, verdict

MANIFEST = "rendered.json"
HOME, OPENING = "../../README.md", re.compile(r"(?<=<!-- verdict -->\n).*(?=<!-- end of verdict -->)", re.DOTALL)
"""The repository's first page, and the part of it that is rendered."""
MOST_NAMED = 3
"""Files that a failed check names; the others are counted."""


def page_files(published: Published) -> dict[str, str]:
    """Path → text of every page, and of the repository's README.md if it has a place for the verdict."""
    home, found = published.folder / HOME, text_files(published)
    if home.is_file() and OPENING.search(text := home.read_text(encoding="utf-8")):
        opening = front_page(published, "opening.md.j2", "leaderboard/published/")
        found[HOME] = OPENING.sub(lambda _: f"{opening}\n", text)
    return found


def figure_files(published: Published) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every figure."""
    from bench.measure.measure import attention_by_distance
    from leaderboard.figures import plots
    from leaderboard.figures.style import as_svg

    main = next(iter(published.boards.values()))
    for suite in [suite for suite in CORPORA if suite in published.compared]:
        text, compared = published.on_text[suite], published.compared[suite]
        strong = [*main_rows(main)["encoding"].head(3), *text.index[:3], *compared["apart"].index[:3], "rope"]
        tau = compared["taus"].loc[("overall", "rise"), "tau"]
        title = f"The order on synthetic tasks says {'much' if tau > 0.5 else 'little'} about real text: τ = {number(tau)}"
        yield f"{IMAGES}/{suite}/transfer.svg", as_svg(plots.on_text(main, text, strong, title))
    drawn: set[str] = set()
    for suite, board in published.boards.items():
        for name, figure in suite_figures(board):
            yield f"{IMAGES}/{suite}/{name}.svg", as_svg(figure)
        for encoding in board.rows["encoding"]:
            if encoding not in drawn:
                drawn.add(encoding)
                cls = built_in(encoding)
                figure = plots.one_encoding(board, encoding, attention_by_distance(cls) if cls else [])
                yield f"{IMAGES}/{suite}/{PAGES}/{page_name(encoding)}.svg", as_svg(figure)


def suite_figures(board: Board) -> Iterator[tuple]:
    """Name and figure of each picture of a suite and its tasks."""
    from leaderboard.figures import plots

    top, said, rope = leaders(board), verdict(board), "rope"
    strong = list(dict.fromkeys([*top["encoding"].head(plots.MOST_LINES - 1), rope]))
    if len(top):
        known = f"{said.best[0]} leads" if said.open else "Too few runs to rank"
        several = f"{said.open} encodings may be first; the best {len(top)} by score, and others"
        yield "overview", plots.overview(board, top, references(board), several if said.open > 1 else known)
    solved = sum(board.rows[f"limit.{task}"].max() >= 2 for task in board.tasks)
    title = f"At 2 L, some encoding is still half right on {solved} of {plural(len(board.tasks), 'task')}"
    yield "curves", plots.curves(board, strong, title)
    notes = {need.task: need.note for need in needs(board)}
    for task in board.tasks:
        rows = board.rows.sort_values(f"score.{task}", ascending=False, kind="stable")["encoding"]
        best = [*rows.head(plots.MOST_LINES - 1), rope]
        title = f"{tasks.title(task)}: {notes.get(task, 'no encoding learns it')}"
        yield f"task-{task}", plots.curves(board, best, title, only=[task])


def render_published(folder: Path) -> list[str]:
    """Write all files that differ from the rendering of the store, and remove those of an earlier rendering.

    Returns:
        The paths written or removed, in order.

    Raises:
        InputError: a broken or empty store, or a path that cannot be written.
    """
    published = Published(folder)
    figures = dict(figure_files(published))
    files = {path: text.encode() for path, text in page_files(published).items()} | figures
    # The front page last: it never links to a missing page.
    order = [*sorted(files, key=lambda path: (path == README, path)), *sorted(rendered_files(folder) - files.keys())]
    changed = [path for path in order if write_if_changed(folder / path, files.get(path))]
    content = result_hashes(folder) | {path: short_sha256(figures[path]) for path in sorted(figures)}
    write_if_changed(folder / MANIFEST, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return changed


def check_rendered(folder: Path) -> str:
    """Compare the published files with the store; the result in one sentence.

    Pages are rendered again. Figures must have the hashes that were written when they were drawn, from the same results.

    Raises:
        InputError: files differ (the message names the first), or the store is broken or empty.
    """
    pages, results = page_files(Published(folder)), result_hashes(folder)
    manifest, fault = folder / MANIFEST, "was not written by `lprime publish`"
    written = read_json(manifest, dict[str, str], fault, "delete it and publish again") or {}
    expected, faults = written | {path: short_sha256(text.encode()) for path, text in pages.items()}, []
    paths = expected.keys() | results.keys() | rendered_files(folder)
    for path in sorted(paths, key=lambda path: (not path.startswith(f"{RESULTS}/"), path != README, path)):
        found = short_sha256((folder / path).read_bytes()) if (folder / path).is_file() else None
        if found != expected.get(path):
            left_over = path not in expected and path not in results
            faults.append(f"{folder / path}{' (left over)' * left_over}{' (missing)' * (not found)}")
    if faults:
        more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
        named = ", ".join(faults[:MOST_NAMED])
        raise InputError(f"{named}{more}: not the rendering of {folder / RESULTS}; `lprime publish` renders all again")
    return f"{len(expected) - len(results)} files under {folder} match the {len(results)} result files"


def rendered_files(folder: Path) -> set[str]:
    """All pages and figures in the folder, expected or not."""
    kinds = (LINES, FINDINGS, ON_TEXT, SIZES, GALLERY, f"{PAGES}/**/*.md", f"{SUITES}/**/*.md", f"{IMAGES}/**/*.svg")
    return {path.relative_to(folder).as_posix() for kind in kinds for path in folder.glob(kind)}


def result_hashes(folder: Path) -> dict[str, str]:
    """Path → hash of each of the store's files."""
    found = sorted(path for path in (folder / RESULTS).rglob("*.json*") if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): short_sha256(path.read_bytes()) for path in found}


def short_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
