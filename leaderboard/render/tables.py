"""The board's tables and lists as markdown."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from leaderboard.data.grid import Column, Grid
from leaderboard.format import ABSENT, FLAG, SECOND_HAND, VISIBLE_CHANCE, listed, reach_text, seed_list, share, signed
from leaderboard.stats import scores as st
from leaderboard.stats.resolution import CEILING, FLOOR, Resolution
from leaderboard.stats.rows import Cell, Row

from . import columns, task_metrics
from .columns import TableColumn, task_column
from .markdown import code, escape, link, linked_name, markdown_table, web_address

PAPER_LINK = columns.encoding_column(lambda row: linked_name(row.name, web_address(row.record.link) if row.record else None))
"""The encoding's name, linked to its paper."""


def rows_table(shown: Sequence[TableColumn], rows: Sequence[Row], left: int = 1) -> str:
    """A line per encoding with these columns."""
    return markdown_table([escape(c.title, 200) for c in shown], [[c.as_markdown(row) for c in shown] for row in rows], left)


def short_columns(grid: Grid, rows: Sequence[Row], encoding: TableColumn = columns.ENCODING) -> list[TableColumn]:
    """The columns of the first table, in which everything needed for a decision fits 948 pixels.

    Tiers have a column where they were tested; names have their marks.

    Arguments:
        encoding: the column of names.
    """
    tested = any(row.tier for row in rows)
    marked = replace(
        encoding,
        text=lambda row: encoding.text(row) + marks(row),
        markdown=lambda row: encoding.as_markdown(row) + marks(row),
    )
    reach = replace(columns.MEAN_REACH, text=lambda row: reach_text(row.reach, 1) if row.reach else ABSENT)
    score = replace(columns.SCORE, text=lambda row: ABSENT if row.score is None else share(row.score))
    of_task = replace(task_metrics.SCORE, of_runs=lambda cell, row: share(cell.scores.mean()))
    return [
        *([columns.TIER] if tested else []),
        *(marked, reach, score, columns.FAMILY),
        *(task_column(c, of_task) for c in grid.columns),
        columns.STEP_TIME,
    ]


def marks(row: Row) -> str:
    """`` ≈ ⚑ 1/5`` after the name of a second-hand row that has not learned some task, with one of five seeds."""
    missing = any(len(cell.runs) < cell.asked for cell in row.cells.values())
    found = ((SECOND_HAND, row.second_hand), (FLAG, row.flagged), (columns.SEEDS.text(row).replace(" of ", "/"), missing))
    return "".join(f"\u00a0{sign}" for sign, shown in found if shown)


def short_table(grid: Grid, rows: Sequence[Row], encoding: TableColumn) -> str:
    """The first table as markdown: the highest score of each task is bold, and only names may be broken."""
    shown = short_columns(grid, rows, encoding)
    best = {c.task: max(float(c.value(row) or 0) for row in rows) for c in shown if c.task and len(rows) > 1}

    def cell(column: TableColumn, row: Row) -> str:
        text = column.as_markdown(row)
        if column.title == encoding.title:
            return text
        bold = column.task and best.get(column.task) and column.text(row) == share(best[column.task])
        return f"**{text}**" if bold else text.replace(" ", "\u00a0")

    body = [[cell(column, row) for column in shown] for row in rows]
    left = next(i for i, column in enumerate(shown) if column.title == encoding.title) + 1
    titles = [f"<sub>{escape(c.narrow_title)}</sub>" for c in shown]  # small, since most are wider than their numbers
    return markdown_table(titles, body, left)


def overall_table(rows: Sequence[Row], encoding: TableColumn) -> str:
    """Everything over all tasks: score with its interval, reach, other aggregates, accuracy at l ≤ L, and the source."""
    shown = [columns.TIER, encoding, columns.SOURCE, columns.SCORE, columns.MEAN_REACH]
    shown += [columns.IQM, columns.IN_DISTRIBUTION_MEAN, columns.SEEDS]
    return rows_table(shown, rows, left=3)


