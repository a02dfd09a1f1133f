"""The markdown pages: they show the numbers of the frame of rows, are short, link to what exists, and survive any name."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from synthetic_results import CURVE, GOOD, WORST, board, full, in_class, record, result, spread, suite

import tasks
from bench.encodings import catalogue
from bench.plugins.registry import get_encoding
from leaderboard.render.pages import FINDINGS, GALLERY, README, text_files, verdict_text
from leaderboard.render.text import markdown
from leaderboard.render.verdict import leaders, needs, verdict
from leaderboard.results.facts import fact, formulas, source_file
from leaderboard.results.file_names import page_name
from leaderboard.stats import ranks

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "leaderboard/published"
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@dataclass
class Made:
    """A published board of made-up runs."""

    runs: list

    folder = Path("none")
    findings, texts, on_text, sizes, compared, corpora = (), {}, {}, {}, {}, ()

    @property
    def boards(self):
        return {"tiny": board(self.runs)}


@pytest.fixture(autouse=True, scope="module")
def fewer_replicates():
    """Bootstraps take most of the time of a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "REPLICATES", 1000)
        yield


def pages_of(runs):
    return text_files(Made(runs))


def table_rows(text):
    """Cells of the first table as plain text, a dictionary a row."""
    lines = text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(header, row, strict=False)) for row in rows]


@pytest.fixture(scope="module")
def files():
    """Pages of three encodings that differ, one that is task-aware, and one that lacks a task."""
    of = suite()
    runs = spread(of, {"nope": CURVE, "rope": WORST, "my|pe": GOOD})
    runs += [*in_class(of, "abacus", "task-aware", GOOD), result(of, "sorting", "t5", 0, GOOD)]
    return pages_of(runs)


def test_a_suite_page_shows_scores_and_ranks_and_keeps_other_classes_apart(files):
    text = files["suites/tiny.md"]
    rows = table_rows(text)
    assert [(row["rank"], row["encoding"].split("`")[1]) for row in rows] == [("1", r"my\|pe"), ("2", "nope"), ("3", "rope")]
    # Sorting, chance 1/L! ≈ 0: lengths 9 and 12 of L = 6 weigh log 1.5 : log 4/3.
    share = 0.5849625
    assert float(rows[1]["sorting"]) == pytest.approx(share * 0.5 + (1 - share) * 0.25, abs=0.006)
    assert "[`abacus`](../pages/abacus.md)" in text.split("## Uses what tokens mean")[1]
    assert "lack a task or a learning rate: `t5`." in text and "No run of parity." in files["pages/t5.md"]


def test_every_encoding_has_a_page_with_what_it_declares(files):
    text = files[f"pages/{page_name('my|pe')}.md"]
    assert "All about my" in text and ".svg" in text and "score bias" not in text, (
        "code that is not built in declares nothing here"
    )
    assert get_encoding("nope").info.authors in files["pages/nope.md"]
    assert "second line: half right up to × L" in text and "|  |  |  | ≥2.0 | ≥2.0 |" in text


def test_every_built_in_encoding_has_a_formula_a_gloss_and_a_file():
    for name in catalogue():
        assert (ROOT / source_file(name)).is_file() and len(fact(name, "gloss").split()) in range(1, 9)
        parts = re.findall(r"(?<![=\w.])\w+(?![=\w])", name)  # without settings
        assert len(formulas(name)) == len(parts), name
        for one in formulas(name):
            bare = re.sub(r"\\[{}]", "", one)
            assert bare.count("{") == bare.count("}") and len(re.findall(r"\\left\b", one)) == one.count(r"\right"), one


def test_pages_of_published_encodings_show_formulas_and_link_their_code():
    for file in (PUBLISHED / "results/small").glob("*.jsonl"):
        text = (PUBLISHED / f"pages/{page_name(file.stem)}.md").read_text()
        assert re.findall(r"```math\n(.*)\n```", text) == formulas(file.stem)
        assert f"[Our code](../../../{source_file(file.stem)})" in text


