"""The curves of the HTML page in Chromium, and the page as a whole: pointer, keyboard, touch screen, hostile names, themes.

Expected values are computed from the results with numpy and the board's own formatting, never from the page.
"""

import io
import re

import numpy as np
import pytest
from browser_page import GRID, HOSTILE, OF, at, chips, past, row, select, shown, visible_heads
from PIL import Image

from leaderboard.figures.theme import DARK, LIGHT
from leaderboard.format import share, times
from leaderboard.stats import scores as st
from leaderboard.stats.summary import summarise_cell

pytestmark = pytest.mark.browser


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
    assert tab.get_by_text("lprime run tiny.yaml --encoding rope --task parity --seed 0 --out again").is_visible()
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
