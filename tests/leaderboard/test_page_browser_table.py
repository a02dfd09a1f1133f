"""The table of the HTML page in Chromium: sorting, filters, columns, CSV, suites; and the address that keeps the view.

Expected values are computed from the results with numpy and the board's own formatting, never from the page.
"""

import re

import numpy as np
import pandas as pd
import pytest
from browser_page import GRID, HOSTILE, all_columns, chips, past, row, select, shown, visible_heads

from leaderboard.format import share
from leaderboard.stats import scores as st

pytestmark = pytest.mark.browser
ABSENT = {"–", "missing", "failed", "incomplete"}


def key_of(text):
    """The key that a cell is sorted by, read from its text."""
    if text in ABSENT:
        return None
    number = re.match(r"≥?\s*([\d,]*\.?\d+)", text)
    return float(number[1].replace(",", "")) if number else text


def test_every_column_sorts_both_ways_within_the_classes(opened):
    tab = opened()
    all_columns(tab)
    heads = tab.locator(".board:visible thead th")
    classes = tab.locator(".board:visible tbody").count()
    assert classes == 3
    for column in range(heads.count()):
        button = heads.nth(column).get_by_role("button")
        for _ in range(2):
            button.click()
            assert tab.locator(".board:visible thead th[aria-sort]").count() == 1
            order = heads.nth(column).get_attribute("aria-sort")
            texts = tab.evaluate(
                """(column) => [...document.querySelectorAll('.board:not([hidden]) tbody')].map((body) =>
                  [...body.querySelectorAll('tr[data-row]')].map((row) => row.children[column].innerText))""",
                column,
            )
            assert sum(map(len, texts)) == len(GRID.encodings) and len(texts) == classes
            for group in texts:
                words = [text.strip().lower() for text in group]
                keys = words if column == 1 else [*map(key_of, words)]
                there = [key for key in keys if key is not None]
                assert keys[: len(there)] == there, "missing values come last"
                assert there == sorted(there, reverse=order == "descending"), (column, order)


def test_sorting_by_a_task_is_sorting_by_its_results(opened):
    tab = opened()
    tab.get_by_role("button", name="sorting", exact=True).click()
    standard = [name for name in GRID.encodings if name not in ("abacus", "finetuned(rope)")]
    expected = sorted(standard, key=lambda name: -past(name, "sorting"))
    assert [past(name, "sorting") for name in shown(tab)[: len(expected)]] == [past(name, "sorting") for name in expected]
    text = row(tab, expected[0]).locator("td.task").nth(1).inner_text()
    assert text.startswith(share(past(expected[0], "sorting")))
    tab.get_by_role("button", name="parity", exact=True).click()
    assert shown(tab)[len(expected) - 1] == "t5", "without a run on parity"


def test_filters_leave_matching_rows_and_count_them(opened):
    tab = opened()
    everything = len(GRID.encodings)
    assert len(shown(tab)) == everything and tab.locator("#count").inner_text() == f"{everything} of {everything} encodings"
    tab.get_by_label("Find").fill("ROPE")
    assert sorted(shown(tab)) == ["finetuned(rope)", "rope"]
    assert tab.locator("#count").inner_text() == f"2 of {everything} encodings"
    assert tab.locator(".board:visible tr.class:visible").count() == 2, "a class without rows is not there"
    tab.get_by_label("Find").fill("rope tuned")
    assert shown(tab) == ["finetuned(rope)"]
    tab.get_by_label("Find").fill("")
    tab.locator("#family").select_option("score bias")
    assert sorted(shown(tab)) == ["alibi", "t5"]
    tab.locator("#family").select_option("all")
    tab.get_by_label("Class").select_option(index=2)
    assert shown(tab) == ["finetuned(rope)"]
    tab.get_by_label("Class").select_option("all")
    select(tab, "alibi", "yarn")
    tab.get_by_label("selected only").check()
    assert sorted(shown(tab)) == ["alibi", "yarn"]
    row(tab, "yarn").get_by_role("checkbox").uncheck()
    assert shown(tab) == ["alibi"]


def test_the_address_keeps_the_view(opened):
    tab = opened()
    assert "#" not in tab.evaluate("location.href"), "the first view has a plain address"
    before = tab.evaluate("history.length")
    select(tab, "rope", HOSTILE[1])
    tab.get_by_label("Find").fill("o")
    tab.get_by_label("Task columns").select_option(index=2)
    tab.get_by_role("button", name="parity").click()
    tab.get_by_role("button", name="parity").click()
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_label("family", exact=True).uncheck()
    tab.get_by_label("IQM").check()
    view = tab.evaluate("location.hash")
    assert tab.evaluate("history.length") == before, "no entry for each change"
    seen = [shown(tab), chips(tab), visible_heads(tab), tab.locator("#panels canvas").count()]
    again = opened(view=view)
    assert [shown(again), chips(again), visible_heads(again), again.locator("#panels canvas").count()] == seen
    assert again.evaluate("location.hash") == view and again.locator("th[aria-sort]:visible").inner_text().startswith("parity")
    assert "family" not in seen[2] and "IQM" in seen[2] and sorted(seen[1]) == sorted(["rope", HOSTILE[1]])
    again.evaluate("location.hash = '#select='")
    again.wait_for_function("!document.querySelector('.chip')")
    assert len(shown(again)) == len(GRID.encodings) and visible_heads(again)[2] == "family"
    other = opened(view="#suite=second&select=e07&select=gone&sort=nonsense&family=none+such&view=x&columns=score")
    assert chips(other) == ["e07"] and len(shown(other)) == 30 and visible_heads(other) == ["encoding", "score"]
    assert opened(view="#suite=second-0ld").locator(".board:visible h2").inner_text().startswith("Suite second, version 1")


