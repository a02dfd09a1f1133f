"""The HTML page in Chromium: pointer, keyboard, touch screen, and no network request.

Expected values are computed from the results with numpy and the board's own formatting, never from the page.
"""

import io
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic_results import failure, full, record, result, suite

from leaderboard.data.grid import build_grids
from leaderboard.figures.theme import DARK, LIGHT
from leaderboard.format import share, times
from leaderboard.render import html_page
from leaderboard.stats import scores as st
from leaderboard.stats.summary import summarise_cell

pytestmark = pytest.mark.browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ABSENT = {"–", "missing", "failed", "incomplete"}
HOSTILE = ("</script><script>window.hacked=1</script>", '"><img src=x onerror=window.hacked=1>', "{{data}} `x` |", "__proto__")
OF = suite(test_examples=16)  # odd sixteenths are where Python and JavaScript round apart
SECOND = suite(name="second", version=2)


def runs_of(of):
    """A dozen encodings of all ranking classes, each with its own curves; one lacks a task, some have hostile names."""
    generator = np.random.default_rng(0)
    families = {"rope": "rotary", "yarn": "rotary", "alibi": "bias", "t5": "bias", "nope": "none"}
    names = [*families, "finetuned(rope)", "abacus", *HOSTILE]
    runs = []
    for name in names:
        ranking = {"abacus": "task-aware", "finetuned(rope)": "longer"}.get(name, "standard")
        made = record(name, family=families.get(name, "other"), ranking=ranking, year=int(2000 + generator.integers(26)))
        strength = generator.random()
        for task in of.tasks:
            for seed in of.seeds:
                past = np.clip(strength + 0.2 * generator.standard_normal(2) - [0.1, 0.2], 0, 1)
                exact = np.round(np.array([1, 0.97, *past]) * of.test_examples) / of.test_examples
                runs.append(result(of, task.task, made, seed, exact.tolist(), parameters={"model": 9, "encoding": len(runs)}))
    return [run for run in runs if (run.encoding.name, run.task) != ("t5", "parity")]


RUNS = runs_of(OF)
(GRID,) = build_grids(OF, RUNS, {("parity", "t5", 1): failure("out of memory")})


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.fail(
            "the HTML page needs Chromium to be tested: apt-get install chromium, or pytest -m 'not browser'", pytrace=False
        )
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path)
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    other = [
        run.model_copy(update={"fingerprint": "0ld", "suite_version": 1}) for run in full(SECOND, {"shaw": (1, 1, 0.5, 0.5)})
    ]
    second = build_grids(SECOND, full(SECOND, {f"e{i:02}": (1, 1, i / 30, 0) for i in range(30)}) + other, {})
    return html_page.write_html_page({"tiny": [GRID], "second": second}, tmp_path_factory.mktemp("page")).as_uri()


@pytest.fixture
def opened(browser, address):
    """Opens the page in a new window; any error or network request fails the test at the end."""
    faults, contexts, folder = [], [], address.removesuffix("index.html")

    def open_(width=1280, height=900, view="", **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: faults.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda request: request.url.startswith(folder) or faults.append(f"request: {request.url}"))
        tab.goto(address + view)
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def shown(tab):
    """Names in the table, top to bottom."""
    return tab.locator(".board:visible tr[data-row]:visible .name").all_inner_texts()


def chips(tab):
    return [text.replace("×", "").replace("†", "").strip() for text in tab.locator(".chip").all_inner_texts()]


def row(tab, name):
    return tab.locator(".board:visible tr[data-row]").filter(has=tab.get_by_text(name, exact=True))


def past(name, task):
    """Score of an encoding on a task."""
    column = next(column for column in GRID.columns if column.task == task)
    scores = summarise_cell(GRID, column, name).scores
    return scores.mean() if len(scores) else None


def all_columns(tab):
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_role("button", name="All", exact=True).click()
    tab.keyboard.press("Escape")


def visible_heads(tab):
    return [text.strip() for text in tab.locator(".board:visible thead th:visible").all_inner_texts()]


def select(tab, *names):
    tab.get_by_role("button", name="None", exact=True).click()
    for name in names:
        row(tab, name).get_by_role("checkbox").check()


