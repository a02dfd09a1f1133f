"""The columns of the board's tables, each defined once: title, text, explanation and sort key.

Markdown (``tables``, ``encoding_pages``), the HTML page (``html_table``, ``html_data``) and the terminal (``board_text``,
``compare_text``) pick from these. Columns of a single task come from ``task_metrics``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import tasks
from bench.result import SOURCE_KINDS, SOURCE_MEANINGS, EncodingRecord
from leaderboard.data.grid import Column
from leaderboard.format import ABSENT, BUSY, FLAG, family_title, p_value, printable, reach_text
from leaderboard.stats.rows import Row, Versus
from leaderboard.stats.summary import ANCHOR, BASE

from . import task_metrics
from .markdown import escape, link
from .task_metrics import IN_DISTRIBUTION, TaskMetric, flagged, with_interval

SEPARATED = "✓"
"""Marks a probability of improvement on the HTML page if the test separates the two."""


@dataclass(frozen=True)
class TableColumn:
    """One column: what it shows of an encoding."""

    title: str
    text: Callable[[Row], str]
    """The entry as plain text."""
    value: Callable[[Row], float | str | None] = lambda row: None
    """The key to sort by on the HTML page; None sorts last."""
    hint: str = ""
    """What it means, in a sentence: the tooltip on the HTML page."""
    best: Literal["ascending", "descending"] = "descending"
    """The order that puts the better end first."""
    short: str = ""
    """Title for narrow tables, where it differs."""
    markdown: Callable[[Row], str] | None = None
    """The entry as markdown; None where ``text`` needs no escaping."""
    task: str | None = None
    """Name of the task, for a column of one task."""

    @property
    def narrow_title(self) -> str:
        return self.short or self.title

    def as_markdown(self, row: Row) -> str:
        return (self.markdown or self.text)(row)


def task_column(column: Column, metric: TaskMetric) -> TableColumn:
    """The column of a metric on one task, titled by the task."""
    task = column.task
    return TableColumn(
        task_title(task),
        lambda row: metric.text(row.cells[task], row),
        lambda row: metric.value(row.cells[task]),
        f"{task_title(task)}, L = {column.train_length}. {metric.hint}",
        task=task,
    )


def length_titles(column: Column) -> list[str]:
    """Titles for a column per test length: ``8``, ``10 = L``."""
    return [f"{n} = L" if n == column.train_length else str(n) for n in column.lengths]


def task_title(task: str) -> str:
    """The name of a task in text: ``key retrieval`` of ``key_retrieval``, which is its name in commands and files."""
    return printable(tasks.title(task).lower())


def task_markdown(task: str) -> str:
    return escape(task_title(task))


def encoding_column(as_markdown: Callable[[Row], str]) -> TableColumn:
    """The name of the encoding.

    Arguments:
        as_markdown: the name with its link.
    """

    def name(row: Row) -> str:
        return printable(row.name, 120)

    hint = "Name of the positional encoding"
    return TableColumn("encoding", name, lambda row: name(row).casefold(), hint, "ascending", markdown=as_markdown)


def factor_column(title: str, value: Callable[[Row], float | None], hint: str, short: str = "") -> TableColumn:
    """A column of factors, less of which is better, and which may be absent."""

    def shown(row: Row) -> str:
        return ABSENT if (number := value(row)) is None else f"{number:.2f}"

    return TableColumn(title, shown, value, hint, "ascending", short)


def record_column(title: str, value: Callable[[EncodingRecord], str], hint: str = "", limit: int = 80) -> TableColumn:
    """A column of text from the record of an encoding, where it has any."""

    def shown(row: Row, form: Callable[[str, int], str] = printable) -> str | None:
        return form(found, limit) if row.record and (found := value(row.record)) else None

    def text(row: Row) -> str:
        return shown(row) or ABSENT

    return TableColumn(title, text, shown, hint, "ascending", markdown=lambda row: shown(row, escape) or ABSENT)


def settings_text(record: EncodingRecord) -> str:
    """``base = 500000.0, fixed = True``; empty without settings."""
    return ", ".join(f"{key} = {value}" for key, value in sorted(record.settings.items()))


def seed_counts(row: Row) -> str:
    """``5``; ``3–5 of 5`` where tasks differ or runs are missing."""
    counts = [len(c.runs) for c in row.cells.values()]
    asked = max(c.asked for c in row.cells.values())
    span = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    return span if min(counts) == asked else f"{span} of {asked}"


def parameter_counts(row: Row) -> str:
    """``582``, or ``336–624`` where tasks differ."""
    return ABSENT if row.parameters is None else "–".join(f"{count:,}" for count in sorted({*row.parameters}))


ENCODING = encoding_column(lambda row: escape(row.name))
TIER = TableColumn(
    "tier",
    lambda row: str(row.tier) if row.tier else ABSENT,
    lambda row: row.tier,
    "The test separates no two rows of one tier; the next tier begins where it separates a row from one of the tier",
    "ascending",
)
"""Decided in ``stats.summary`` and ``stats.significance``."""
PLACES = TableColumn(
    "places",
    lambda row: "–".join(map(str, sorted({*row.places}))) if row.places else ABSENT,
    lambda row: row.places and row.places[0] + row.places[1] / 1e6,
    "Best and worst position among the tested rows of its table that the tests leave open",
    "ascending",
)
SCORE = TableColumn(
    "score",
    lambda row: with_interval(row.score, row.interval) if row.complete else "incomplete",
    lambda row: row.score,
    f"{task_metrics.SCORE_TEXT}, then over tasks, with its 95 % interval",
)
"""What rows are ordered by, and what is tested."""
IQM = TableColumn(
    "IQM",
    lambda row: with_interval(row.iqm, row.iqm_interval),
    lambda row: row.iqm,
    "Interquartile mean of the scores of all runs, with its 95 % interval",
)
MEAN_REACH = TableColumn(
    "reach",
    lambda row: reach_text(row.reach) if row.reach else ABSENT,
    lambda row: row.reach and row.reach.at,
    f"Geometric mean over tasks of {task_metrics.REACH_MEANING}; ≥: on some task the test ends first; <: some task fails at "
    "its shortest length; ~: both",
)
IN_DISTRIBUTION_MEAN = TableColumn(
    IN_DISTRIBUTION.title,
    lambda row: flagged(row.in_distribution, row.flagged),
    lambda row: row.in_distribution,
    f"Exact match at the training lengths (l ≤ L), mean over tasks; {FLAG}: not learned on some task",
)
SEEDS = TableColumn(
    "seeds",
    seed_counts,
    lambda row: min(len(c.runs) for c in row.cells.values()),
    "Runs per task",
)
RANKING_CLASS = TableColumn("ranking class", lambda row: printable(row.ranking))
FAMILY = record_column("family", lambda record: family_title(record.family), "Kind of encoding")
SOURCE_HINT = "What the implementation was written from and compared with: "
SOURCE_HINT += "; ".join(f"{kind}: {meaning}" for kind, meaning in SOURCE_MEANINGS.items())
SOURCE = replace(
    record_column("source", lambda record: record.source, SOURCE_HINT),
    value=lambda row: SOURCE_KINDS.index(row.record.source) if row.record and row.record.source in SOURCE_KINDS else None,
)
SETTINGS = record_column("settings", settings_text, limit=200)
LENGTHS = record_column(
    "length settings",
    lambda record: record.lengths,
    "Settings that are lengths in tokens, with their rule: as published, or scaled with L and L′",
    limit=200,
)
PARAMETERS = TableColumn(
    "parameters",
    parameter_counts,
    lambda row: row.parameters and row.parameters[0],
    "Parameters of the encoding alone",
    "ascending",
)
STEP_TIME = TableColumn(
    f"step time, {BASE} = 1",
    lambda row: ABSENT if row.step_time is None else f"{row.step_time:.2f}" + (f" {BUSY}" if row.busy else ""),
    lambda row: row.step_time,
    f"Time of a training step at L, relative to {BASE}; {BUSY}: measured on a busy machine",
    "ascending",
    short="step time",
)
LONGEST = f"of a training step at the longest length measured, relative to {BASE}"
STEP_TIME_PAST = factor_column(f"step time, {BASE} = 1, l > L", lambda row: row.step_time_past, f"Time {LONGEST}")
MEMORY = factor_column(f"memory, {BASE} = 1", lambda row: row.memory, f"Peak memory {LONGEST}", "memory")
PAPER = TableColumn(
    "paper",
    lambda row: str(row.record.year) if row.record else ABSENT,
    lambda row: row.record.year if row.record else None,
    "Year of the paper, with a link to it",
    markdown=lambda row: link(str(row.record.year), row.record.link) if row.record else ABSENT,
)
ROW_BELOW = TableColumn(
    "row below",
    lambda row: printable(row.below.name) if row.below else ABSENT,
    markdown=lambda row: escape(row.below.name) if row.below else ABSENT,
)


def versus_columns(
    versus: Callable[[Row], Versus | None], opponent: str, titles: tuple[str, str, str, str]
) -> list[TableColumn]:
    """Against another row: the probability of improvement, p of the test, and whether it separates the two.

    Arguments:
        opponent: the other row, in words.
        titles: of the three columns, and a short one of the first.
    """
    verdicts = {"above": "yes", "below": "yes, below", None: "no"}

    def text(describe: Callable[[Versus], str]) -> Callable[[Row], str]:
        return lambda row: describe(found) if (found := versus(row)) else ABSENT

    return [
        TableColumn(
            titles[0],
            text(lambda found: with_interval(found.improvement, found.interval)),
            lambda row: found.improvement if (found := versus(row)) else None,
            f"Probability that one of its runs beats a run of {opponent} on the same task; {SEPARATED}: separated",
            short=titles[3],
        ),
        TableColumn(titles[1], text(lambda found: p_value(found.p))),
        TableColumn(titles[2], text(lambda found: verdicts[found.separated])),
    ]


AGAINST_NEXT = versus_columns(lambda row: row.below, "the next tested row", ("P(better)", "p", "separated", "beats next"))
AGAINST_ANCHOR = versus_columns(
    lambda row: row.against,
    ANCHOR,
    (f"P(better than {ANCHOR})", f"p, {ANCHOR}", f"separated, {ANCHOR}", f"beats {ANCHOR}"),
)
