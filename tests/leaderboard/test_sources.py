"""How sure an encoding's source is, its length settings, and what is special about its training, wherever it is ranked."""

import json

import pytest
from board_helpers import in_full, table_below, whole_board
from synthetic_results import CURVE, full, only_grid, record, result, suite

from bench.measure import card as card_of
from bench.result import SOURCE_KINDS, SOURCE_MEANINGS, Result
from leaderboard.data import cards
from leaderboard.format import SECOND_HAND
from leaderboard.render import columns, encoding_pages, front_page, html_data, html_table, publish
from leaderboard.stats import summary


def declared(source, lengths="", stage_share=None):
    return card_of.Card(
        declared=card_of.Declared(
            authors="A",
            formula="f",
            past="p",
            provenance="o",
            hooks=[],
            shift_invariant=True,
            random=False,
            source=source,
            lengths=lengths,
            stage_share=stage_share,
        )
    )


CARDS = {
    "nope": declared("official code"),
    "rope": declared("second-hand", "base 10,000, as published"),
    "t5_scaled": declared("own variant", "k = L/2, scaled"),
}


def rendered(of, runs, known):
    """The published board's texts, by path."""
    grids = cards.with_cards({of.name: [only_grid(of, runs)]}, known)
    return {path: data.decode() for path, data in publish.PublishedBoard(grids, known).text_files().items()}


@pytest.fixture(scope="module")
def texts():
    of = suite(encodings=["nope", "rope", "t5_scaled", "mine"])
    runs = full(of, {"nope": CURVE, "rope": (1, 1, 0.9, 0.8), "t5_scaled": CURVE})
    mine = record("mine", source="paper only", lengths="k|16, *as* published")
    runs += [result(of, task.task, mine, seed) for task in of.tasks for seed in of.seeds]
    return rendered(of, runs, CARDS)


def test_the_full_table_has_columns_of_sources_and_length_settings(texts):
    rows = {row["encoding"]: row for row in in_full(texts["suites/tiny/README.md"])}
    assert {name: (row["source"], row["length settings"]) for name, row in rows.items()} == {
        "nope": ("official code", "–"),
        "rope": ("second-hand", "base 10,000, as published"),
        "t5_scaled": ("own variant", "k = L/2, scaled"),
        "mine": ("paper only", "k&#124;16, &#42;as&#42; published"),  # from its results: a submission has no card
    }


def test_second_hand_rows_are_marked_in_the_first_table_and_the_mark_is_explained_above_it(texts):
    text = texts["README.md"]
    header, *rows = table_below(text, "Made up.\n")
    names = [row[header.index("encoding")] for row in rows]
    assert names[0] == f"[rope] {SECOND_HAND}" and set(names[1:]) == {"[nope]", "[t5_scaled]", "[mine]"}
    note = f"{SECOND_HAND} second-hand, {SOURCE_MEANINGS['second-hand']}"
    assert text.count(note) == 1 and text.index(note) < text.index("\n|")


def test_a_table_without_second_hand_rows_has_no_mark():
    of = suite()
    text = rendered(of, full(of, {"nope": CURVE, "rope": CURVE}), {"nope": CARDS["nope"], "rope": CARDS["nope"]})["README.md"]
    assert SECOND_HAND not in text


def test_pages_show_source_and_length_settings(texts):
    rope, nope = texts["pages/rope.md"], texts["pages/nope.md"]
    assert f"- **Source**: second-hand, {SOURCE_MEANINGS['second-hand']}\n" in rope
    assert "- **Length settings**: base 10,000, as published\n" in rope
    assert "- **Source**: official code" in nope and "Length settings" not in nope
    assert "- **Source**: paper only" in texts["pages/mine.md"]


def test_results_without_these_fields_stay_readable():
    content = json.loads(result(suite()).model_dump_json())
    for name in ("source", "lengths", "stage_share"):
        del content["encoding"][name]
    del content["trained_as"]
    run = Result.model_validate(content)
    text = whole_board([only_grid(suite(), [run])])
    (row,) = in_full(text)
    assert (row["source"], row["length settings"]) == ("–", "–")
    page = rendered(suite(), [run], {})["pages/nope.md"]
    assert "**Source**" not in page and "Length settings" not in page


def test_a_card_replaces_what_results_say():
    run = result(suite(), encoding=record("rope", source="paper only", lengths="k = 3", stage_share=0.01))
    (new,) = cards.with_declarations([run], {"rope": declared("official code")})
    assert (new.encoding.source, new.encoding.lengths, new.encoding.stage_share) == ("official code", "", None)
    (kept,) = cards.with_declarations([run], {"nope": declared("port")})
    assert kept == run, "without a card"