def at(tab, panel, name, i, on=0.0):
    """Screen position of an encoding's curve at the i-th length, or that share of the way to the next."""
    means = GRID.exact(OF.tasks[panel].task, name).mean(0)
    y = float(np.interp(i + on, range(len(means)), means))
    find = """([panel, i, on, y]) => {
      const chart = Chart.getChart(document.querySelectorAll('#panels canvas')[panel]);
      const box = chart.canvas.getBoundingClientRect();
      const [from, to] = [i, i + 1].map((k) => chart.data.datasets.at(-1).data[k]?.x ?? 0);
      const x = from + on * (to - from);
      return [box.left + chart.scales.x.getPixelForValue(x), box.top + chart.scales.y.getPixelForValue(y)];
    }"""
    tab.locator(".plot").nth(panel).scroll_into_view_if_needed()
    return tab.evaluate(find, [panel, i, on, y])


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
    tab.get_by_role("button", name="sorting", exact=True).click()
    assert [past(name, "sorting") for name in shown(tab)[: len(expected)]] == [past(name, "sorting") for name in expected[::-1]]
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


def test_a_filter_without_rows_clears_the_curves(opened):
    tab = opened()
    select(tab, "alibi")
    points = """() => [...document.querySelectorAll('#panels canvas')].map((canvas) =>
      Chart.getChart(canvas).data.datasets.reduce((sum, set) => sum + set.data.filter((point) => !isNaN(point.y)).length, 0))"""
    tab.get_by_label("Find").fill("rope")
    drawn = {name: len([t for t in OF.tasks if (t.task, name) in GRID.runs]) for name in ("alibi", "rope", "finetuned(rope)")}
    assert set(drawn.values()) == {2}
    assert tab.evaluate(points) == [4 + 4 * len(OF.seeds) + 2 * 4] * 2, "the selected one with its seeds, and two in grey"
    tab.get_by_label("Find").fill("no such")
    assert tab.evaluate(points) == [0, 0] and shown(tab) == []
    assert tab.get_by_text("No encoding matches the filters").is_visible()
    tab.locator("#no-curves").get_by_role("button", name="Clear filters").click()
    assert len(shown(tab)) == len(GRID.encodings) and tab.get_by_label("Find").input_value() == ""
    assert not tab.locator("#no-curves").is_visible() and not tab.locator("#clear").is_visible()
    assert sum(tab.evaluate(points)) > 0


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
    for row in frame[frame["encoding"].isin(["rope", "yarn", "alibi"])].to_dict("records"):
        assert row["sorting: score"] == pytest.approx(past(row["encoding"], "sorting"), abs=5.1e-4)
        assert row["reach"] > 0 and row["score (note)"].startswith("[")
        assert row["family"] == {"alibi": "score bias"}.get(row["encoding"], "rotary")
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


def test_selecting_draws_the_curves_of_the_results(opened):
    tab = opened()
    select(tab, "alibi")
    row(tab, "rope").locator("td").nth(2).click()
    assert sorted(chips(tab)) == ["alibi", "rope"]
    drawn = tab.evaluate(
        """() => [...document.querySelectorAll('#panels canvas')].map((canvas) => Chart.getChart(canvas).data.datasets.map(
          (set) => ({ width: set.borderWidth, y: set.data.map((point) => point.y) })))"""
    )
    for task, datasets in zip(OF.tasks, drawn, strict=True):
        thick = [d["y"] for d in datasets if d["width"] == 2]
        expected = [np.round(GRID.exact(task.task, name).mean(0), 3) for name in ("alibi", "rope")]
        assert np.allclose(sorted(thick), sorted(map(list, expected)), atol=1e-9)
        seeds = [tuple(d["y"]) for d in datasets if d["width"] is None]
        assert sorted(seeds) == sorted(tuple(GRID.exact(task.task, name).ravel()) for name in ("alibi", "rope"))
        (grey,) = [np.array(d["y"], float).reshape(-1, 5) for d in datasets if d["width"] == 0.8]  # four lengths and a gap
        others = [n for n in GRID.encodings if (task.task, n) in GRID.runs and n not in ("alibi", "rope")]
        expected = [np.round(GRID.exact(task.task, name).mean(0), 3).tolist() for name in others]
        assert np.allclose(sorted(grey[:, :4].tolist()), sorted(expected), atol=1e-9) and np.isnan(grey[:, 4]).all()
    tab.locator(".chip", has_text="rope").click()
    assert chips(tab) == ["alibi"] and not row(tab, "rope").get_by_role("checkbox").is_checked()


