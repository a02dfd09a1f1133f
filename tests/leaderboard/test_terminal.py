"""The board and comparisons on a terminal, and the list of columns."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from synthetic_results import CURVE, GOOD, WORST, board, full, in_class, result, spread, suite

from leaderboard.render.columns import DASH, EVERYWHERE, columns_of, limit, number, shown, span
from leaderboard.render.terminal import board_dict, comparison, print_board, print_comparison, winner_text


def printed(found, width=100):
    out = io.StringIO()
    print_board(found, "lprime status tiny", Console(file=out, width=width, color_system=None))
    return out.getvalue()


@pytest.fixture(scope="module")
def three():
    return board(spread(suite(), {"nope": CURVE, "rope": WORST, "alibi": GOOD}))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_verdict_is_below_the_table_and_lines_fit(three, width):
    text = printed(three, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    order = [text.index(part) for part in ("Suite tiny", "Trained at lengths", "Hidden columns:", "alibi leads")]
    assert order == sorted(order) and " ".join(text.split()).endswith("width have run.")
    rows = [line.split() for line in lines if re.match(r"\s*\d+\s+\w+\s+[.\d]+", line)]
    assert [row[1] for row in rows] == ["alibi", "nope", "rope"] and rows[0][2] == f"{three.rows['score'][0]:.3f}".lstrip("0")


def test_hidden_columns_are_named(three):
    narrow, wide = printed(three, 40), printed(three, 160)
    assert re.search(r"Hidden columns: .*parity.*, details;", " ".join(narrow.split()))
    assert "parity" in wide.split("Hidden")[0] and "Hidden columns: details;" in wide


def test_a_name_with_markup_and_control_characters_stays_text():
    text = printed(board(full(suite(seeds=[0]), {"nope": CURVE, "[bold]x\x1b[31m": GOOD})))
    assert "[bold]x\\x1b[31m" in text and "\x1b" not in text


def test_missing_runs_are_said():
    runs = [*full(suite(), {"nope": CURVE}), result(suite(), "sorting", "t5")]
    assert "Encodings that lack a task or a learning rate: t5. See lprime status tiny" in printed(board(runs))


def test_json_has_every_row_and_null_for_what_is_unknown(three):
    found = board_dict(three)
    assert [row["encoding"] for row in found["rows"]] == ["alibi", "nope", "rope"]
    assert found["rows"][0]["step_time"] is None and found["columns"].keys() == {c.key for c in columns_of(three.tasks)}


def test_columns_have_help_and_each_view_has_its_own(three):
    every = columns_of(three.tasks)
    assert len({column.key for column in every}) == len(every) == len({column.title for column in every})
    assert all(column.help and column.views for column in every)
    for view in EVERYWHERE:
        assert {"encoding", "score"} <= {column.key for column in shown(three.tasks, view, three.rows)}
    assert "step_time" not in {column.key for column in shown(three.tasks, "web", three.rows)}, "unknown for all"


def test_numbers_as_text():
    assert [number(x) for x in (0.76, 1.0, 1.234, -0.0001, np.nan, None)] == [".76", "1.00", "1.23", ".00", DASH, DASH]
    assert span(0.7, 0.8) == ".70–.80" and span(np.nan, np.nan) == DASH
    row = {"limit.a": 32.0, "limit_mark.a": "≥", "limit.b": 1.26, "limit_mark.b": ""} | {
        "limit.c": np.nan,
        "limit_mark.c": np.nan,
    }
    assert [limit(row, task) for task in "abc"] == ["≥32", "1.3", DASH]


def told(found):
    out = io.StringIO()
    print_comparison(found, Console(file=out, width=100, color_system=None))
    return out.getvalue()


def test_a_comparison_names_the_winner_with_difference_and_interval(three):
    found = comparison(three, "rope", "alibi")
    by_seed = {name: three.blocks[three.encodings.index(name)] for name in ("rope", "alibi")}
    assert found["difference"] == pytest.approx(by_seed["rope"].mean() - by_seed["alibi"].mean())
    assert found["winner"] == "alibi" and found["p"] <= 0.05
    text = told(found)
    assert text.startswith("alibi is significantly better than rope, by .") and "95 % interval" in text and "p = " in text
    assert "Sorting" in text and "Parity" in text


def test_equal_encodings_single_seeds_and_other_classes_have_no_winner():
    equal = comparison(board(spread(suite(), {"nope": CURVE, "rope": CURVE, "alibi": GOOD})), "nope", "rope")
    assert equal["winner"] is None and winner_text(equal).startswith("Neither is significantly better.")
    assert equal["practically_equal"] and winner_text(equal).endswith("They are practically equal: within ±0.03.")
    single = comparison(board(full(suite(seeds=[0]), {"nope": CURVE, "alibi": GOOD})), "nope", "alibi")
    assert "a single seed cannot say more" in winner_text(single) and winner_text(single).startswith("alibi")
    runs = full(suite(), {"nope": CURVE}) + in_class(suite(), "abacus", "task-aware", GOOD)
    other = comparison(board(runs), "nope", "abacus")
    assert other["winner"] is None and "different tables" in winner_text(other)
