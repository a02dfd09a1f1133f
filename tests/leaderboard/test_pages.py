"""The markdown pages: they show the numbers of the frame of rows, are short, link to what exists, and survive any name."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from synthetic_results import CURVE, a_card, board, full, record, result, suite

from leaderboard.render.pages import FINDINGS, INSIDE, README, text_files, verdict_text
from leaderboard.render.published import Published
from leaderboard.render.verdict import needs, verdict
from leaderboard.results.file_names import page_name

PUBLISHED = Path(__file__).parents[2] / "leaderboard/published"
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
GOOD, BAD, WORST = (1, 1, 1, 1), (1, 1, 0.5, 0.25), (1, 1, 0, 0)
BANNED = (
    "guessing taken out", "separated", "tier", "reach", "past L", "has not learned", "second-hand, written", "not decided",
    "in order only", "By design past L",
)  # fmt: skip
"""Words that readers stumbled over; the pages have better ones."""


@dataclass
class Made:
    """A published board of made-up runs."""

    runs: list
    cards: dict

    @property
    def boards(self):
        found = {}
        for name in dict.fromkeys(run.suite for run in self.runs):
            found[name] = board([run for run in self.runs if run.suite == name])
        return found

    findings = ()
    folder = Path("nowhere")


def spread(of, curves, by=0.02):
    """Runs of each encoding whose curves differ a little between seeds, in the same way for all."""
    runs = []
    for encoding, curve in curves.items():
        for task in of.tasks:
            for seed in of.seeds:
                exact = [min(1, max(0, value - by * (seed - 1) * (n > 1))) for n, value in enumerate(curve)]
                runs.append(result(of, task.task, encoding, seed, exact))
    return runs


def pages_of(runs, cards=None):
    return text_files(Made(runs, cards or {}))


def words(text):
    return re.findall(r"[\w'≥–.%()]+", re.sub(r"\]\([^)]*\)", "]", text))


def table_rows(text):
    """Cells of the first table as plain text, a dictionary a row."""
    lines = text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(header, row, strict=False)) for row in rows]


def test_a_suite_page_shows_scores_and_ranks():
    of = suite()
    text = pages_of(spread(of, {"nope": BAD, "rope": WORST, "alibi": GOOD}))["suites/tiny.md"]
    rows = table_rows(text)
    assert [re.sub(r"\[`(.*)`\].*", r"\1", row["encoding"]) for row in rows] == ["alibi", "nope", "rope"]
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    # Sorting, chance 1/L! ≈ 0: lengths 9 and 12 of L = 6 weigh log 1.5 : log 4/3.
    share = 0.5849625
    assert float(rows[1]["sorting"]) == pytest.approx(share * 0.5 + (1 - share) * 0.25, abs=0.006)
    assert "Uses what tokens mean" not in text and "Trained at lengths up to L" in text


def test_other_classes_and_incomplete_rows_stand_apart():
    of = suite()
    runs = full(of, {"nope": CURVE, "rope": GOOD})
    runs += [
        result(of, task, record("abacus", ranking="task-aware"), seed, GOOD)
        for task in ("parity", "sorting")
        for seed in of.seeds
    ]
    runs += [result(of, "sorting", "t5", 0, GOOD)]
    files = pages_of(runs)
    text = files["suites/tiny.md"]
    first, second = text.split("## Uses what tokens mean")
    assert "abacus" not in first and "[`abacus`](../pages/abacus.md)" in second
    assert "Encodings that lack a task: `t5`." in text
    assert "No run of parity." in files["pages/t5.md"]


def test_every_encoding_has_a_page_with_its_card():
    of = suite()
    files = pages_of(full(of, {"nope": CURVE, "my|pe": GOOD}), {"my|pe": a_card()})
    assert {"pages/nope.md", f"pages/{page_name('my|pe')}.md", "suites/tiny-parity.md"} <= set(files)
    text = files[f"pages/{page_name('my|pe')}.md"]
    assert "`s = q·k \\| <b>`" in text and "A, B" in text and "All about my" in text
    assert "half right up to" in text.lower() and ".svg" in text


def test_a_page_of_a_task_has_an_example_and_its_rows_by_score():
    text = pages_of(full(suite(), {"nope": CURVE, "rope": GOOD}))["suites/tiny-sorting.md"]
    assert "<bos>" in text and "Trained to L = 6, tested to 12" in text
    rows = table_rows(text)
    assert [row["encoding"][:7] for row in rows] == ["[`rope`", "[`nope`"]
    assert rows[0]["half right to × L"] == "≥2.0" and rows[0]["within L"] == "1.00"


VERDICTS = {
    "several": ({"nope": GOOD, "alibi": GOOD, "rope": WORST}, "2 encodings may be first"),
    "one": ({"nope": BAD, "alibi": GOOD, "rope": WORST}, "alibi leads"),
}


@pytest.mark.parametrize("curves", VERDICTS)
def test_verdict_names_the_leaders_and_who_is_behind(curves):
    of, (given, text) = suite(), VERDICTS[curves]
    said = verdict_text(board(spread(of, given)))
    assert said.startswith(text) and "Clearly behind in this suite:" in said and "rope" in said.split("behind")[1]
    assert "one learning rate" in said


def test_verdict_of_a_single_seed_claims_nothing():
    found = board(full(suite(seeds=[0]), {"nope": GOOD, "rope": WORST}))
    assert verdict(found).open == 0 and verdict(found).behind == []
    assert verdict_text(found).startswith("Too few runs to say which encoding leads; by score, nope is first.")


def test_a_suite_that_sweeps_the_rate_is_not_called_one_recipe():
    of = suite()
    runs = [
        one.model_copy(update={"learning_rate": rate})
        for rate in (0.001, 0.002)
        for one in full(of, {"nope": GOOD, "rope": BAD})
    ]
    files = pages_of(runs)
    assert "one learning rate" not in files[README] and "rates.svg" in files["suites/tiny.md"]


def test_needs_name_the_best_and_say_none_where_nobody_works():
    of = suite()
    good = (1, 1, 1, 1)
    runs = [
        result(of, "parity", name, seed, good if name == "alibi" else CURVE) for name in ("nope", "alibi") for seed in of.seeds
    ]
    runs += [result(of, "sorting", name, seed, (1, 1, 0, 0)) for name in ("nope", "alibi") for seed in of.seeds]
    parity, sorting = needs(board(runs))
    assert (parity.need, list(parity.names), parity.note) == ("State (parity)", ["alibi"], "tested to 2 L only; 1 gets there")
    assert sorting.names == [] and re.fullmatch(r"all stop by 1\.\d L", sorting.note)


def test_the_front_page_is_short():
    for text in (
        pages_of(spread(suite(), {"nope": BAD, "rope": WORST, "alibi": GOOD}))[README],
        (PUBLISHED / README).read_text(),
    ):
        before = text.split("\n|")[0].split("\n", 1)[1]
        before = re.sub(r"<img[^>]*>", "", before)
        assert len(words(before)) <= 120
        verdict_paragraph = before.strip().split("\n\n")[0]
        sentences = re.split(r"(?<=[.;])\s+(?=[A-Z0-9*`])", verdict_paragraph.replace("**", ""))
        assert len(sentences) <= 4 and all(len(words(one)) <= 25 for one in sentences)
        assert all(len(re.findall(r"(?<![\w(])\d[\d.]*", re.sub("`[^`]*`", "", one))) <= 3 for one in sentences)


def test_generated_pages_avoid_words_that_readers_stumbled_over():
    text = "\n".join(text for path, text in pages_of(full(suite(), {"nope": CURVE, "rope": GOOD})).items())
    assert [word for word in BANNED if word in text] == []


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda name: (
        name.strip() and not name.startswith(".") and "/" not in name and "\\" not in name and name not in ("nope", "rope")
    )
)


@given(names=st.lists(NAMES, min_size=4, max_size=8, unique_by=str.casefold), title=st.text(max_size=30).filter(str.strip))
@settings(max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # an example takes a second
def test_no_name_or_title_becomes_markup(names, title):
    of = suite(seeds=[0])
    runs = full(of, {"nope": CURVE})
    runs += [result(of, task, record(name, title=title), 0, GOOD) for name in names for task in ("parity", "sorting")]
    for path, text in pages_of(runs).items():
        flat = [child for token in MARKDOWN.parse(text) for child in [token, *(token.children or ())]]
        html = [token.content for token in flat if token.type.startswith("html")]
        assert all(re.fullmatch(r'<img alt="[^"<>]*" src="[\w./~+=,%-]*">', one.strip()) for one in html), (path, html)
        links = [str(token.attrGet("href")) for token in flat if token.type == "link_open"]
        assert all(re.fullmatch(r"(\.\./)*[\w./~+=,%#-]+|https://[!-~]+", link) for link in links), (path, links)
    rows = table_rows(pages_of(runs)["suites/tiny.md"])
    assert len(rows) == len(names) + 1 and all(row["blocks"] == "1" for row in rows)


def test_published_links_and_pictures_exist():
    for page in PUBLISHED.rglob("*.md"):
        text = re.sub(r"`[^`\n]*`", lambda found: found.group().replace("](", "] ("), page.read_text())
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
        for target in targets:
            if not target.startswith("https://"):
                path, _, anchor = target.partition("#")
                assert (page.parent / path).exists(), f"{page}: {target}"
                heading = f"## {anchor.capitalize()}"
                assert not anchor or heading in (page.parent / path).read_text(), f"{page}: {target}"


def test_the_insides_have_five_findings_with_a_picture_each():
    text = (PUBLISHED / INSIDE).read_text()
    assert len(text.split()) <= 900
    assert len(re.findall(r"(?m)^## \d\. ", text)) == len(re.findall(r"<img ", text)) == 5


def test_the_page_of_findings_has_a_verdict_for_each():
    from bench.findings.finding import shipped_findings

    rows = table_rows((PUBLISHED / FINDINGS).read_text())
    assert len(rows) == len(shipped_findings())
    assert all(row["verdict"].startswith("**") for row in rows)


def test_the_published_board_takes_two_screens():
    """Generated markdown is bounded as a whole by ``.ci/bounds``; the front page by itself."""
    assert len((PUBLISHED / README).read_text().split()) <= 320
    assert set(Published(PUBLISHED).boards) == {"small", "standard"}
