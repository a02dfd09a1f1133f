"""The markdown pages of the published board, from templates. Each function gathers what a template shows."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

import tasks
from leaderboard.results.facts import class_title, fact
from leaderboard.results.file_names import PAGES, page_name
from leaderboard.results.probes import PROBES
from leaderboard.stats.reliability import reliability
from leaderboard.stats.rows import Board
from tasks import InputError

from .columns import PAGE, limit, number, of_task, shown, signs
from .published import MAIN, Published
from .text import code, markdown, printable, safe_link
from .verdict import leaders, main_rows, needs, significant_pairs, verdict

TEMPLATES = Path(__file__).parent / "templates"
README, INSIDE, FINDINGS, SUITES = "README.md", "INSIDE.md", "findings.md", "suites"
EXAMPLE_LENGTH = 4
"""Length of the example on the page of a task."""


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
    found.filters |= {"md": markdown, "code": code, "plain": printable, "page": page_name, "signs": signs, "link": safe_link}
    found.filters |= {"task_title": tasks.title, "class_title": class_title, "number": number}
    return found


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)


def verdict_text(board: Board) -> str:
    """The verdict for a terminal, without markup."""
    return " ".join(render("verdict.j2", v=verdict(board), strong="", name=printable).split())


def text_files(published: Published) -> dict[str, str]:
    """Path → text of every page, which no drawing library affects."""
    boards = published.boards
    files = {README: front_page(published), FINDINGS: findings_page(published), INSIDE: inside_page(published)}
    for board in boards.values():
        files[f"{SUITES}/{board.suite}.md"] = suite_page(board)
        files |= {f"{SUITES}/{board.suite}-{task}.md": task_page(board, task) for task in board.tasks}
    names = sorted({name for board in boards.values() for name in board.rows["encoding"]})
    files |= {f"{PAGES}/{page_name(name)}.md": encoding_page(published, name) for name in names}
    return {path: text for path, text in files.items() if text}


def front_page(published: Published) -> str:
    board, *others = published.boards.values()
    first, rows = leaders(board), main_rows(board)
    better, pairs = significant_pairs(board, first, rows.drop(first.index))
    return render(
        "front.md.j2",
        board=board,
        v=verdict(board),
        strong="**",
        name=code,
        better=better / pairs if pairs else 0,
        inside=significant_pairs(board, first),
        elsewhere=[(other.suite, other.rows.iloc[0]["encoding"]) for other in others],
        needs=needs(board),
        suites=[(one.suite, len(one.rows)) for one in published.boards.values()],
        runs=len(board.all_runs),
        date=max(one.all_runs["finished"].max() for one in published.boards.values())[:10],
    )


def suite_page(board: Board) -> str:
    complete = board.rows[board.rows["complete"]]
    return render(
        "suite.md.j2",
        board=board,
        v=verdict(board),
        strong="**",
        name=code,
        columns=shown(board.tasks, PAGE, complete),
        classes=[(kind, rows_of(group)) for kind, group in complete.groupby("ranking", sort=False)],
        incomplete=list(board.rows[~board.rows["complete"]]["encoding"]),
        runs=len(board.all_runs),
        trust=trust(board),
        swept=not verdict(board).one_rate,
        timed=main_rows(board)["step_time"].notna().any(),
    )


def rows_of(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


def trust(board: Board) -> dict[str, Any]:
    """How far the order can be trusted: numbers of ``reliability``, and a table by task."""
    found = reliability(board)
    table = [(task, *(found[name][task] for name in ("task", "floor", "ceiling"))) for task in board.tasks]  # type: ignore[index]
    return {"table": table} | {name: value for name, value in found.items() if not isinstance(value, Mapping)}


def task_page(board: Board, task: str) -> str:
    runs = board.runs[board.runs["task"] == task]
    variant, known = runs["variant"].iloc[0], tasks.catalogue().get(task)
    rows = board.rows[board.rows[f"score.{task}"].notna()].sort_values(f"score.{task}", ascending=False, kind="stable")
    return render(
        "task.md.j2",
        board=board,
        task=task,
        variant=variant,
        meaning=known.variants.get(variant, "") if known else "",
        lengths=sorted(runs["train_length"].unique()),
        longest=int(max(lengths[-1] for lengths in runs["length"])),
        unit=known.length_is if known else "units",
        example=example(task, variant),
        columns=of_task(task),
        rows=rows_of(rows),
    )


def example(task: str, variant: str) -> str:
    """A literal example of a task, or an empty text if the variant is not known here."""
    try:
        made = tasks.get(task, variant, longest=2 * EXAMPLE_LENGTH)
        drawn = made.sample(EXAMPLE_LENGTH, 1, np.random.default_rng(0))
        return made.vocabulary.decode(drawn.tokens[0, : drawn.sizes[0]].tolist())
    except (InputError, ValueError, FileNotFoundError):
        return ""


def encoding_page(published: Published, name: str) -> str:
    card = published.cards.get(name)
    suites = []
    for board in published.boards.values():
        row = next((row for row in rows_of(board.rows) if row["encoding"] == name), None)
        if row is not None:
            columns = [column for column in shown(board.tasks, PAGE, row.to_frame().T) if column.key != "encoding"]
            limits = [(task, limit(row, task)) for task in board.tasks]
            suites.append({"board": board, "row": row, "columns": columns, "limits": limits})
    practical = {"fused attention": "fused", "KV cache in decoding": "cache", "model": "checkpoint"}
    return render(
        "encoding.md.j2",
        encoding=name,
        row=suites[0]["row"],
        gloss=fact(name, "gloss"),
        authors_code=fact(name, "code"),
        declared=card.declared if card else None,
        practical=[(label, fact(name, field)) for label, field in practical.items() if fact(name, field)],
        suites=suites,
        main=suites[0]["board"].suite,
    )


def findings_page(published: Published) -> str:
    """Empty without outcomes."""
    found = published.findings
    counts = pd.Series([one["verdict"] for one in found], dtype=object).value_counts(sort=False)
    return render("findings.md.j2", findings=found, counts=counts.items()) if found else ""


def inside_page(published: Published) -> str:
    """Five findings about the insides of models: a text written by hand about the probes that are published; empty without."""
    have = all((published.folder / PROBES / suite).is_dir() for suite in (MAIN, "language"))
    return render("inside.md.j2") if have else ""