def test_what_matters_fits_and_the_rest_can_be_shown(opened):
    tab = opened()
    box = "document.querySelector('.board .scroll')"
    assert tab.evaluate(f"{box}.scrollWidth <= {box}.clientWidth"), "in a window of 1,280 pixels"
    assert visible_heads(tab) == ["tier", "encoding", "family", "score", "reach", "parity", "sorting", "l ≤ L", "step time"]
    all_columns(tab)
    assert len(visible_heads(tab)) == tab.locator(".board:visible thead th").count() > 18
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_role("button", name="Main", exact=True).click()
    assert len(visible_heads(tab)) == 9


def test_the_csv_has_the_table_as_shown(opened):
    tab = opened()
    tab.get_by_label("Class").select_option(index=1)
    tab.get_by_role("button", name="sorting", exact=True).click()
    with tab.expect_download() as started:
        tab.get_by_role("button", name="Download CSV").click()
    assert started.value.suggested_filename == "lprime-tiny.csv"
    frame = pd.read_csv(started.value.path())
    assert [" ".join(name.split()) for name in frame["encoding"]] == [" ".join(name.split()) for name in shown(tab)]
    assert set(frame["class"]) == {"Main table: trained at lengths up to L only"}
    for line in frame[frame["encoding"].isin(["rope", "yarn", "alibi"])].to_dict("records"):
        assert line["sorting: score"] == pytest.approx(past(line["encoding"], "sorting"), abs=5.1e-4)
        assert line["reach"] > 0 and line["score (note)"].startswith("[")
        assert line["family"] == {"alibi": "score bias"}.get(line["encoding"], "rotary")
    assert "IQM" not in frame


def test_names_lead_to_encoding_pages_and_back(opened, address):
    tab = opened()
    row(tab, "rope").get_by_role("link").click()
    assert tab.locator("h1").inner_text() == "rope"
    assert share(GRID.exact("sorting", "rope").mean(0)[2]) in tab.locator("table").all_inner_texts()[-2]
    tab.get_by_text("Curves, next to those of others").click()
    tab.locator(".chip").wait_for()
    assert chips(tab) == ["rope"]
    row(tab, HOSTILE[0]).get_by_role("link").click()
    assert tab.locator("h1").inner_text() == HOSTILE[0] and tab.evaluate("window.hacked") is None
    tab.get_by_text("← the board").click()
    tab.locator(".chip").first.wait_for()
    assert len(shown(tab)) == len(GRID.encodings)


def test_task_columns_show_the_selected_metric(opened):
    tab = opened()
    tab.get_by_role("button", name="sorting", exact=True).click()
    for view, number in (("reach", reach), ("l ≤ L", within)):
        tab.get_by_label("Task columns").select_option(view)
        heading = tab.get_by_role("button", name="sorting")
        assert heading.inner_text().split(None, 1) == ["sorting", view]
        names = [name for name in shown(tab) if name not in ("abacus", "finetuned(rope)")]
        assert [number(name) for name in names] == sorted(map(number, names), reverse=True), "sorted by the new numbers"
        for name in names:
            text = row(tab, name).locator("td.task").nth(1).inner_text()
            assert float(re.search(r"\d*\.?\d+", text)[0]) == pytest.approx(number(name), abs=5.1e-3)
    tab.get_by_label("Task columns").select_option("score")
    assert row(tab, "rope").locator("td.task").nth(1).inner_text().startswith(share(past("rope", "sorting")))


def reach(name):
    column = GRID.columns[1]
    return st.reach(column.at, GRID.exact("sorting", name), np.array(column.chance), column.train_length).at


def within(name):
    return GRID.exact("sorting", name)[:, :2].mean()


def test_suites_and_versions_are_shown_one_at_a_time(opened):
    tab = opened()
    suites = tab.locator("#suite").locator("option").all_inner_texts()
    assert suites[0] == "Suite tiny" and [s.split(" (")[0] for s in suites[1:]] == [
        "Suite second, version 2",
        "Suite second, version 1",
    ]
    tab.locator("#suite").select_option(suites[2])
    assert tab.locator(".board:visible").count() == 1 and shown(tab) == ["shaw"] == chips(tab)
    assert tab.locator("#count").inner_text() == "1 of 1 encodings"
    tab.locator("#suite").select_option(suites[0])
    assert len(shown(tab)) == len(GRID.encodings) and tab.locator(".plot").count() == 2


def test_the_table_is_shown_without_javascript(opened):
    tab = opened(java_script_enabled=False)
    assert tab.locator("tr[data-row]:visible").count() == len(GRID.encodings) + 30 + 1
    assert tab.locator("noscript p").is_visible()
    assert tab.locator("#controls:visible, #curves:visible, #theme:visible").count() == 0
