"""Submitted runs that nobody has recomputed, in a table of their own."""

from leaderboard.data.grid import Grid
from leaderboard.format import ABSENT, share
from leaderboard.stats.summary import summarise_encoding

from .columns import task_markdown
from .markdown import escape, linked_name, markdown_table

ABOUT = (
    "Submitted results that nobody has recomputed in a sandbox, as mean scores. They are claims: not ranked, not tested, and "
    "in no figure. All other rows have only recomputed runs."
)


def counts(grid: Grid) -> dict[str, tuple[int, int]]:
    """Encoding → numbers of its unverified and of its recomputed runs."""
    if grid.unverified is None:
        return {}
    tasks = [column.task for column in grid.columns]
    return {
        name: (
            sum(len(grid.unverified.runs.get((task, name), ())) for task in tasks),
            sum(len(grid.runs.get((task, name), ())) for task in tasks),
        )
        for name in grid.unverified.encodings
    }


def unverified_counts(grid: Grid) -> list[str]:
    """A line per encoding."""
    return [f"{escape(name)}: {claimed} submitted runs, {done} recomputed" for name, (claimed, done) in counts(grid).items()]


def unverified_section(grid: Grid, heading: str = "") -> list[str]:
    """A title and a table by encoding; nothing without such runs.

    Arguments:
        heading: start of the title, such as ``## ``; by default the title is bold.
    """
    if grid.unverified is None:
        return []
    tasks = [f"{task_markdown(column.task)}, claimed" for column in grid.columns]
    body = []
    for name, (claimed, done) in counts(grid).items():
        cells = summarise_encoding(grid.unverified, name).cells.values()
        scores = [share(float(cell.scores.mean())) if cell.runs else ABSENT for cell in cells]
        body.append([linked_name(name, None), str(claimed), str(done), *scores])
    table = markdown_table(["encoding", "unverified runs", "recomputed runs", *tasks], body)
    return [f"{heading}Unverified" if heading else "**Unverified**", ABOUT, table]
