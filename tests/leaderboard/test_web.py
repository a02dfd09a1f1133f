"""The interactive page: complete without a network or a script, safe against text from results, and in Chromium."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
from synthetic_results import CURVE, GOOD, board, full, record, result, suite

from leaderboard.render.columns import WEB, shown
from leaderboard.render.web import page, write_page
from tasks import InputError

SHOWN = ".board:not([hidden])"
HOSTILE = "</script><img src=x onerror=alert(1)>"


def made():
    of = suite()
    runs = full(of, {"nope": CURVE, "rope": (1, 1, 0.75, 0.0625), "alibi": GOOD, "shaw": (0.5, 0.5, 0.5, 0.5)})
    runs += [
        result(of, task.task, record("abacus", ranking="task-aware"), seed, (1, 1, 0.9, 0.9))
        for task in of.tasks
        for seed in of.seeds
    ]
    found = board(runs)
    found.rows["step_time"] = [1.0, 1.1, 2.0, 1.05, 1.3]
    return found


def other():
    of = suite(name="other", tasks=[{"task": "sorting", "variant": "unique", "train_length": 6}])
    return board(full(of, {"nope": CURVE, "t5": GOOD}))


class Reader(HTMLParser):
    """Elements with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag in ("script", "style"):
            self.scripts.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            tag, attrs, text = self.scripts[-1]
            self.scripts[-1] = tag, attrs, text + data


def test_the_page_needs_nothing_else_and_its_policy_allows_its_own_scripts_alone():
    reader = Reader(page([made()]))
    policy = next(a["content"] for tag, a in reader.elements if tag == "meta" and "http-equiv" in a)
    hashes = set(re.findall(r"'sha256-([^']+)'", policy))
    ours = [text for tag, attrs, text in reader.scripts if attrs.get("type") != "application/json"]
    assert hashes == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in ours}
    assert policy.startswith("default-src 'none'; script-src") and "unsafe" not in policy
    for tag, attrs in reader.elements:
        assert not (tag in ("link", "img", "iframe") and not attrs.get("href", "data:").startswith("data:")), tag
        assert not any(name.startswith("on") or name == "style" for name in attrs), "the policy would refuse it"


def test_tables_show_all_rows_and_columns_without_a_script():
    found = made()
    text = page([found])
    for column in shown(found.tasks, WEB, found.rows):
        assert f'data-key="{column.key}"' in text
        for _, row in found.rows.iterrows():
            assert f">{html.escape(column.show(row))}<" in text
    assert "alibi leads" in text


def test_data_of_charts_are_the_means_over_seeds():
    found = made()
    (data,) = json.loads(re.search(r'id="data">(.*?)</script>', page([found]))[1])
    curve = data["tasks"]["sorting"]
    assert curve["at"] == [0.5, 1, 1.5, 2] and curve["mean"]["rope"] == pytest.approx([1, 1, 0.75, 0.0625], abs=2e-3)
    assert data["rows"]["alibi"]["numbers"]["score"] == pytest.approx(1)


@pytest.mark.parametrize("field", ["name", "title", "link", "family"])
def test_text_from_results_stays_text(field):
    of = suite(seeds=[0])
    hostile = record(**({"name": "x", field: HOSTILE}))
    text = page([board(full(of, {"nope": CURVE}) + [result(of, task.task, hostile, 0, GOOD) for task in of.tasks])])
    reader = Reader(text)
    assert not any(tag == "img" for tag, _ in reader.elements)
    (data,) = json.loads(next(text for _, attrs, text in reader.scripts if attrs.get("type")))
    assert HOSTILE in json.dumps(data) or field == "link"


