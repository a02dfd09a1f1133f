"""RoPE and its stretched forms: when the board shows them, which encodings they are, and their numbers in the figure."""

import pytest
from board_helpers import whole_board
from figure_helpers import figure_of, lines, texts
from matplotlib.colors import to_hex
from synthetic_results import full, only_grid, result, store, suite

from bench import encodings
from bench.plugins.registry import get_encoding
from leaderboard.figures import board_figures, stretched
from leaderboard.figures.theme import LIGHT
from leaderboard.render import board
from leaderboard.stats.summary import summarise

CURVES = {
    "nope": (1, 1, 0.5, 0.25),
    "rope": (1, 0.9, 0.1, 0),
    "yarn": (1, 0.9, 0.4, 0.2),
    "ntk": (1, 0.9, 0.3, 0.1),
}
TUNED = {"finetuned(rope)": (1, 1, 0.6, 0.5), "finetuned(yarn)": (1, 1, 0.8, 0.7)}


def one_of_each(of):
    return only_grid(of, full(of, CURVES) + [r for t in of.tasks for r in tuned(of, t.task)])


def tuned(of, task, longest=12):
    return [result(of, task, name, s, exact, longest_seen=longest) for name, exact in TUNED.items() for s in of.seeds]


@pytest.mark.parametrize(
    ("names", "is_shown"),
    [
        (["rope", "yarn"], True),
        (["rope", "finetuned(interpolated(rope))"], True),
        (["nope", "rope", "alibi"], False),
        (["rope", "finetuned(rope)"], False),  # longer lengths, but nothing stretched
        (["yarn", "ntk"], False),  # nothing to compare with
        (["rope", "interpolated(alibi)", "rope_partial", "ssmax(yarn)"], False),
    ],
)
def test_the_figure_exists_only_with_rope_and_a_stretched_form(names, is_shown):
    of = suite(encodings=names)
    found = only_grid(of, full(of, {name: (1, 1, 0.5, 0) for name in names}))
    assert bool(stretched.compared(found)) is is_shown
    assert (stretched.STEM in board_figures.alt_texts(found, summarise(found))) is is_shown
    text = whole_board([found])
    assert (f"## {stretched.TITLE}" in text) is ('src="stretched.svg"' in text) is is_shown


def test_an_expected_encoding_without_runs_does_not_count():
    of = suite(encodings=["rope", "yarn"])
    assert not stretched.compared(only_grid(of, full(of, {"rope": (1, 1, 0, 0)})))
    apart = [result(of, "sorting", "rope"), result(of, "parity", "yarn")]
    assert not stretched.compared(only_grid(of, apart))
    found = only_grid(of, [*apart, result(of, "sorting", "yarn")])
    assert [c.task for c in stretched.compared(found)] == ["sorting"]


def test_the_board_links_the_figure_and_marks_encodings_that_saw_longer_lengths(tmp_path):
    of = suite()
    store(tmp_path, one_of_each(of).all_runs)
    path = board.write_board(of, tmp_path)[1][1]
    assert 'srcset="stretched.dark.svg"><img' in path.read_text()
    assert all(b"<svg" in (path.parent / file).read_bytes() for file in ("stretched.svg", "stretched.dark.svg"))
    assert "**these encodings saw lengths past L**" in path.read_text()


def test_members_of_each_side():
    of = suite()
    extra = {
        name: (1, 1, 0, 0)
        for name in ("alibi", "rope_partial", "interpolated(alibi)", "finetuned(alibi)", "interpolated(rope)")
    }
    found = only_grid(of, [*one_of_each(of).all_runs, *full(of, extra)])
    members = {title: list(side) for title, side in stretched.sides(found).items()}
    assert members == {
        stretched.ZERO_SHOT: ["interpolated(rope)", "ntk", "yarn", "rope", "nope"],
        stretched.FINE_TUNED: ["finetuned(rope)", "finetuned(yarn)", "rope", "nope"],
    }
    assert list(stretched.sides(only_grid(of, full(of, CURVES)))) == [stretched.ZERO_SHOT]
    no_zero_shot = only_grid(of, [*full(of, {"rope": (1, 1, 0, 0)}), *tuned(of, "sorting")])
    assert list(stretched.sides(no_zero_shot)) == [stretched.FINE_TUNED]


