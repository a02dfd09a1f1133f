"""The published board, ``README.md`` of its folder: the answer and the first tables of one suite, and links to all the rest."""

from collections.abc import Mapping, Sequence
from importlib import resources

from leaderboard import ARCHIVE
from leaderboard.data.file_names import IMAGES
from leaderboard.data.grid import Grid
from leaderboard.stats.summary import summarise

from .answer import answer
from .board import BoardFile, BoardPaths, front_sections, joined
from .encoding_pages import README, page_path
from .explanation import ONE_DIFFERENCE, TITLE
from .markdown import escape

SUITES = "suites"
"""Folder of the suites' pages."""

ABOUT = f"""\
How far does a positional encoding carry a transformer past the lengths it was trained on? With each encoding, models are
trained from scratch at lengths up to L and tested at lengths up to L′. {ONE_DIFFERENCE}
Names link to pages with a description, curves, all numbers by length and seed, the runs and the command to reproduce one."""

SOURCES = """\
## Where the numbers come from

- **Scores and reaches** come from the runs in [results](results), one line each; step times, memory and properties from
  `results/cards.json`, measured once for each encoding; findings from `results/findings.json`, probes from `probes`.
  `lprime board --check` renders this page and all others from these files and fails if a byte differs.
- **To sort, filter and compare**: `lprime board --html page --published` writes all this as one HTML page that works
  offline.
- **To reproduce a number**: the page of its encoding has the command, such as
  `lprime run small --encoding rope --task copying --seed 0 --out again`.
- **To add an encoding**: [from an idea to a row](../../CONTRIBUTING.md#your-own-encoding-in-an-afternoon), by [the
  rules](../RULES.md)."""


def render_front_page(suites: Mapping[str, Sequence[Grid]], archived: Sequence[str], pages: Sequence[str]) -> str:
    """The whole file: the first suite with its tables, the others with their answers.

    Arguments:
        suites: suite → its versions, newest first, as ``store.published_grids`` returns them.
        archived: see ``archive_line``.
        pages: links to further pages.
    """
    parts = [f"# {TITLE}", ABOUT]
    if not suites:
        parts.append("No results yet: `lprime run small` makes runs, and `lprime publish small` adds them here.")
    for i, (name, (grid, *_)) in enumerate(suites.items()):
        file = BoardFile(README, published_paths(name))
        parts.append(f"## Suite {escape(name)}")
        if i:
            parts += [escape(grid.suite.about, 1000) if grid.suite else "", "Numbers of different suites do not compare."]
            parts += [answer(grid, summarise(grid), file.encoding.as_markdown)]
            parts += [f"[All tables and figures]({file.link(file.paths.details)})", not_run(grid)]
        else:
            parts += [*front_sections(grid, summarise(grid), file), recipe_links(grid), not_run(grid)]
    if pages:
        parts.append(f"More: {' · '.join(pages)}.")
    return joined([*parts, SOURCES if suites else "", archive_line(archived)])


def published_paths(suite: str) -> BoardPaths:
    """The files of a suite in the folder of the published board."""
    folder = f"{SUITES}/{suite}"
    return BoardPaths(README, f"{folder}/{README}", f"{folder}/task-", f"{IMAGES}/{suite}/", page_path)


def archive_line(archived: Sequence[str]) -> str:
    """Links to the archived boards of earlier versions: folders of ``leaderboard.ARCHIVE``; empty without any."""
    links = " · ".join(f"[{name}](../{ARCHIVE.name}/{name}/{README})" for name in archived)
    return f"Boards of earlier versions, whose numbers do not compare with these: {links}." if links else ""


def not_run(grid: Grid) -> str:
    """The built-in encodings without a run; empty if there are none. Every built-in encoding has a card, so all are known."""
    missing, known = sorted(set(grid.past) - set(grid.encodings)), len(grid.past)
    if not missing:
        return ""
    names = f": {', '.join(map(escape, missing))}" if len(missing) < known / 2 else ""
    return f"**Not run yet**: {len(missing)} of the {known} encodings known here, so a better one may be among them{names}."


def recipe_links(grid: Grid) -> str:
    """Links to a built-in suite's file and to how its settings were chosen."""
    if grid.suite is None or not resources.files("bench.suites").joinpath(f"{grid.name}.yaml").is_file():
        return ""
    folder = "../../bench/suites"
    return (
        f"Tasks, model and recipe: [{grid.name}.yaml]({folder}/{grid.name}.yaml). "
        f"[How they were chosen]({folder}/CALIBRATION.md)."
    )