def staged(name, share, longest):
    of = suite(encodings=["nope", name])
    runs = full(of, {"nope": CURVE})
    made = record(name, stage_share=share)
    runs += [result(of, task.task, made, seed, longest_seen=longest(of, task)) for task in of.tasks for seed in of.seeds]
    return of, runs


def at_l(of, task):
    return task.train_length


def at_longest(of, task):
    return 2 * task.train_length


@pytest.mark.parametrize(("longest", "end", "ranking"), [(at_l, "L", "standard"), (at_longest, "L′", "longer")])
def test_a_further_stage_is_labelled_in_any_ranking_class(longest, end, ranking):
    of, runs = staged("drop", 0.02, longest)
    grid = only_grid(of, runs)
    assert {name: [r.name for r in rows] for name, rows in summary.summarise(grid).items()}[ranking].count("drop") == 1
    text = whole_board([grid])
    note = f"- Extra training stage of 2 % of the steps, at lengths up to {end}: drop\n"
    assert note in text and text.index("## Overall") < text.index(note) < text.index("## Exact match at l ≤ L")
    page = rendered(of, runs, {})["pages/drop.md"]
    assert f"- **Fine-tuning stage**: 2 % of the steps, at lengths up to {end}" in page
    assert ("every sequence is announced with length L′" in page) is (end == "L′")
    assert "Fine-tuning" not in rendered(of, runs, {})["pages/nope.md"]


def test_a_stage_of_results_from_before_the_field_comes_from_the_card():
    of, runs = staged("drop", None, at_l)
    text = rendered(of, runs, {"drop": declared("port", "", 0.01)})
    assert "- Extra training stage of 1 % of the steps, at lengths up to L: drop\n" in text["suites/tiny/README.md"]
    assert "**Fine-tuning stage**: 1 % of the steps, at lengths up to L\n" in text["pages/drop.md"]


def test_shared_trainings_are_noted_below_the_table_and_on_the_page():
    of = suite(encodings=["nope", "rope", "ntk", "yarn"])
    runs = full(of, {"nope": CURVE, "rope": CURVE})
    runs += full(of, {"ntk": CURVE}, trained_as="rope") + full(of, {"yarn": (1, 1, 1, 1)}, trained_as="rope")
    text = rendered(of, runs, {})
    assert "- Training shared with rope, since it is the same: yarn, ntk\n" in text["suites/tiny/README.md"]
    assert "On parity, sorting, the training is that of `rope`" in text["pages/ntk.md"]
    assert "the training is that of" not in text["pages/rope.md"]


def test_the_html_table_sorts_by_how_sure_a_source_is():
    of = suite(encodings=list("abcdef"))
    kinds = {**dict(zip("abcde", SOURCE_KINDS, strict=True)), "f": ""}
    runs = [result(of, t.task, record(n, source=k, lengths="k = 1" * (n == "a")), s) for n, k in kinds.items()
            for t in of.tasks for s in of.seeds]  # fmt: skip
    grid = only_grid(of, runs)
    classes = summary.summarise(grid)
    rows = sorted(classes["standard"], key=lambda row: row.name)
    assert [columns.SOURCE.value(row) for row in rows] == [0, 1, 2, 3, 4, None]
    html = html_table.board_table(grid, classes)
    assert '<td data-value="3" class="left">second-hand</td>' in html and '<td class="left">–</td>' in html
    assert '<td data-value="k = 1" class="left">k = 1</td>' in html
    data = {one["name"]: one for one in html_data.board_data(grid, classes, [])["encodings"]}
    assert (data["a"]["source"], data["a"]["lengths"], data["f"]["source"]) == ("official code", "k = 1", "–")


def test_any_text_as_a_source_stays_text():
    """A result of a plugin may hold any text."""
    hostile = "<u>|[x](javascript:y)"
    of = suite(encodings=["nope"])
    runs = [result(of, t.task, record("nope", source=hostile, lengths=hostile), s) for t in of.tasks for s in of.seeds]
    grid = only_grid(of, runs)
    texts = rendered(of, runs, {})
    assert {front_page.README, encoding_pages.page_path("nope"), "suites/tiny/README.md"} < set(texts)
    assert "<u>" not in html_table.board_table(grid, summary.summarise(grid))
    for path, text in texts.items():
        assert "<u>" not in text and "[x](" not in text
        assert ("&#60;u&#62;&#124;" in text) == (path in ("suites/tiny/README.md", encoding_pages.page_path("nope")))