def test_a_page_of_a_task_has_an_example_and_its_rows_by_score(files):
    text = files["suites/tiny-sorting.md"]
    assert "<bos>" in text and "Trained to L = 6, tested to 12" in text
    rows = table_rows(text)
    scores = [float(row["score"]) for row in rows]
    assert len(rows) == 4 and scores == sorted(scores, reverse=True)
    assert "`abacus`" in text.split("## Uses what tokens mean")[1]
    assert rows[0]["half right up to × L"] == "≥2.0" and rows[0]["within L"] == "1.00"


VERDICTS = {
    "several": ({"nope": GOOD, "alibi": GOOD, "rope": WORST}, "2 encodings may be first"),
    "one": ({"nope": CURVE, "alibi": GOOD, "rope": WORST}, "alibi leads"),
}


@pytest.mark.parametrize("curves", VERDICTS)
def test_verdict_names_the_leaders_and_who_is_behind(curves):
    given, text = VERDICTS[curves]
    runs = spread(suite(name="small"), given)
    assert (said := verdict_text(board(runs))).startswith(text) and "rope" in said.split("Clearly behind")[1]
    swept = [run.model_copy(update={"learning_rate": rate}) for run in runs for rate in (0.1, 0.2)]
    assert "one learning rate" in said and "2 of the suite's 4 learning rates" in verdict_text(board(swept))


def test_verdict_says_who_does_best_on_text_and_that_the_leader_does_not():
    made = board(spread(suite(), {"nope": CURVE, "alibi": GOOD, "rope": WORST}))
    made.rows["text"] = made.rows["encoding"].map({"alibi": 3.0, "nope": 2.02, "rope": 2.0})
    assert "On real text, alibi does worse than most; rope and nope do best." in verdict_text(made)


def test_verdict_of_a_single_seed_claims_nothing():
    found = board(full(suite(seeds=[0]), {"nope": GOOD, "rope": WORST}))
    assert verdict(found).open == 0 and verdict(found).behind == [] and len(leaders(found)) == 2
    assert verdict_text(found).startswith("Too few runs to say which encoding leads; by score, nope is first.")


def test_a_row_of_one_seed_does_not_lead_and_one_encoding_leads_nobody():
    single = full(suite(seeds=[0]), {"alibi": GOOD})
    assert "nope leads" in verdict_text(board([*spread(suite(), {"nope": CURVE, "rope": WORST}), *single]))
    for few in ({"rope": CURVE}, {"rope": CURVE, "nope": WORST}):
        others = {name: curve for name, curve in few.items() if name != "rope"}
        made = board([*spread(suite(), {"rope": few["rope"]}), *full(suite(seeds=[0]), others)])
        assert verdict_text(made).startswith("Too few runs to say which encoding leads;")


def test_a_suite_that_sweeps_the_rate_is_not_called_one_recipe():
    of = suite()
    runs = [run for rate in (0.001, 0.002) for run in full(of, {"nope": GOOD, "rope": CURVE}, learning_rate=rate)]
    files, part = pages_of(runs), pages_of([one for one in runs if one.learning_rate == 0.001])  # the others have not run yet
    assert "one learning rate" not in files[README] and "| by rate |" in files["suites/tiny.md"]
    assert "one learning rate" in part[README] and "by rate" not in part["suites/tiny.md"].partition("## Columns")[0]


def test_the_front_page_says_what_to_start_with_and_none_where_nobody_works():
    of = suite()
    runs = [run for run in full(of, {"nope": CURVE, "alibi": GOOD}) if run.task == "parity"]
    runs += [result(of, "sorting", name, seed, WORST) for name in ("nope", "alibi") for seed in of.seeds]
    parity, sorting = needs(board(runs))
    assert (parity.need, parity.names) == ("State (parity)", ["alibi"])
    assert parity.note == "tested to 2 L only; 1 encoding still half right there"
    assert sorting.names == [] and sorting.note == "none is half right beyond 1.2 L"
    rows = table_rows(pages_of(runs)[README])
    assert rows[0]["Start with"] == "[`alibi`](pages/alibi.md)" and rows[1]["Start with"] == "none"
    *_, sorting = needs(board(runs + in_class(of, "abacus", "task-aware", GOOD)))
    assert sorting.names == ["abacus"] and sorting.note == "none is half right beyond 1.2 L, unless told what tokens mean"


BANNED = (
    "guessing taken out", "past L", "separat", "tier", "reach", "has not learned", "second-hand", "by design", "in order only",
    "not decided", "the one of the lowest",
)  # fmt: skip