@pytest.mark.parametrize("name", ["rope", "nope"])
def test_pointing_at_a_curve_shows_its_numbers(opened, name):
    tab = opened()
    select(tab, "rope", "alibi")
    for i, from_, on in ((2, 2, 0), (3, 3, 0), (1, 1, 0.3), (2, 1, 0.7)):
        tab.mouse.move(*at(tab, 1, name, from_, on))
        exact, column = GRID.exact("sorting", name), GRID.columns[1]
        box = tab.locator(".tooltip").nth(1)
        text = box.inner_text().replace("\u00a0", " ")
        assert f"length {column.lengths[i]} = {times(column.lengths[i] / column.train_length)} L" in text
        assert f"{name} by seed " + ", ".join(f"{seed}: {share(x)}" for seed, x in enumerate(exact[:, i])) in text
        assert box.locator("tr.here").inner_text().split() == [share(exact[:, i].mean()), name]
        listed = [line.split()[-1] for line in box.locator("tr").all_inner_texts()]
        assert set(listed) == {"rope", "alibi", name}, "all selected, and the one under the pointer"
    tab.mouse.move(5, 5)
    assert tab.locator(".tooltip:visible").count() == 0


def test_a_click_on_a_curve_selects_it(opened):
    tab = opened()
    select(tab, "rope")
    best = max(GRID.encodings, key=lambda name: past(name, "sorting"))
    place = at(tab, 1, best, 2)
    tab.mouse.click(*place)
    assert sorted(chips(tab)) == sorted(["rope", best])
    tab.mouse.click(*place)
    assert chips(tab) == ["rope"]


def test_everything_works_by_keyboard(opened):
    tab = opened()
    press = tab.keyboard.press
    tab.get_by_label("Task columns").focus()
    for _ in range(2):  # past "selected only"
        press("Tab")
    press("Enter")
    press("Tab")
    press("Space")  # the first column, the tier
    assert "tier" not in visible_heads(tab) and tab.evaluate("document.activeElement.value") == "tier"
    press("Space")
    press("Escape")
    assert tab.evaluate("document.activeElement.innerText") == "Columns" and not tab.locator("#column-boxes").is_visible()
    for _ in range(2):  # past "Download CSV", into the table's box
        press("Tab")
    assert tab.evaluate("document.activeElement.className") == "scroll"
    for _ in range(6):  # tier, encoding, family, score, reach, then parity
        press("Tab")
    assert tab.evaluate("document.activeElement.innerText") == "parity"
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen"
    press("Enter")
    best = max(
        (n for n in GRID.encodings if past(n, "parity") and n != "abacus" and "fine" not in n), key=lambda n: past(n, "parity")
    )
    assert shown(tab)[0] == best
    row(tab, best).get_by_role("checkbox").focus()
    before = row(tab, best).get_by_role("checkbox").is_checked()
    press("Space")
    assert row(tab, best).get_by_role("checkbox").is_checked() is not before

    select(tab, "rope", "alibi", "yarn")
    plot = tab.locator(".plot").nth(1)
    plot.focus()
    press("End")
    press("End")
    means = {n: GRID.exact("sorting", n).mean(0) for n in ("rope", "alibi", "yarn")}
    for _ in range(3):
        press("ArrowUp")
    order = sorted(means, key=lambda n: -means[n][-1])
    for name in order:
        said = tab.locator("#live").inner_text()
        assert said.startswith(f"{name}, Sorting (unique), length 12 = 2 L: exact match {share(means[name][-1])}")
        assert plot.locator(".tooltip tr.here").inner_text().split()[1] == name
        press("ArrowDown")
    press("ArrowLeft")
    assert f"exact match {share(means[order[-1]][-2])}" in tab.locator("#live").inner_text()
    press("Home")
    assert "length 3 = 0.5 L" in tab.locator("#live").inner_text()
    press("Enter")
    assert len(chips(tab)) == 2
    press("Escape")
    assert tab.locator(".tooltip:visible").count() == 0
    press("ArrowLeft")
    assert tab.locator(".tooltip:visible").count() == 1
    press("Tab")
    assert tab.locator(".tooltip:visible").count() == 0


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


def test_pairs_show_the_probability_of_improvement(opened):
    tab = opened()
    select(tab, "rope")
    assert "Select two" in tab.locator("#pairs").inner_text()
    select(tab, "rope", "alibi", "finetuned(rope)", "t5")
    lines = [re.split(r"\t+", line.strip()) for line in tab.locator("#pairs tr").all_inner_texts()]
    names = [line[0].strip() for line in lines[1:]]
    assert sorted(names) == ["alibi", "finetuned(rope)", "rope"], "t5 lacks a task"
    scores = {n: [summarise_cell(GRID, c, n).scores for c in GRID.columns] for n in names}
    for name, (_, *cells) in zip(names, lines[1:], strict=True):
        for other, cell in zip(names, cells, strict=True):
            if name != other:
                assert float(cell.split()[0]) == pytest.approx(
                    st.probability_of_improvement(scores[name], scores[other]), abs=1.1e-3
                )


