"""The first table of a board fits where it is read: a page of GitHub, and terminals."""

import io
import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from synthetic_results import failure, full, only_grid, record, result, suite

from leaderboard.format import FAMILIES
from leaderboard.render.board import render_board
from leaderboard.render.board_text import board_dict, print_board
from leaderboard.stats.summary import summarise

TASKS = [
    ("copying", "unique"),
    ("addition", "reversed"),
    ("parity", "sparse"),
    ("key_retrieval", "needle"),
    ("sorting", "unique"),
]
NAMES = (
    "nope",
    "sinusoidal_every_layer",
    "finetuned(interpolated(rope,fixed=True))",
    "randomised_scaled(learned)",
    "dape(alibi)",
)
GITHUB = """body { margin: 0; font: 16px/1.5 sans-serif } article { width: 948px; overflow-wrap: break-word }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: auto;
        font-variant: tabular-nums } th { font-weight: 600 } td, th { padding: 6px 13px; border: 1px solid }"""
"""GitHub's style of tables, and the width of its pages' text."""


@pytest.fixture(scope="module")
def suite_and_runs():
    """Long names of every family; flagged, second-hand and separated rows."""
    tasks = [{"task": task, "variant": variant, "train_length": 8} for task, variant in TASKS]
    of = suite(tasks=tasks)
    runs = []
    for i, name in enumerate(NAMES):
        made = record(name, family=list(FAMILIES)[2 * i], source="second-hand" if i % 2 else "")
        exact = (1, 1 - i / 10, 1 - i / 6, 1 - i / 6)
        runs += [result(of, task.task, made, seed, exact) for task in of.tasks for seed in of.seeds]
    return of, runs


@pytest.fixture(scope="module")
def grid(suite_and_runs):
    return only_grid(*suite_and_runs)


@pytest.mark.browser
@pytest.mark.parametrize("missing", [0, 1])
def test_the_front_page_fits_the_width_of_github(suite_and_runs, browser, missing):
    of, runs = suite_and_runs
    grid = only_grid(of, runs[missing:])
    html = MarkdownIt("commonmark").enable("table").render(render_board([grid])["board.md"])
    page = browser.new_page(viewport={"width": 1012, "height": 800})
    page.set_content(f"<style>{GITHUB}</style><article>{html}</article>")
    tables = page.evaluate("[...document.querySelectorAll('table')].map(t => [t.scrollWidth, t.clientWidth])")
    assert len(tables) == 1 and all(content <= visible <= 948 for content, visible in tables)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_table_of_a_terminal_is_never_wider_and_shows_more_where_there_is_room(grid, width):
    lines = printed(grid, width).splitlines()
    header, rows = lines[1:3], lines[3 : 3 + len(NAMES)]
    assert all(len(line.rstrip()) <= width for line in lines if not line.startswith(("Written", " " * 9)))
    assert [row.split()[1] for row in rows] == list(NAMES)
    titles = " ".join(header).split()
    assert {"encoding", "reach", "score"} <= set(titles)
    assert ("sorting" in titles, {"sorting", "family"} <= set(titles)) == (width >= 120, width >= 160)


def test_the_terminal_says_what_the_first_page_says_and_where_the_rest_is(grid, tmp_path):
    text = " ".join(printed(grid, 500).split())
    front = render_board([grid])["board.md"]
    for topic in ("Use ", "Cost", "Clearly below", "At 2 L", "Measured"):
        assert f"- **{topic}" in front and topic in text
    assert "board.md board-details.md (all tables and figures) board-task-*.md" in text


def test_runs_that_did_not_finish_are_counted_and_encodings_that_nobody_ran_are_not():
    of = suite(encodings=["nope", "rope", "t5"])
    grid = only_grid(of, full(of, {"nope": (1, 1, 1, 1)})[1:], {("parity", "nope", 0): failure("boom")})
    text = " ".join(printed(grid, 200).split())
    assert "Suite tiny: 1 encoding, 2 tasks, 3 seeds" in text
    assert "Failed, diverged or missing runs: 1 line in board-details.md, or lprime status tiny.yaml --out r" in text
    assert "rope" not in text and "t5" not in text


def test_the_board_as_data_has_the_numbers_of_its_rows(grid):
    content = json.loads(json.dumps(board_dict(grid, [Path("board.md")]), allow_nan=False))
    rows = {row.name: row for group in summarise(grid).values() for row in group}
    found = {row["encoding"]: row for table in content["tables"].values() for row in table}
    assert found.keys() == rows.keys() and content["files"] == ["board.md"] and content["answer"]
    for name, row in rows.items():
        assert (found[name]["score"], found[name]["tier"]) == (row.score, row.tier)
        assert found[name]["tasks"] == {task: cell.score and cell.score[0] for task, cell in row.cells.items()}


def printed(grid, width):
    output, pages = io.StringIO(), [Path("board.md"), Path("board-details.md")]
    print_board(grid, pages, "lprime status tiny.yaml --out r", Console(file=output, width=width))
    return output.getvalue()
