"""The sentences above a board's first table: which encoding to use, how sure that is, for which task, at what cost."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import numpy as np

from bench.measure.card import COST_MULTIPLES
from bench.result import SOURCE_MEANINGS
from leaderboard.data.grid import Column, Grid
from leaderboard.figures.cost import NOISE
from leaderboard.figures.highlight import REFERENCES
from leaderboard.format import FLAG, MOST_LISTED, SECOND_HAND, listed, number_range, reach_text, share, times
from leaderboard.stats.association import association
from leaderboard.stats.robustness import order_elsewhere, robustness
from leaderboard.stats.rows import Classes, Row
from leaderboard.stats.scores import DIGITS
from leaderboard.stats.significance import RISK
from leaderboard.stats.summary import BASE, separation
from tasks import plural

from . import columns
from .association_text import association_sentence
from .cautions import shared_gpu
from .condition_sentences import elsewhere, tuned
from .markdown import escape

FAR = 2
"""The multiple of L at which the sentences say what still works."""
CLOSE = 0.02
"""Difference of scores on a task up to which an encoding is named with the best one."""
Show = Callable[[Row], str]
Safe = Callable[..., str]


def answer(grid: Grid, classes: Classes, show: Show = lambda row: escape(row.name)) -> str:
    """``sentences`` as a markdown list."""
    return "\n".join(f"- **{lead}**: {text}" for lead, text in sentences(grid, classes, show))


def sentences(grid: Grid, classes: Classes, show: Show, safe: Safe = escape) -> list[tuple[str, str]]:
    """Sentences on the first table, each with its topic; empty where no encoding has run on every task.

    Arguments:
        show: the name of a row for the output.
        safe: makes other names and texts safe for it; takes a text and, optionally, its largest length.
    """
    rows = [row for row in next(iter(classes.values()), ()) if row.complete]
    if not rows:
        return []
    lead = [row for row in rows if row.tier == 1] if sum(row.tier is not None for row in rows) > 1 else rows[:1]
    found = [leaders(grid, rows, lead, show), ("By task", by_task(grid, rows, show, safe)), ("Cost", cost(grid, lead, show))]
    found += [("Clearly below", below(rows, lead, show)), ("By design past L", designs(grid, lead, show, safe))]
    found += [("Inside the models", association_sentence(goes, safe))] if (goes := association(grid)) else []
    found += [(f"At {FAR} L", carried(grid, rows, show, safe))]
    order = robustness(grid)
    others = order_elsewhere(grid)
    found += [("Measured", scope(grid, safe)), ("Elsewhere", elsewhere(order, others, [row.name for row in lead], safe))]
    found += [("Learning rate", tuned(order, safe))] if order else []
    return [(topic, text) for topic, text in found if text]


def leaders(grid: Grid, rows: Sequence[Row], lead: Sequence[Row], show: Show) -> tuple[str, str]:
    """The first tier, and how sure it is that it is the first."""
    first, score = show(lead[0]) + mark(lead[0]), share(lead[0].score or 0)
    if len(rows) == 1:
        return "One encoding", f"{first} alone has run on every task: score {score}; there is nothing to compare."
    tested = [row for row in rows if row.ps]
    if len(tested) < 2:
        text = f"{first} has the highest score, {score}, before {show(rows[1])}, "
        text += f"{share(rows[1].score or 0)}, but there are too few seeds for a test: the next seeds may change the order."
        return "Highest so far", text
    verdicts = [separation(a, b) is not None for a, b in combinations(tested, 2)]
    count, seeds = sum(verdicts), seeds_text(grid, [row.name for row in tested])
    sure = f"Over {seeds} it separates {count:,} of the {len(verdicts):,} {'pairs' if len(verdicts) > 1 else 'pair'} tested "
    sure += "in this table"
    sure += f"; the risk that even one of these separations is wrong is {RISK}." if count else "."
    sure += " Intervals and test are over seeds; rounding on another kind of processor can move a score as far."
    if waiting := [f"{show(row)} ({share(row.score or 0)})" for row in rows if not row.ps]:
        sure += f" Too few seeds for the test: {listed(waiting)}."
    use = "So far, use" if any(not row.ps for row in rows[: rows.index(lead[-1])]) else "Use"
    if len(lead) == 1:
        if close := [show(row) for row in tested[1:] if separation(lead[0], row) != "above"]:
            text = f"{first}, {columns.SCORE.text(lead[0])}. The test separates it from all others but {listed(close)}. {sure}"
            return "Highest of those tested" if waiting else "Highest so far", text
        others = "those of all others tested" if waiting else "the others'"
        return f"{use} {first}", f"the test separates its score, {columns.SCORE.text(lead[0])}, from {others}. {sure}"
    counts = [len(row.runs) for row in lead]
    fewer = {row.name: f", {len(row.runs) // len(grid.columns)} seeds" for row in lead if len(row.runs) < max(counts)}
    names = listed([f"{show(row)}{mark(row)} ({columns.SCORE.text(row)}{fewer.get(row.name, '')})" for row in lead])
    signs = f" {SECOND_HAND}: {SOURCE_MEANINGS['second-hand']}." if any(row.second_hand for row in lead) else ""
    signs += f" {FLAG}: has not learned every task even at l ≤ L." if any(row.flagged for row in lead) else ""
    return f"{use} one of {len(lead)}", f"{names}.{signs} The test separates no two of them: tier 1. {sure}"


def seeds_text(grid: Grid, encodings: Iterable[str] | None = None) -> str:
    """How many seeds have run: ``5 seeds``, ``2 to 4 of 5 seeds so far``, ``5 to 10 seeds``, or ``3 to 10 seeds so far`` where
    some lack seeds and others have more than the suite asks for. Encodings without some task count only where none has all.

    Arguments:
        encodings: whose seeds; None counts those of all.
    """
    tasks, asked = [column.task for column in grid.columns], len(grid.seeds)
    names = grid.encodings if encodings is None else encodings
    cells = [[len(grid.runs.get((task, name), ())) for task in tasks] for name in names]
    counts = [count for row in cells if all(row) for count in row] or [count for row in cells for count in row]
    if any(counts) and min(counts) < asked:
        return number_range(counts) + (f" of {asked}" if max(counts) <= asked else "") + " seeds so far"
    return plural(asked, "seed") if max(counts, default=0) <= asked else f"{number_range(counts)} seeds"


def designs(grid: Grid, lead: Sequence[Row], show: Show, safe: Safe) -> str:
    """What the leaders do past L by design, as their cards declare it."""
    by_text: dict[str, list[str]] = {}
    for row in lead:
        if row.name in grid.past:
            by_text.setdefault(grid.past[row.name], []).append(show(row))
    quoted = [f"{listed(names)}: “{safe(text, 300)}”" for text, names in by_text.items()]
    return f"{'; '.join(quoted)}. Formulas and their symbols are on the pages of encodings." if quoted else ""


def mark(row: Row) -> str:
    return "".join(f" {sign}" for sign, shown in ((SECOND_HAND, row.second_hand), (FLAG, row.flagged)) if shown)


def cost(grid: Grid, rows: Sequence[Row], show: Show) -> str:
    """What the rows to choose from cost, relative to ``BASE``: first those whose steps are no longer."""
    if all(row.step_time is None for row in rows):
        return ""
    free, text = [row for row in rows if within_noise(row)], ""
    if free:
        added = [f"{show(row)} ({columns.PARAMETERS.text(row)})" for row in free if row.parameters != (0, 0)]
        text = f"no measurably longer steps with {listed([show(row) for row in free])}; "
        text += f"parameters only with {listed(added)}. " if added else "no parameters. "
    if dear := [row for row in rows if row not in free]:
        ends = f", at L → at {COST_MULTIPLES[-1]} L" if any(row.step_time_past is not None for row in dear) else ""
        text += f"Relative to {BASE}{ends}: {'; '.join(f'{show(row)} {price(row)}' for row in dear)}. "
    return (text + shared_gpu(grid, rows)).rstrip()


def within_noise(row: Row) -> bool:
    return row.step_time is not None and max(row.step_time, row.step_time_past or 0) <= NOISE


def price(row: Row) -> str:
    """``1.82 → 3.38 times the step time, 1.92 times the memory there, 1,284 parameters``."""
    past = "" if row.step_time_past is None else f" → {times(row.step_time_past)}"
    parts = ["step time not measured" if row.step_time is None else f"{columns.STEP_TIME.text(row)}{past} times the step time"]
    parts += [] if row.memory is None else [f"{times(row.memory)} times the memory there"]
    return ", ".join([*parts, f"{columns.PARAMETERS.text(row)} parameter{'s' * (row.parameters != (1, 1))}"])


def below(rows: Sequence[Row], lead: Sequence[Row], show: Show) -> str:
    """The encodings that are separated from all leaders: all of them if they are few, else the well-known ones; and those that
    are separated from some leaders only."""
    others = [row for row in rows if row.ps and row not in lead]
    parted = {row.name: sum(separation(one, row) == "above" for one in lead) for row in others}
    found = [row for row in others if parted[row.name] == len(lead)]
    known = [row for row in found if row.name in REFERENCES]
    text = f"{listed([show(row) for row in found])}. " if found else ""
    if len(found) > MOST_LISTED and known:
        text = f"{len(found)} of {len(lead) + len(others)} encodings, among them {listed([show(row) for row in known])}. "
    if some := [show(row) for row in others if 0 < parted[row.name] < len(lead)]:
        text = text or f"no encoding is below all of these {len(lead)}. "
        text += f"Below at least one of these {len(lead)}, but not all: {listed(some, len(some))}."
    return text.rstrip()


def by_task(grid: Grid, rows: Sequence[Row], show: Show, safe: Safe) -> str:
    """The highest scores on each task, and which encoding is first overall without one of the tasks."""
    if len(rows) < 2 or len(grid.columns) < 2:
        return ""

    def score(row: Row, tasks: Iterable[str]) -> float:
        return round(float(np.mean([row.cells[task].scores.mean() for task in tasks])), DIGITS)

    highest, without = [], dict[str, list[str]]()
    for column in grid.columns:
        on_task = {row.name: score(row, [column.task]) for row in rows}
        best = max(on_task.values())
        names = [show(row) for row in rows if on_task[row.name] >= best - CLOSE]
        highest.append(f"{task_name(column, safe)} {listed(names)} ({'' if len(names) == 1 else 'up to '}{share(best)})")
        rest = [other.task for other in grid.columns if other is not column]
        without.setdefault(show(max(rows, key=lambda row: score(row, rest))), []).append(task_name(column, safe))
    firsts = [f"{name} without {listed(tasks).replace(' and ', ' or ')}" for name, tasks in without.items()]
    first = f"First overall is {listed(firsts)}" if len(firsts) > 1 else f"Without any one task {next(iter(without))} is first"
    return f"the highest scores, and others within {share(CLOSE)}: {'; '.join(highest)}. {first}. No task is tested by itself."


def carried(grid: Grid, rows: Sequence[Row], show: Show, safe: Safe) -> str:
    """On which tasks encodings still work at ``FAR`` times L, and how far the furthest gets on each."""
    works: list[str] = []
    fails: list[str] = []
    for column in grid.columns:
        if column.lengths[-1] < FAR * column.train_length:
            continue
        reaches = [(reach, row) for row in rows if (reach := row.cells[column.task].reach)]
        count, best = sum(reach.at >= FAR for reach, _ in reaches), max(reach for reach, _ in reaches)
        first, *others = [show(row) for reach, row in reaches if reach == best]
        if best.mark == "≥" and others:
            reached = "all" if len(others) + 1 == count else f"{len(others) + 1} of them"
            furthest = f"{reached} to the end of the test, {times(best.at)} L"
        else:
            furthest = f"furthest: {listed([first, *others], 1)}, {reach_text(best)} L"
        (works if count else fails).append(f"{f'{count} on ' if count else ''}{task_name(column, safe)} ({furthest})")
    if not (works or fails):
        return ""
    text = f"of the {plural(len(rows), 'encoding')} of the first table, at least half of the answers are right, guessing taken "
    return text + "out, with " + listed([*works, f"none on {listed(fails)}"] if fails else works) + "."


def task_name(column: Column, safe: Safe) -> str:
    return safe(columns.task_title(column.task))


def scope(grid: Grid, safe: Safe) -> str:
    """The model and the training lengths."""
    model = grid.suite.model if grid.suite else None
    size = f"{plural(model.layers, 'layer')}, width {model.width}, synthetic tasks, " if model else "synthetic tasks, "
    lengths = ", ".join(f"{column.train_length} ({task_name(column, safe)})" for column in grid.columns)
    same = len({column.train_length for column in grid.columns}) == 1
    longest = f"L = {grid.columns[0].train_length}" if same else f"L: {lengths}"
    return f"{size}trained at lengths up to {longest}."