def task_scores_table(grid: Grid, rows: Sequence[Row]) -> str:
    """Scores on each task, with the half-width of their intervals."""
    return rows_table([columns.ENCODING, *(task_column(c, task_metrics.SCORE) for c in grid.columns)], rows)


def cost_table(rows: Sequence[Row]) -> str:
    shown = [columns.ENCODING, columns.PARAMETERS, columns.STEP_TIME, columns.STEP_TIME_PAST, columns.MEMORY]
    return rows_table(shown, rows)


def training_notes(rows: Sequence[Row]) -> list[str]:
    """One line for each group of encodings with the same extra training stage, or that share one training."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        texts = [f"Extra training stage of {stage}"] if (stage := stage_text(row)) else []
        texts += [f"Training shared with {escape(name)}, since it is the same" for name in trained_as(row)]
        for text in texts:
            groups.setdefault(text, []).append(escape(row.name))
    return [f"{text}: {', '.join(names)}" for text, names in groups.items()]


def stage_text(row: Row) -> str:
    """The extra training stage: ``1 % of the steps, at lengths up to L′``; empty without one."""
    if row.record is None or not row.record.stage_share:
        return ""
    return f"{100 * row.record.stage_share:g} % of the steps, at lengths up to {'L′' if saw_longer(row) else 'L'}"


def saw_longer(row: Row) -> bool:
    """Whether any of its runs trained at lengths past L."""
    return any(run.longest_seen > run.train_length for run in row.runs)


def trained_as(row: Row) -> list[str]:
    """Names of the other encodings whose training its runs share."""
    return sorted({run.trained_as for run in row.runs} - {"", row.name})


def significance_table(rows: Sequence[Row]) -> str:
    """Each row against the next and against ``ANCHOR``; empty where nothing could be compared."""
    if not any(row.below or row.against for row in rows):
        return ""
    shown = [columns.ENCODING, columns.PLACES, columns.ROW_BELOW, *columns.AGAINST_NEXT, *columns.AGAINST_ANCHOR]
    return rows_table(shown, [row for row in rows if row.places])


def in_distribution_table(grid: Grid, rows: Sequence[Row]) -> str:
    """Exact match over l ≤ L by task, flagged under the gate, with the number of seeds under it."""
    metric = replace(task_metrics.IN_DISTRIBUTION, of_runs=gate_text)
    shown = [(c, task_column(c, metric)) for c in grid.columns]
    return rows_table([columns.ENCODING, *(replace(t, title=f"{t.title}, l ≤ {c.train_length}") for c, t in shown)], rows)


def gate_text(cell: Cell, row: Row) -> str:
    """``.979 ⚑, 1 of 5 under .950``: the mean over seeds, and how many of them fail the gate."""
    each = st.in_distribution(cell.column.at, cell.exact, cell.column.train_length)
    under = sum(not st.passes_gate(float(x)) for x in each)
    failed = f", {under} of {len(each)} under {share(st.GATE)}" if under and len(each) > 1 else ""
    return task_metrics.flagged(cell.in_distribution, cell.flagged) + failed


def reach_table(grid: Grid, rows: Sequence[Row]) -> str:
    """Reach by task, and its mean."""
    tasks = [task_column(c, task_metrics.REACH) for c in grid.columns]
    return rows_table([columns.ENCODING, replace(columns.MEAN_REACH, title="geometric mean"), *tasks], rows)


def graded_table(grid: Grid, rows: Sequence[Row]) -> str:
    """Token accuracy and negative log-likelihood past L, by task; the latter only where some run has recorded it."""
    known = any(np.isfinite(cell.nll).any() for row in rows for cell in row.cells.values())
    metrics = [task_metrics.TOKENS, *([task_metrics.NLL] if known else [])]
    shown = [replace(t := task_column(c, m), title=f"{t.title}, {m.short}") for m in metrics for c in grid.columns]
    return rows_table([columns.ENCODING, *shown], rows)


def resolution_text(found: Resolution) -> str:
    """What ``stats.resolution`` found, as a table and a list."""
    low, high = share(FLOOR), share(CEILING)
    header = ["task", f"cells under {low}", f"over {high}"]
    body = [[columns.task_markdown(task), *(f"{100 * part:.0f} %" for part in parts)] for task, parts in found.extremes.items()]
    counted = [f"{count} by {name} ({100 * count / found.pairs:.0f} %)" for name, count in found.separated.items()]
    lines = [
        f"Pairs separated, of the {found.pairs:,} of all tables together: {', '.join(counted)}.",
        f"Rows of tier 1 in the first table: {found.first} of {found.ranked}.",
    ]
    if found.agreement is not None:
        text = f"Order by two random halves of the seeds, Kendall's τ: {signed(found.agreement)} over all rows"
        first = found.agreement_first
        lines.append(f"{text}." if first is None else f"{text}, and {signed(first)} over the {found.first} of tier 1.")
    about = "A cell is one encoding and seed at one test length past L: at the floor or the ceiling it shows no difference."
    return "\n\n".join([about, markdown_table(header, body), bullets(lines)])


def chance_line(column: Column) -> list[list[str]]:
    """Chance at each test length as a table's last line; nothing where it is too small to see."""
    return [["*chance*", *map(share, column.chance)]] if max(column.chance) > VISIBLE_CHANCE else []


