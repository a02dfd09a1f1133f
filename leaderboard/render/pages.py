"""The markdown pages of the published board, from templates. Each function gathers what a template shows."""

import json
import math
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

import tasks
from bench.findings.verdict import comparison
from leaderboard.results.facts import FACTS, class_title, fact, formulas, source_file
from leaderboard.results.file_names import LINES, PAGES, page_name
from leaderboard.stats.rates import at_an_end
from leaderboard.stats.reliability import CEILING, FLOOR, reliability
from leaderboard.stats.rows import Board
from leaderboard.stats.transfer import MEASURES, across, measured

from .columns import PAGE, columns_of, limit, number, rows_of, shown, signs
from .published import CORPORA, TEXT, Published, built_in
from .text import code, markdown, printable, safe_link
from .verdict import SHORT, leaders, main_rows, needs, significant_pairs, verdict

TEMPLATES = Path(__file__).parent / "templates"
README, FINDINGS, ON_TEXT, SIZES, GALLERY = "README.md", "findings.md", "text.md", "sizes.md", "GALLERY.md"
SUITES, INSIDE = "suites", "INSIDE.md"
OF_MANY = ("encoding", "blocks", "p_first", "weighted_low")
"""Columns that the page of one encoding leaves out."""


@cache
def environment() -> jinja2.Environment:
    """Templates by name. Those of HTML escape every value; those of markdown use the filters ``md`` and ``code``."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"md": markdown, "code": code, "page": page_name, "signs": signs, "link": safe_link}
    found.globals |= {"strong": "**", "name": code}  # of the verdict, which a terminal shows otherwise
    found.filters["key"] = lambda text: re.sub("[^A-Za-z0-9_]", "", text)
    found.filters |= {"task_title": tasks.title, "class_title": class_title, "number": number, "log2": math.log2}
    return found


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)


def verdict_text(board: Board) -> str:
    """The verdict for a terminal, without markup."""
    return " ".join(render("verdict.j2", v=verdict(board), strong="", name=printable).split())


def text_files(published: Published) -> dict[str, str]:
    """Path → text of every page, which no drawing library affects."""
    boards = published.boards
    files = {README: front_page(published), GALLERY: render("gallery.md.j2", tasks=tasks.catalogue(), example=tasks.example)}
    if published.findings:
        files[FINDINGS] = render("findings.md.j2", findings=published.findings, comparison=comparison)
    if published.texts:
        files[ON_TEXT] = text_page(published)
    if sizes := published.sizes:
        files[SIZES] = size_page(*sizes.values())
    main = next(iter(boards.values()))
    lines = {row["encoding"]: {f"published, suite {main.suite}": line_of(main, row)} for row in rows_of(main.rows)}
    files[LINES] = json.dumps(lines, indent=1, ensure_ascii=False) + "\n"
    for board in boards.values():
        files[f"{SUITES}/{board.suite}.md"] = suite_page(board)
        files |= {f"{SUITES}/{board.suite}-{task}.md": task_page(board, task) for task in board.tasks}
    names = sorted({name for board in boards.values() for name in board.rows["encoding"]})
    return files | {f"{PAGES}/{page_name(name)}.md": encoding_page(published, name) for name in names}


def front_page(published: Published, template: str = "front.md.j2", up: str = "") -> str:
    """The front page, or what another template shows of the same board.

    Arguments:
        up: path that leads to the folder of the board.
    """
    boards = list(published.boards.values())
    rows = main_rows(boards[0])
    first = leaders(boards[0], len(rows))
    better, pairs = significant_pairs(boards[0], first, rows.drop(first.index))
    return render(
        template,
        up=up,
        published=published,
        better=better / pairs if pairs else None,
        inside=significant_pairs(boards[0], first),
        first=first,
        text=published.on_text.get(TEXT, ()),
        ours=(published.folder / INSIDE).is_file(),
        board=boards[0],
        boards=boards,
        v=verdict(boards[0]),
        needs=needs(boards[0]),
        date=boards[0].all_runs["finished"].max()[:10],
    )


def text_page(published: Published) -> str:
    """Real text: a table for each suite, and how the order of the main suite goes with it."""
    main = next(iter(published.boards.values()))
    ends = {name: int((at_an_end(board.all_runs) > 0.5).sum()) for name, board in published.texts.items()}
    longer = {name: measured(board, "longer") for name, board in published.texts.items()}
    shown = {"measures": MEASURES, "ends": ends, "longer": longer, "tasks": [*main.tasks, "overall"], "corpora": CORPORA}
    shown["ours"] = (published.folder / INSIDE).is_file()
    return render("text.md.j2", board=main, published=published, **shown)


def size_page(*boards: Board) -> str:
    """The main suite and the suites that differ from it in size alone."""
    scores = pd.concat({board.suite: main_rows(board).set_index("encoding")["score"] for board in boards}, axis=1)
    show = columns_of([])[0].show
    ranks = {board.suite: {row["encoding"]: show(row) for row in rows_of(main_rows(board))} for board in boards}
    compared = {board.suite: found for board in boards[1:] if (found := across(boards[0], board))}
    return render("sizes.md.j2", boards=boards, scores=scores, ranks=ranks, compared=compared)


def suite_page(board: Board) -> str:
    complete = board.rows[board.rows["complete"]]
    return render(
        "suite.md.j2",
        board=board,
        v=verdict(board),
        columns=shown(board.tasks, PAGE, complete),
        classes=[(kind, rows_of(group)) for kind, group in complete.groupby("ranking", sort=False)],
        incomplete=list(board.rows[~board.rows["complete"]]["encoding"]),
        trust=reliability(board),
        bounds=(FLOOR, CEILING),
    )


def line_of(board: Board, row: pd.Series) -> dict[str, str]:
    """Title of each column → text, of one row."""
    columns = shown(board.tasks, PAGE, row.to_frame().T)
    return {column.title.replace("\u00a0", " "): column.show(row) for column in columns if column.key != "encoding"}


def task_page(board: Board, task: str) -> str:
    runs = board.runs[board.runs["task"] == task]
    variant, known = runs["variant"].iloc[0], tasks.catalogue().get(task)
    rows = board.rows[board.rows[f"score.{task}"].notna()].sort_values(f"score.{task}", ascending=False, kind="stable")
    columns = {column.key: column for column in columns_of([task])}
    titles = {"score": "score", "low": "95\u00a0%", "limit": "half right up to × L", "within": "within L"}
    own = [columns[f"{kind}.{task}"]._replace(title=title) for kind, title in titles.items()]
    return render(
        "task.md.j2",
        board=board,
        task=task,
        variant=variant,
        known=known,
        about=known and sys.modules[known.__module__].__doc__,
        tests=runs[["train_length", "length", "count"]].explode(["length", "count"]),
        example=tasks.example(task, variant),
        columns=[columns["encoding"], *own, columns["step_time"]],
        classes=[(kind, rows_of(rows[rows["ranking"] == kind])) for kind in rows.sort_index()["ranking"].unique()],
    )


def encoding_page(published: Published, name: str) -> str:
    """The page of an encoding, with its row of each suite."""
    suites = []
    for board in published.boards.values():
        for row in rows_of(board.rows[board.rows["encoding"] == name]):
            columns = [c for c in shown(board.tasks, PAGE, row.to_frame().T) if c.key not in OF_MANY]
            limits = {f"score.{task}": limit(row, task) for task in board.tasks}
            suites.append({"board": board, "row": row, "columns": columns, "limits": limits})
    first, row = suites[0]["board"], suites[0]["row"]
    return render(
        "encoding.md.j2",
        encoding=name,
        suites=suites,
        fails=[tasks.title(task).lower() for task in first.tasks if row[f"limit.{task}"] < SHORT],
        declared=getattr(built_in(name), "info", None),
        facts={field: fact(name, field) for field in FACTS},
        formulas=formulas(name),
        source=source_file(name),
    )