def test_a_form_looks_the_same_on_both_sides_and_no_two_of_one_side_look_alike():
    of = suite()
    names = [stretched.BELOW, stretched.REFERENCE, *stretched.FORMS]
    names += [stretched.TUNED.format(name) for name in names[1:]]
    both = stretched.sides(only_grid(of, full(of, {name: (1, 1, 0.5, 0) for name in names})))
    zero_shot, fine_tuned = both[stretched.ZERO_SHOT], both[stretched.FINE_TUNED]
    assert all(zero_shot[form] == fine_tuned[stretched.TUNED.format(form)] for form in stretched.FORMS)
    assert all(len(set(side.values())) == len(side) for side in both.values())


def test_the_names_are_those_of_encodings_and_the_list_has_every_stretched_form():
    for name in (stretched.BELOW, stretched.REFERENCE, *stretched.FORMS):
        assert get_encoding(name).info.name == name
        assert get_encoding(stretched.TUNED.format(name)).info.name == stretched.TUNED.format(name)
    families = ("ntk", "yarn", "interpolated(rope", "finetuned(")
    stretching = {name for name in encodings.catalogue() if name.startswith(families) and "_scaled" not in name}
    assert stretching <= {*stretched.FORMS, *(stretched.TUNED.format(n) for n in (stretched.REFERENCE, *stretched.FORMS))}


def panels_of(found):
    """(task, side) → axes."""
    keys = [(column.task, side) for column in stretched.compared(found) for side in stretched.sides(found)]
    return dict(zip(keys, figure_of(stretched.draw_stretched, found).axes, strict=True))


def test_lines_are_the_results():
    found = one_of_each(suite())
    for (task, side), ax in panels_of(found).items():
        for name, style in stretched.sides(found)[side].items():
            (line,) = lines(ax, name)
            assert line.get_color() == style.colour(LIGHT)
            assert line.get_ydata() == pytest.approx(found.exact(task, name).mean(0))


def test_names_are_next_to_each_panel_with_the_score():
    drawn = texts(figure_of(stretched.draw_stretched, one_of_each(suite())))
    for title in (stretched.ZERO_SHOT, stretched.FINE_TUNED):
        assert drawn.count(title) == 1
    assert drawn.count("rope") == drawn.count("nope") == 4 and drawn.count("yarn") == drawn.count("finetuned(yarn)") == 2
    # On sorting; on parity, corrected for chance, only the fine-tuned ones score.
    assert [drawn.count(score) for score in (".396", ".058", ".317", ".217", ".558", ".758")] == [2, 2, 1, 1, 1, 1]
    assert [drawn.count(score) for score in (".000", ".117", ".517")] == [6, 1, 1]
    assert "fine-tuned: dashed" in " ".join(drawn)


@pytest.mark.parametrize(("longest", "blue"), [(12, True), (9, True), (6, False)])
def test_longer_lengths_are_shaded_on_the_side_that_saw_them(longest, blue):
    of = suite(tasks=[{"task": "sorting", "variant": "unique", "train_length": 6}])
    found = only_grid(of, full(of, CURVES) + tuned(of, "sorting", longest))
    for (_, side), ax in panels_of(found).items():
        shades = [patch for patch in ax.patches if to_hex(patch.get_facecolor()).upper() == LIGHT.tuned_shade]
        assert len(shades) == (blue and side == stretched.FINE_TUNED)
    assert ("in blue" in " ".join(texts(figure_of(stretched.draw_stretched, found)))) is blue
    assert stretched.longest_seen(found, found.columns[0], ["finetuned(rope)", "rope"]) == longest
    assert stretched.longest_seen(found, found.columns[0], ["rope", "nobody"]) == 6