def test_numbers_by_length_and_the_command_to_reproduce_them(opened):
    tab = opened()
    select(tab, "rope", "t5")
    tab.get_by_text("Numbers by length").click()
    table = tab.locator("#numbers table").nth(1)
    cells = table.locator("tr", has_text="rope").locator("td").all_inner_texts()
    assert cells == [share(x) for x in GRID.exact("sorting", "rope").mean(0)]
    tab.get_by_text("the command to reproduce a run").click()
    assert tab.get_by_text("lprime run tiny --encoding rope --task parity --seed 0 --out again").is_visible()
    tab.get_by_text("Failed, diverged and missing runs").first.click()
    assert tab.get_by_text("out of memory").is_visible()


def test_hostile_names_do_nothing(opened):
    tab = opened()
    assert {*HOSTILE} < {*shown(tab)}
    select(tab, *HOSTILE)
    assert {*HOSTILE} == {*chips(tab)}
    tab.get_by_text("Numbers by length").click()
    tab.get_by_text("the command to reproduce a run").click()
    tab.locator(".plot").nth(1).focus()
    for _ in HOSTILE:
        tab.keyboard.press("ArrowDown")
    assert {*HOSTILE} == {*tab.locator(".plot").nth(1).locator(".tooltip tr td:nth-child(3)").all_inner_texts()}
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img").count() == 0 and tab.locator("script").count() == 3


def test_no_more_encodings_are_selected_than_there_are_line_styles(opened):
    tab = opened()
    tab.locator("#suite").select_option(index=1)
    tab.get_by_role("button", name="All in the table").click()
    assert len(chips(tab)) == 21
    styles = {tab.locator(".chip .swatch").nth(i).get_attribute("style") for i in range(21)}
    assert len(styles) == 21, "no two look the same"
    box = row(tab, "e00").get_by_role("checkbox")
    box.click()
    assert not box.is_checked() and "At most 21" in tab.locator("#live").inner_text()
    tab.get_by_role("button", name="Best six").click()
    assert sorted(chips(tab)) == [f"e{i}" for i in range(24, 30)]


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


@pytest.mark.parametrize("width", [390, 320])
def test_on_a_phone_nothing_scrolls_sideways_but_tables(opened, width):
    tab = opened(width, 844, is_mobile=True, has_touch=True, device_scale_factor=2)
    tab.locator("#suite").select_option(index=1)
    tab.locator("#suite").select_option(index=0)
    select(tab, *HOSTILE, "rope")
    for summary in tab.locator("summary:visible").all():
        summary.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate("document.querySelector('.board .scroll').scrollWidth") > width
    widest = max(cell.bounding_box()["width"] for cell in tab.locator(".board:visible tr[data-row] th").all())
    assert widest < 0.6 * width, "names, which stay in place, leave room for numbers"
    tab.touchscreen.tap(*at(tab, 1, "rope", 2))
    box = tab.locator(".tooltip:visible").bounding_box()
    assert "rope" in tab.locator(".tooltip:visible").inner_text() and box["x"] >= 0 and box["x"] + box["width"] <= width


def test_the_theme_follows_the_system_until_it_is_switched(opened):
    tab = opened(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"

    def rgb(colour):
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]

    def is_(theme):
        x, y = at(tab, 0, "rope", 0)
        seen = [int(n) for n in re.findall(r"\d+", tab.evaluate(ground))]
        clip = {"x": x + 3, "y": y + 70, "width": 1, "height": 1}
        shade = Image.open(io.BytesIO(tab.screenshot(clip=clip))).convert("RGB").getpixel((0, 0))
        return seen == rgb(theme.background) and list(shade) == rgb(theme.shade)

    assert is_(DARK)
    tab.emulate_media(color_scheme="light")
    assert is_(LIGHT)
    toggle = tab.get_by_role("button", name="Dark")
    assert toggle.get_attribute("aria-pressed") == "false"
    toggle.click()
    assert is_(DARK) and toggle.get_attribute("aria-pressed") == "true"
    tab.reload()
    assert is_(DARK), "remembered"


def test_the_table_is_shown_without_javascript(opened):
    tab = opened(java_script_enabled=False)
    assert tab.locator("tr[data-row]:visible").count() == len(GRID.encodings) + 30 + 1
    assert tab.locator("noscript p").is_visible()
    assert tab.locator("#controls:visible, #curves:visible, #theme:visible").count() == 0
