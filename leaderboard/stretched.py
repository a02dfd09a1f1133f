"""RoPE as trained, against its stretched forms: direct extrapolation and interpolation side by side, in one picture."""

from collections.abc import Iterable

from .beside import FOOT, HEAD, Box
from .curves import COLOURS, DASHES, Panel, Style, draw_panels, task_title
from .grid import Column, Grid
from .plot import LINE, MARGIN, NORMAL, POINT, WIDTH, Page, footer_height
from .tables import VISIBLE_CHANCE
from .theme import Theme

PICTURE = "stretched"
REFERENCE = "rope"
BELOW = "nope"
"""Drawn for comparison, where there are runs of it."""
FORMS = ("interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "interpolated(rope,fixed=True)")
"""RoPE with its angles squeezed past L. By name: the family of most is RoPE's own, which holds other things too."""
TUNED = "finetuned({})"
"""The name of a form trained on at longer lengths."""
ZERO_SHOT = "Zero-shot: saw no length past L"
FINE_TUNED = "Fine-tuned: saw longer lengths, for a short while"
LEFT, NAMES, HEIGHT = 0.34, 2.2, 1.4
"""Inches: left of a row, beside a panel for names, and a panel's height."""

TITLE = "RoPE and its stretched forms"
TEXT = """\
RoPE past L as it was trained (direct extrapolation), and with its angles squeezed towards the range met in training
(interpolation). On the side called *zero-shot* no length past L was ever seen; on the other a short further training at longer
lengths, shaded in blue, came after: **these encodings saw lengths past L** and are ranked apart. RoPE as trained, and NoPE
where there are runs, stand on both for comparison. Numbers are exact match past L on that task."""


def shown(grid: Grid) -> bool:
    """Whether there is anything to compare: on some task, RoPE and at least one stretched form."""
    return bool(compared(grid))


def compared(grid: Grid) -> list[Column]:
    """The tasks that have runs of RoPE and of at least one stretched form."""
    forms = [*FORMS, *map(TUNED.format, FORMS)]
    runs = grid.runs
    return [c for c in grid.columns if (c.task, REFERENCE) in runs and any((c.task, form) in runs for form in forms)]


def sides(grid: Grid) -> dict[str, dict[str, Style]]:
    """Title → encoding → style of its members: the zero-shot side and the fine-tuned one, as far as there are runs.

    A form has the same colour on both sides. What there is to compare with comes last, and so lies below.
    """
    tasks = {column.task for column in compared(grid)}
    have = {encoding for task, encoding in grid.runs if task in tasks}
    looks = {form: Style(i, "-") for i, form in enumerate(FORMS)}
    black = COLOURS - 1  # or white: the colour of text
    base = {REFERENCE: Style(black, "-"), BELOW: Style(black, DASHES[2])}
    zero_shot = {form: looks[form] for form in FORMS}
    tuned = {TUNED.format(REFERENCE): Style(black, DASHES[1])}  # told apart from RoPE as trained, beside it
    tuned |= {TUNED.format(form): looks[form] for form in FORMS}
    both = {ZERO_SHOT: zero_shot, FINE_TUNED: tuned}
    return {
        title: {e: s for e, s in (members | base).items() if e in have}
        for title, members in both.items()
        if have & set(members)
    }


def picture(grid: Grid, theme: Theme) -> Page:
    """One row a task, one column a side; all encodings of the board in grey."""
    columns, both = compared(grid), sides(grid)
    names = {name for members in both.values() for name in members}
    several = any(len(runs) > 1 for (_, name), runs in grid.runs.items() if name in names)
    tuned = {title: {c.task: longest_seen(grid, c, members) for c in columns} for title, members in both.items()}
    notes = [note(several, any(seen[c.task] > c.train_length for seen in tuned.values() for c in columns))]
    pitch = HEAD + HEIGHT + FOOT + 0.1
    top = Page(1, theme).heading(TITLE)
    first = top + LINE * NORMAL * POINT + 0.12
    page = Page(first + len(columns) * pitch + footer_height(notes), theme)
    page.heading(TITLE)
    step = (WIDTH - LEFT - MARGIN / 2) / max(2, len(both))
    placed = []
    for j, (title, members) in enumerate(both.items()):
        left = LEFT + j * step
        page.text(left, top, title, NORMAL, fontweight="bold")
        for i, column in enumerate(columns):
            box = Box(left, first + i * pitch + HEAD, step - NAMES, HEIGHT)
            heading = f"{task_title(column)}, L = {column.train_length}"
            placed.append((Panel(heading, column, members, grid.encodings, tuned=tuned[title][column.task]), box))
    draw_panels(page, grid, placed, NAMES)
    page.footer(notes, first + len(columns) * pitch)
    return page


def note(several: bool, tuned: bool) -> str:
    """How to read the panels."""
    parts = [
        "Across: test length in multiples of L; up: exact match, "
        + ("mean over seeds (line) and single seeds (dots)" if several else "one seed"),
        "shaded: lengths met in training, l ≤ L" + (", and in blue those met only in the fine-tuning" if tuned else ""),
        f"dotted: chance, where it is above {VISIBLE_CHANCE:g}",
        f"number: mean past L. Black or white: {REFERENCE} as it was trained, on both sides (fine-tuned: dashed), and {BELOW} "
        "(dotted); grey: all encodings of the board",
    ]
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def longest_seen(grid: Grid, column: Column, encodings: Iterable[str]) -> int:
    """The longest length that some run of these encodings saw in training."""
    return max((run.longest_seen for name in encodings for run in grid.runs.get((column.task, name), ())), default=0)