def test_another_page_is_not_overwritten(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(InputError, match=r"index.html was not written by lprime board"):
        write_page([made()], tmp_path)
    (tmp_path / "new").mkdir()
    assert write_page([made()], tmp_path / "new") == write_page([made()], tmp_path / "new")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_page([made(), other()], tmp_path_factory.mktemp("page")).as_uri()


def names(tab):
    return tab.eval_on_selector_all(
        ".board:not([hidden]) tr[data-name]", "rows => rows.filter(r => r.offsetParent).map(r => r.dataset.name)"
    )


@pytest.mark.browser
class TestInChromium:
    def test_columns_sort_by_click_and_by_keyboard_and_the_address_keeps_it(self, opened):
        tab = opened()
        assert names(tab) == list(made().rows["encoding"])
        tab.click("th[data-key=score] button")
        assert tab.get_attribute("th[data-key=score]", "aria-sort") == "descending"
        tab.focus("th[data-key=score] button")
        tab.keyboard.press("Enter")
        assert tab.get_attribute("th[data-key=score]", "aria-sort") == "ascending"
        order = names(tab)
        assert order[-2] == "alibi" and order[-1] == "abacus", "classes stay apart"
        tab.goto(tab.url)
        tab.reload()
        assert names(tab) == order

    def test_filters_and_selection(self, opened):
        tab = opened()
        tab.fill("#find", "rop")
        assert names(tab) == ["rope"] and tab.inner_text("#count") == "1 of 5 encodings"
        tab.fill("#find", "")
        tab.check("#learned")
        assert "shaw" not in names(tab)
        tab.fill("#step", "1.2")
        assert set(names(tab)) < {"alibi", "rope", "nope", "abacus"}
        tab.fill("#step", "")
        tab.uncheck("#learned")
        for box in tab.query_selector_all(f"{SHOWN} td.pick input:checked"):
            box.click()
        for name in ("rope", "nope"):
            tab.check(f"{SHOWN} tr[data-name={name}] input")
        tab.check("#only")
        assert sorted(names(tab)) == ["nope", "rope"]
        assert "pick=rope%7Cnope" in tab.url
        heads = tab.eval_on_selector_all("#numbers tr th:first-child", "cells => cells.map(c => c.textContent)")
        assert heads == ["encoding", "rope", "nope"] * 2
        assert tab.inner_text("#numbers table:last-child tr:nth-child(2) td:last-child") == "0.06"

    def test_at_most_five_lines_have_a_colour(self, opened):
        tab = opened()
        for box in tab.query_selector_all(f"{SHOWN} td.pick input:not(:checked)"):
            box.click()
        strong = "c => c.data.datasets.filter(d => d.borderWidth > 2).length"
        lines = "Object.values(Chart.instances).filter(c => c.config.type === 'line')"
        colours = tab.evaluate(f"{lines}.map({strong})")
        assert len(colours) == 2 and max(colours) <= 5

    def test_columns_suites_card_and_csv(self, opened):
        tab = opened()
        assert not tab.is_visible("th[data-key='within.sorting']")
        tab.select_option("#show", "within")
        assert tab.is_visible(".board:not([hidden]) th[data-key='within.sorting']")
        tab.click(f"{SHOWN} tr[data-name=rope] .name")
        assert "All about rope" in tab.inner_text("#card")
        with tab.expect_download() as download:
            tab.click("#csv")
        lines = download.value.path().read_text().splitlines()
        assert len(lines) == 6 and '"within' in lines[0].replace("sorting, ", "") and lines[1].count('","') > 6
        tab.select_option("#suite", "other")
        assert set(names(tab)) == {"nope", "t5"} and not tab.is_visible("#card")
        assert len(tab.query_selector_all(".panel:not(.wide)")) == 1

    def test_dark_by_preference_and_by_button(self, opened):
        dark = opened(color_scheme="dark")
        back = "getComputedStyle(document.body).backgroundColor"
        assert dark.evaluate(back) == "rgb(13, 17, 23)"
        dark.click("#theme")
        assert dark.evaluate(back) == "rgb(255, 255, 255)" and "theme=light" in dark.url

    def test_on_a_phone_the_table_is_in_the_first_screen_and_nothing_overflows(self, opened):
        tab = opened(width=390, height=844)
        assert tab.evaluate("document.querySelector('.board:not([hidden]) table').getBoundingClientRect().top") < 500
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390

    def test_without_javascript_the_table_is_there(self, opened):
        tab = opened(java_script_enabled=False)
        assert tab.is_visible("tr[data-name=alibi]") and not tab.is_visible("#controls") and not tab.is_visible("#charts")

    def test_a_broken_address_does_no_harm(self, opened):
        tab = opened(view="#suite=gone&sort=nothing&pick=%3Cb%3E%7Crope&theme=odd&find=%5B(")
        assert names(tab) == []
        tab.fill("#find", "")
        assert len(names(tab)) == 5
