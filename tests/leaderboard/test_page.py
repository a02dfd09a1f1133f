"""The HTML page as a file: complete, self-contained, reproducible, and safe against text from results."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from urllib.parse import unquote, urlencode

import numpy as np
from board_helpers import page_runs
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT
from synthetic_results import CURVE, failure, full, record, result, suite

from bench.suites.suite import load_suite
from leaderboard.data.grid import build_grids
from leaderboard.format import share
from leaderboard.render import html_data, html_page
from leaderboard.stats.rows import all_rows
from leaderboard.stats.summary import summarise, summarise_encoding

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '" onmouseover="window.hacked=1',
    "<!--<script>",
    "{{data}}",
    "my|pe `x` **b** [a](javascript:x)",
    "a\x00\n\u202e\ud800b",
    "__proto__",
]


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, and the texts of those whose content is not parsed."""

    def __init__(self, text):
        super().__init__()
        self.found, self.raw, self.cells, self.open = [], {"script": [], "style": []}, [], None
        self.feed(text)
        self.close()
        self.cells = [cell.strip("\n") for cell in self.cells]

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag in ("td", "th"):
            self.cells.append("")
        self.open = tag

    def handle_data(self, data):
        if self.open in self.raw:
            self.raw[self.open][-1] += data
        elif self.cells:
            self.cells[-1] += data

    def handle_endtag(self, tag):
        self.open = None

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def data(self):
        return json.loads(self.raw["script"][0])


def grids(of, runs, failures=None):
    return {of.name: build_grids(of, runs, failures or {})}


def test_the_data_are_the_results():
    of, runs = page_runs()
    (board,) = Page(html_page.render_html_page(grids(of, runs))).data["boards"]
    assert [task["lengths"] for task in board["tasks"]] == [of.test_lengths(t.task) for t in of.tasks]
    found = {e["name"]: e for e in board["encodings"]}
    assert set(found) == {"nope", "rope", "alibi", "abacus"}
    for name in found:
        for spec, cell in zip(of.tasks, found[name]["cells"], strict=True):
            mine = [r for r in runs if (r.encoding.name, r.task) == (name, spec.task)]
            if not mine:
                assert cell is None
                continue
            exact = [[s.exact for s in r.scores] for r in mine]
            assert cell["exact"] == exact and cell["mean"] == [share(x) for x in np.mean(exact, axis=0)]
            assert cell["command"] == f"lprime run tiny.yaml --encoding {name} --task {spec.task} --seed 0 --out again"


def test_the_table_is_readable_without_script():
    of, runs = page_runs()
    text = html_page.render_html_page(grids(of, runs, {("parity", "abacus", 0): failure("out of <memory>")}))
    cells = Page(text).cells
    assert cells[:6] == ["tier", "encoding", "family", "score", "reach", "parity"]
    at = cells.index("rope")
    # .75 and .0625 past L, of weights .585 and .415. Parity, corrected for chance ½: .5 and −.875 have a mean under 0, so 0.
    assert cells[at + 4 : at + 6] == [".000\u00a0±\u00a0.000", ".465\u00a0±\u00a0.000"]
    assert cells[cells.index("abacus") + 4] == "failed", "on parity"
    assert "out of &lt;memory&gt;" in text


def test_seeds_missing_everywhere_are_stated_once():
    of = suite()
    runs = [run for run in full(of, {"nope": CURVE, "rope": CURVE}) if run.seed == 0 or run.encoding.name == "rope"]
    cells = Page(html_page.render_html_page(grids(of, [run for run in runs if run.seed < 2 or run.task == "parity"]))).cells
    heads = cells[: cells.index("length settings") + 1]
    nope, rope = (dict(zip(heads, cells[cells.index(name) - 1 :], strict=False)) for name in ("nope", "rope"))
    assert nope["sorting"] == ".396" and nope["seeds"] == "1 of 3"
    assert rope["sorting"] == ".396 (2 of 3 seeds)" and rope["parity"] == ".000\u00a0±\u00a0.000"


