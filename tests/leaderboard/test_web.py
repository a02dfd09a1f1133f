"""The interactive page: complete without a network or a script, safe against text from results, and in Chromium."""

import base64
import hashlib
import html
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from synthetic_results import CURVE, GOOD, board, full, record, result, suite

from bench.plugins.registry import get_encoding
from leaderboard.figures.style import colour
from leaderboard.render.columns import WEB, shown
from leaderboard.render.web import page, write_page
from leaderboard.stats import ranks
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
    found.rows["text"] = [2.1, 4.6, 5.3, np.nan, 2.2]
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
        read = attrs.get("src", attrs.get("href", "data:")) if tag in ("link", "img", "iframe") else "data:"
        assert read.startswith("data:"), tag
        assert not any(name.startswith("on") or name == "style" for name in attrs), "the policy would refuse it"


def test_tables_show_all_rows_and_columns_without_a_script():
    found = made()
    text = page([found])
    for column in shown(found.tasks, WEB, found.rows):
        assert f'data-key="{column.key}"' in text
        for _, row in found.rows.iterrows():
            assert f">{html.escape(column.show(row))}<" in text
    assert "alibi leads" in text


def data_of(boards):
    return json.loads(re.search(r'id="data">(.*?)</script>', page(boards))[1])


def test_the_data_are_scores_by_block_and_length_of_each_recipe():
    of, rates = suite(), (0.001, 0.002)
    runs = [one.model_copy(update={"learning_rate": rate}) for rate in rates for one in full(of, {"nope": CURVE, "rope": GOOD})]
    (data,) = data_of([board(runs)])
    assert [one["label"] for one in data["recipes"]] == ["as ranked", "learning rate 0.001", "learning rate 0.002"]
    own = data["recipes"][1]
    assert own["at"]["sorting"] == [[0.5, 1, 1.5, 2]] * 3
    assert own["values"]["sorting"]["nope"][2] == pytest.approx([1000, 1000, 500, 250], abs=2)
    assert own["values"]["parity"]["nope"][0] == pytest.approx([1000, 1000, 0, -500]), "chance is one half"


def test_the_data_have_what_classes_declare():
    (data,) = data_of([board(full(suite(seeds=[0]), {"nope": CURVE, "rope": GOOD}, learning_rate=0.004))])
    assert [one["label"] for one in data["recipes"]] == ["as ranked"], "a single rate is no choice"
    heads = np.array(data["rows"]["nope"]["attention"])
    assert heads == pytest.approx(np.full_like(heads, 1 / heads.shape[1]), rel=1e-2), "all keys are equal"
    assert data["rows"]["nope"]["about"]["formula"] == get_encoding("nope").info.formula