def front_pages():
    """The published front page, and those of boards with other verdicts."""
    of = suite()
    yield (PUBLISHED / README).read_text()
    for curves, _ in VERDICTS.values():
        yield pages_of(spread(of, curves))[README]
    yield pages_of(full(suite(seeds=[0]), {"nope": GOOD, "rope": WORST}))[README]


def test_the_front_page_is_short_and_plain():
    for page in front_pages():
        text = re.sub(r"<img[^>]*>|\]\([^)]*\)|[*`\[]", "", page.split("\n|")[0])
        assert len(text.split()) <= 120 and not any(word in text.lower() for word in map(str.lower, BANNED))
        for sentence in re.split(r"(?<=[.?])\s+|\n\n", text):
            numbers = re.findall(r"(?<![\w.])\d[\d.,/-]*", sentence)
            assert len(sentence.split()) <= 25 and len(numbers) <= 4 - (not sentence.startswith("Suite")), sentence


def test_readme_begins_like_the_front_page():
    home, front = ((PUBLISHED / path).read_text().replace("leaderboard/published/", "") for path in ("../../README.md", README))
    for part in front.split("\n|")[0].split("\n\n")[1:]:
        assert part.strip() in home
    assert len(home.split()) <= 700


def test_no_name_or_title_becomes_markup():
    of, title = suite(seeds=[0]), "a_b_ *c* <script> | [x](y) `z` $1 &amp; www.x.org http://x\n# head"
    names = ["<img src=x>", "a|b", "`tick`", "*s* _u_", "[l](http://x.org)", "# h", "$m$", "&lt;", "\u202eabc", "é ü"]
    made = [record("nope"), *(record(name, title=title, link="javascript:x") for name in names)]
    files = pages_of([result(of, task.task, one, 0, CURVE) for one in made for task in of.tasks])
    for path, text in ((path, text) for path, text in files.items() if path.endswith(".md")):
        flat = [child for token in MARKDOWN.parse(text) for child in [token, *(token.children or ())]]
        html = [token.content for token in flat if token.type.startswith("html")]
        assert all(re.fullmatch(r'<img alt="[^"<>]*" src="[\w./~+=,%-]*">', one.strip()) for one in html), (path, html)
        links = [str(token.attrGet("href")) for token in flat if token.type == "link_open"]
        assert all(re.fullmatch(r"(\.\./)*[\w./~+=,%#-]+|https://[!-~]+", link) for link in links), (path, links)
    rows = table_rows(files["suites/tiny.md"])
    assert len(rows) == len(names) + 1 and all(row["blocks"] == "1" for row in rows)


def test_published_links_and_pictures_exist():
    for page in PUBLISHED.rglob("*.md"):
        text = re.sub(r"`[^`\n]*`", lambda found: found.group().replace("](", "] ("), page.read_text())
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
        for target in targets:
            if not target.startswith("https://"):
                path, _, anchor = target.partition("#")
                assert (page.parent / path).exists(), f"{page}: {target}"
                heading = f"## {anchor.replace('-', ' ').capitalize()}"
                assert not anchor or heading in (page.parent / path).read_text(), f"{page}: {target}"


def test_the_page_of_findings_has_a_verdict_for_each():
    from bench.findings.finding import shipped_findings

    rows = table_rows((PUBLISHED / FINDINGS).read_text())
    assert len(rows) == len(shipped_findings())
    assert all(row["verdict"].startswith("**") for row in rows)


def test_the_gallery_has_an_example_of_every_task_and_variant():
    text = pages_of(full(suite(), {"nope": CURVE}))[GALLERY]
    for cls in (cls for cls in tasks.catalogue().values() if cls.name != "text"):
        part = text.partition(f"## {cls.title}\n")[2].partition("\n## ")[0]
        for variant in cls.variants:
            shown = rf"\*\*{re.escape(markdown(variant))}\*\*: .+\n\n    <bos> (.+) <sep> (.+) <eos>\n"
            assert (example := re.search(shown, part)), f"{cls.name} {variant}"
            assert cls.name != "copying" or example[1] == example[2]
            assert cls.name != "sorting" or sorted(map(int, example[1].split())) == [*map(int, example[2].split())]