def test_the_same_results_give_the_same_bytes_in_any_order():
    of, runs = page_runs()
    once = html_page.render_html_page(grids(of, runs))
    assert once == html_page.render_html_page(grids(of, runs[::-1]))
    code = (
        "import hashlib, sys; sys.path[:0] = ['tests', 'tests/leaderboard']; from board_helpers import only_grid, page_runs\n"
        "from leaderboard.render import html_page; text = html_page.render_html_page({'tiny': [only_grid(*page_runs())]});"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True)
    assert again.stdout.strip() == hashlib.sha256(once.encode()).hexdigest(), again.stderr


def test_nothing_is_fetched_and_only_its_own_scripts_run():
    of, runs = page_runs()
    text = html_page.render_html_page(grids(of, runs))
    found = Page(text)
    for tag, attributes in found.found:
        for name in ("src", "srcset", "href", "action", "data", "poster", "background"):
            target = attributes.get(name)
            known = tag == "a" and str(target).startswith(("https://example.org/", "pages/"))
            assert target is None or known or target == "data:,", (tag, target)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    assert "sourceMappingURL" not in text and "@import" not in text and "url(" not in "".join(found.raw["style"])
    (policy,) = [m["content"] for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and "connect-src" not in rules
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in found.raw["script"][1:]}
    assert set(rules["script-src"].split()) == hashes and len(hashes) == 2


def test_hostile_names_stay_text():
    of = suite()
    plain = Page(html_page.render_html_page(grids(of, full(of, {f"name{i}": CURVE for i in range(len(HOSTILE))}))))
    runs = []
    for name in HOSTILE:
        hostile = record(name, family=name, title=name, link=f"javascript:{name}", settings={name: name}, ranking=name)
        runs += full(of, {"x": CURVE})
        runs[-6:] = [r.model_copy(update={"encoding": hostile}) for r in runs[-6:]]
    text = html_page.render_html_page(grids(of, runs, {("sorting", HOSTILE[0], 9): failure(HOSTILE[0])}))
    text.encode()  # no lone surrogate is left
    found = Page(text)
    assert {tag for tag, _ in found.found} <= {tag for tag, _ in plain.found} | {"ul", "li", "wbr"}
    assert len(found.raw["script"]) == 3 and all(re.fullmatch(r"pages/[\w+~.=,-]+\.html", a["href"]) for a in found.all("a"))
    assert {e["name"] for e in found.data["boards"][0]["encodings"]} >= {*HOSTILE[:6], "__proto__", "a� ��b"}
    assert "\x00" not in text and "\u202e" not in text


