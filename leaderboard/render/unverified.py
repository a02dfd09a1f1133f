"""Submitted runs that nobody has recomputed, in a table of their own."""

from leaderboard.data.grid import Grid
from leaderboard.format import ABSENT, share
from leaderboard.stats.summary import summarise_encoding

from .columns import task_markdown
from .markdown import linked_name, markdown_table

ABOUT = (
    "Submitted results that nobody has recomputed in a sandbox, as mean scores. They are claims: not ranked, not tested, and "
    "in no figure. All other rows have only recomputed runs."
)


def unverified_table(grid: Grid) -> str:
    """The runs of submissions that are not recomputed, by encoding; empty without any."""
    if grid.unverified is None:
        return ""
    tasks = [f"{task_markdown(column.task)}, claimed" for column in grid.columns]
    body = []
    for name in grid.unverified.encodings:
        row = summarise_encoding(grid.unverified, name)
        count = sum(len(cell.runs) for cell in row.cells.values())
        recomputed = sum(len(grid.runs.get((column.task, name), ())) for column in grid.columns)
        scores = [share(float(cell.scores.mean())) if cell.runs else ABSENT for cell in row.cells.values()]
        body.append([linked_name(name, None), str(count), str(recomputed), *scores])
    return markdown_table(["encoding", "unverified runs", "recomputed runs", *tasks], body)


def unverified_section(grid: Grid, heading: str = "") -> list[str]:
    """The table with a title; nothing without such runs.

    Arguments:
        heading: start of the title, such as ``## ``; by default the title is bold.
    """
    title = f"{heading}Unverified" if heading else "**Unverified**"
    return [title, ABOUT, unverified_table(grid)] if grid.unverified else []