def test_rows_lie_beside_the_page_as_csv_and_json(tmp_path):
    found = made()
    write_page([found], tmp_path)
    rows = json.loads((tmp_path / "tiny.json").read_text())
    assert [row["encoding"] for row in rows] == list(found.rows["encoding"]) and rows[3]["text"] is None
    assert len((tmp_path / "tiny.csv").read_text().splitlines()) == 1 + len(rows)


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

    def test_the_answer_names_the_best_in_any_order_and_none_without_a_weight(self, opened):
        by_score, by_name = (opened(view=f"#step=9{more}").inner_text("#answer") for more in ("", "&sort=encoding&down=1"))
        assert by_score.startswith("By your choice: ") and by_name == by_score
        assert opened(view="#weights=0|0").inner_text("#answer") == "No encoding has a score for your choice."

    def test_filters_and_selection(self, opened):
        tab = opened()
        tab.fill("#find", "rop")
        assert names(tab) == ["rope"] and tab.inner_text("#count") == "1 of 5 encodings"
        tab.fill("#find", "")
        tab.check("#learned")
        assert "shaw" not in names(tab)
        tab.fill("#step", "1.2")
        assert {"nope"} <= set(names(tab)) < {"alibi", "rope", "nope", "abacus"}
        tab.fill("#step", "")
        tab.uncheck("#learned")
        for box in tab.query_selector_all(f"{SHOWN} td.pick input:checked"):
            box.click()
        for name in ("rope", "nope"):
            tab.check(f"{SHOWN} tr[data-name={name}] input")
        tab.check("#only")
        assert sorted(names(tab)) == ["nope", "rope"]
        assert "pick=rope%7Cnope" in tab.url
        tab.select_option("#task", "sorting")
        tab.click("text=Numbers")
        heads = tab.eval_on_selector_all("#numbers tr th:first-child", "cells => cells.map(c => c.textContent)")
        assert heads == ["encoding", "rope", "nope"]
        assert tab.inner_text("#numbers tr:nth-child(2) td:last-child") == "0.06"

    def test_at_most_five_lines_have_a_colour(self, opened):
        tab = opened()
        for box in tab.query_selector_all(f"{SHOWN} td.pick input:not(:checked)"):
            box.click()
        drawn = "Chart.getChart('curves').data.datasets"
        assert tab.evaluate(f"{drawn}.filter(d => d.borderWidth > 2).length") == 5
        tab.select_option("#suite", "other")
        assert tab.evaluate(f"{drawn}.filter(d => d.borderWidth > 2).map(d => d.label)") == ["nope"], "t5 is not picked"

    def test_weights_window_and_recipe_change_scores_ranks_and_the_address(self, opened):
        tab, found = opened(), made()

        def score(name):
            return float(tab.inner_text(f"{SHOWN} tr[data-name={name}] td[data-key=score]"))

        before = [score(name) for name in found.rows["encoding"]]
        tab.check("#checked")  # fits all: the same scores, computed here
        assert [score(name) for name in found.rows["encoding"]] == pytest.approx(before, abs=2e-3)
        tab.uncheck("#checked")
        tab.locator("#weights input[name=parity]").fill("3")
        by_task = found.rows.set_index("encoding")
        for name in ("nope", "rope", "shaw"):
            own = by_task.loc[name]
            assert score(name) == pytest.approx((3 * own["score.parity"] + own["score.sorting"]) / 4, abs=2e-3)
        assert "weights=3%7C1" in tab.url and "By your choice: alibi 1.00 (P(first) 1.00)" in tab.inner_text("#answer")
        tab.goto(tab.url)
        tab.reload()
        assert score("rope") < before[list(found.rows["encoding"]).index("rope")]
        tab.locator("#weights input[name=parity]").fill("0")
        assert score("rope") == pytest.approx(0.5849625 * 0.75 + 0.4150375 * 0.0625, abs=2e-3)
        tab.click("#reset")
        assert [score(name) for name in found.rows["encoding"]] == before and "As ranked" in tab.inner_text("#answer")

    def test_rank_and_p_first_are_of_resampled_blocks_and_of_the_rows_that_fit(self, opened):
        tab = opened()
        values = np.random.default_rng(0).normal(0.5, 0.03, (4, 6)).round(3)
        rows = json.dumps(values.tolist())
        live = tab.evaluate(f"resampled({rows})")
        draws = np.random.default_rng(1).integers(6, size=(20_000, 6))
        first = np.bincount(values[:, draws].mean(2).argmax(0), minlength=4) / len(draws)
        assert [one["first"] for one in live] == pytest.approx(first, abs=0.04)
        assert all(1 <= one["low"] <= one["high"] <= 4 for one in live)
        expected = np.quantile(values[:, draws].mean(2), [0.025, 0.975], axis=1).T
        assert [[one["from"], one["to"]] for one in live] == pytest.approx(expected, abs=0.005)
        shifted = tab.evaluate(f"centred({rows}.map((row, r) => row.map((v, b) => r && b > 3 - r % 2 ? null : v + b)))")
        for row in range(1, 4):
            values[row, 4 - row % 2 :] = np.nan  # the last two blocks have a single row
        assert np.array(shifted, float) == pytest.approx(ranks.centred(values + np.arange(6)), abs=1e-6, nan_ok=True)
        tab.fill("#step", "1.2")
        rows = made().rows
        assert set(names(tab)) == set(rows["encoding"][rows["step_time"] <= 1.2])
        assert all(f" {name} " not in tab.inner_text("#answer") for name in rows["encoding"][rows["step_time"] > 1.2])

    def test_the_chart_is_saved_as_png_svg_and_csv(self, opened):
        tab, kinds = opened(), {"png": b"\x89PNG", "svg": b"<svg", "chart-csv": b'"encoding","0.5"'}
        for button, start in kinds.items():
            with tab.expect_download() as download:
                tab.click(f"#{button}")
            content = download.value.path().read_bytes()
            assert content.startswith(start) and len(content) > 100, button
            if button == "svg":
                root = ET.fromstring(content)
                strokes = [path.get("stroke") for path in root.iter("{http://www.w3.org/2000/svg}path")]
                assert strokes.count(colour("alibi")) >= 1 and "alibi" in content.decode()

    def test_the_line_of_the_cost_chart_joins_what_nothing_beats(self, opened):
        tab, rows = opened(), made().rows
        rows = rows[rows["ranking"] == "standard"]
        best = [r for r in rows.itertuples() if not ((rows["step_time"] <= r.step_time) & (rows["score"] > r.score)).any()]
        front = tab.evaluate("Chart.getChart('cost').data.datasets[1].data.slice(0, -1).map(p => p.name)")
        assert front == [r.encoding for r in sorted(best, key=lambda r: r.step_time)]
        texts = tab.evaluate("Chart.getChart('text').data.datasets[0].data.map(p => [p.name, p.y])")
        assert dict(texts) == rows.set_index("encoding")["text"].dropna().to_dict()

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
    def test_axe_finds_nothing(self, opened, width, scheme):
        from axe_playwright_python.sync_playwright import Axe

        tab = opened(width=width, color_scheme=scheme, bypass_csp=True)
        found = Axe().run(tab)
        assert found.violations_count == 0, found.generate_report()

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
        assert set(names(tab)) == {"nope", "t5"} and "rope" not in tab.inner_text("#card")

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
        assert tab.is_visible("tr[data-name=alibi]") and not tab.is_visible("#controls") and not tab.is_visible("#curves")

    def test_a_broken_address_does_no_harm(self, opened):
        tab = opened(
            view="#suite=gone&sort=nothing&pick=%3Cb%3E%7Crope&theme=odd&find=%5B(&weights=x|-1|9|9|9&recipe=no&task=no&to=0"
        )
        assert names(tab) == []
        tab.fill("#find", "")
        assert len(names(tab)) == 5