@given(
    st.recursive(
        st.text() | st.floats(allow_nan=False) | st.none(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=10,
    )
)
def test_embedded_json_is_complete_and_ends_no_element(value):
    text = html_page.embedded_json(value)
    assert json.loads(text) == value and "<" not in text
    assert text.encode()


def test_inserted_text_is_not_searched_for_placeholders():
    assert html_page.fill_template("{{a}} {{b}}", {"a": "{{b}}", "b": r"\1"}) == r"{{b}} \1"


def test_each_version_of_each_suite_has_a_section():
    one, other = suite(), suite(name="other")
    old = [r.model_copy(update={"fingerprint": "0ld", "suite_version": 0}) for r in full(one, {"rope": CURVE})]
    suites = grids(one, full(one, {"nope": CURVE}) + old) | grids(other, full(other, {"alibi": CURVE}))
    found = Page(html_page.render_html_page(suites))
    names = [[e["name"] for e in board["encodings"]] for board in found.data["boards"]]
    assert names == [["nope"], ["rope"], ["alibi"]], "those that nobody ran are not there"
    assert len(found.all("table")) == 3


def test_a_suite_without_runs_has_a_section():
    of = suite()
    (board,) = Page(html_page.render_html_page(grids(of, []))).data["boards"]
    assert board["selected"] == [] and all(e["cells"] == [None, None] for e in board["encodings"])


def test_encoding_pages_have_the_text_of_the_published_ones_and_link_to_each_other(tmp_path):
    of = suite()
    names = ["nope", "my|pe", "finetuned(rope)", *HOSTILE]
    runs = [run for name in names for run in full(of, {"x": CURVE}) if run.encoding.name == "x"]
    runs = [r.model_copy(update={"encoding": record(names[i // 6])}) for i, r in enumerate(runs)]
    html_page.write_html_page(grids(of, runs), tmp_path)
    files = sorted(tmp_path.rglob("*.html"))
    assert len(files) == 1 + len(names)
    for path in files:
        found = Page(path.read_text())
        for place in (a["href"] for a in found.all("a") if not a["href"].startswith("https://example.org/")):
            assert (path.parent / unquote(place.partition("#")[0])).is_file(), (path, place)
        assert found.all("img") == [] and "hacked" not in "".join(found.raw["script"][1:])
    page = Page((tmp_path / "pages/my+7cpe.html").read_text())
    assert f"../index.html#{urlencode({'suite': 'tiny', 'select': 'my|pe'})}" in [a["href"] for a in page.all("a")]
    assert {"mean", "seed 0", "seed 2"} < {cell.strip() for cell in page.cells}


def test_a_large_board_is_a_small_file(monkeypatch):
    of = load_suite("small")
    generator = np.random.default_rng(0)
    runs = []
    for i in range(56):
        for task in of.tasks:
            for seed in range(5):
                exact = generator.integers(0, 257, len(of.test_lengths(task.task))) / 256
                runs.append(result(of, task.task, f"encoding_{i}", seed, exact.tolist()))
    (grid,) = build_grids(of, runs, {})[:1]
    rows = [summarise_encoding(grid, f"encoding_{i}") for i in range(56)]
    monkeypatch.setattr(html_page, "summarise", lambda grid: {"standard": rows})  # without the test of 1,540 pairs
    assert len(html_page.render_html_page({"small": [grid]}).encode()) < 1_500_000


def test_every_file_of_the_page_is_shipped():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["leaderboard.render"]
    shipped = {path for pattern in patterns for path in (ROOT / "leaderboard/render").glob(pattern) if path.is_file()}
    files = {path for path in (ROOT / "leaderboard/render/web").rglob("*") if path.is_file()}
    assert files == shipped and {ROOT / "leaderboard/render/web" / name for name in html_page.SCRIPTS} < files


def test_chart_js_has_the_documented_version_and_its_licence():
    folder = ROOT / "leaderboard/render/web" / "vendor"
    noted = re.search(r"`chart\.js` ([\d.]+)", (folder / "README.md").read_text())[1]
    assert f"Chart.js v{noted}" in (folder / "chart.umd.min.js").read_text()[:200]
    assert "Permission is hereby granted" in html_page.chart_library(), "MIT asks for its text in every copy"


def test_pages_of_encodings_that_are_gone_are_removed(tmp_path):
    of = suite(encodings=["nope", "rope"])
    html_page.write_html_page(grids(of, full(of, {"nope": CURVE, "rope": CURVE})), tmp_path)
    (tmp_path / "pages/mine.html").write_text("<h1>somebody's own</h1>")
    html_page.write_html_page(grids(of, full(of, {"nope": CURVE})), tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.html")) == ["index.html", "mine.html", "nope.html"]


def test_pairs_match_the_significance_tests():
    of, runs = page_runs()
    classes = summarise(build_grids(of, runs, {})[0])
    rows = all_rows(classes)
    found = html_data.pair_data(rows)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[i + 1 :]):
            if not (a.complete and b.complete):
                assert found[i][j] is None
                continue
            wins = np.mean([[np.mean((x > b_) + (x == b_) / 2) for x in s] for s, b_ in zip(a.scores, b.scores, strict=True)])
            better, p, verdict = found[i][j]
            assert better == share(wins) and p == ("<.001" if a.ps[b.name] < 0.001 else share(a.ps[b.name]))
            assert (verdict != 0) == (a.ps[b.name] <= 0.05 and a.score != b.score)