def length_table(column: Column, rows: Sequence[Row]) -> str:
    """Score and reach on a task, and exact match at each test length, mean over seeds; the highest score first."""

    def score(row: Row) -> float:
        runs = row.cells[column.task].scores
        return round(float(runs.mean()), st.DIGITS) if len(runs) else -1.0

    titles, body = columns.length_titles(column), []
    for row in sorted(rows, key=score, reverse=True):
        cell = row.cells[column.task]
        numbers = [share(score(row)), task_metrics.REACH.text(cell, row), *map(share, cell.by_length)] if cell.runs else []
        body.append([linked_name(row.name, None), *(numbers or [cell.state] * (len(titles) + 2))])
    chance = [[line[0], "", "", *line[1:]] for line in chance_line(column)]
    return markdown_table(["encoding", "score", "reach", *titles], [*body, *chance])


def encodings_table(rows: Sequence[Row]) -> str:
    """Family, settings, paper and source hash of each row."""

    def paper(row: Row) -> str:
        return f"{link(row.record.title, row.record.link)} ({row.record.year})" if row.record else ABSENT

    shown = [columns.ENCODING, columns.FAMILY, columns.SETTINGS, columns.LENGTHS, replace(columns.PAPER, markdown=paper)]
    shown.append(TableColumn("source SHA-256", lambda row: code(row.record.source_sha256[:12]) if row.record else ABSENT))
    return rows_table(shown, rows, left=6)


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def unfinished_runs(grid: Grid, rows: Sequence[Row], show: Callable[..., str] = escape) -> list[str]:
    """One line for each failed run, each diverged run, and the encodings that lack the same runs.

    Arguments:
        show: makes names and messages safe for the output, at a limit of characters (``escape``, ``printable``).
    """
    names, lines = {row.name for row in rows}, []
    for (task, encoding, seed), failure in sorted(grid.failures.items()):
        if encoding in names:
            lines.append(
                f"failed: {show(encoding)} on {show(columns.task_title(task))}, seed {seed}: {show(failure.error, 200)}"
            )
    for run in grid.all_runs:
        if run.status == "diverged" and run.encoding.name in names:
            where = f"{show(run.encoding.name)} on {show(columns.task_title(run.task))}, seed {run.seed}"
            lines.append(f"diverged: {where}, after {run.steps:,} steps; counts as zero")
    lacking: dict[str, list[str]] = {}
    for row in rows:
        absent = {show(columns.task_title(c.column.task)): seed_list(c.absent) for c in row.cells.values() if c.absent}
        if len(absent) == len(row.cells) > 1 and len(set(absent.values())) == 1:
            absent = {"every task": next(iter(absent.values()))}
        if absent:
            lacking.setdefault("; ".join(f"{task} ({seeds})" for task, seeds in absent.items()), []).append(show(row.name))
    for absent_runs, found in lacking.items():
        who = f"all {len(found)} encodings" if len(found) == len(rows) > 1 else listed(found, len(found))
        lines.append(f"missing: {who} on {absent_runs}")
    return lines
