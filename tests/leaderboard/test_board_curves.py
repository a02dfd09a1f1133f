"""Panels of accuracy by length: they show the right numbers and name what is highlighted; every encoding is drawn."""

from itertools import pairwise

import numpy as np
import pytest
from figure_helpers import bold_names, crowd, figure_of, line_of, lines, simple, texts
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from synthetic_results import full, only_grid, record, result, suite

from leaderboard.figures import families, highlight, overview, panels, text_layout
from leaderboard.figures.theme import DARK, LIGHT
from leaderboard.stats.summary import summarise


def column_of(grid, task):
    return next(c for c in grid.columns if c.task == task)


def panel_of(grid, task, members, apart=(), **more):
    """The axes of a figure with one panel."""
    panel = panels.Panel("t", column_of(grid, task), panels.styles(members), **more)
    size = {"height": 2.0, "names": 2.0, "others": grid.encodings, "apart": frozenset(apart)}
    return figure_of(lambda theme: panels.draw_panels(grid, [panel], theme, "title", **size)).axes[0]


def test_lines_are_means_over_seeds_and_dots_are_the_seeds():
    of = suite()
    ax = panel_of(
        only_grid(of, [result(of, seed=s, exact=(1, 1, e, 0)) for s, e in enumerate((0.2, 0.3, 0.7))]), "sorting", ["nope"]
    )
    x, y = line_of(ax, "nope")
    assert x == pytest.approx([0.5, 1, 1.5, 2]) and y == pytest.approx([1, 1, 0.4, 0])
    dots = np.array(line_of(ax, "seeds of nope")).reshape(2, -1, 3)
    assert (dots[..., 0] == dots[..., 1]).all() and np.isnan(dots[..., 2]).all()
    assert dots[..., 0].T.tolist() == [[0.5, 1], [1, 1], [1.5, 0.2], [1.5, 0.3], [1.5, 0.7], [2, 0]], "equal dots once"
    (drawn,) = lines(ax, "seeds of nope")
    assert drawn.get_solid_capstyle() == "round"
    assert drawn.get_color() == lines(ax, "nope")[0].get_color() == LIGHT.colours[0]


def test_a_diverged_run_is_zero_and_a_member_without_runs_is_skipped():
    of = suite(seeds=[0])
    ax = panel_of(only_grid(of, [result(of, exact=(0, 0, 0, 0), status="diverged")]), "sorting", ["nope", "rope"])
    assert line_of(ax, "nope")[1] == pytest.approx([0, 0, 0, 0])
    assert not lines(ax, "rope") and "rope" not in texts(ax)


def test_all_encodings_are_grey_below():
    grid = crowd(9)
    ax = panel_of(grid, "sorting", ["nope", "e03"])
    (grey,) = lines(ax, "others")
    assert grey.get_color() == LIGHT.grey and grey.get_zorder() < min(lines(ax, n)[0].get_zorder() for n in ("nope", "e03"))
    x, y = np.array(grey.get_data()).reshape(2, 9, 5)
    assert (x[:, :4] == line_of(ax, "nope")[0]).all() and np.isnan(y[:, 4]).all()
    assert y[:, :4] == pytest.approx(np.array([grid.exact("sorting", name).mean(0) for name in grid.encodings]))


def test_the_length_axis_is_logarithmic_and_half_as_wide_up_to_l():
    ax = panel_of(simple(), "sorting", ["nope"])
    at = [ax.transData.transform((x, 0))[0] for x in (0.5, 1, 1.5, 2)]
    assert at[1] - at[0] == pytest.approx((at[3] - at[1]) / 2)
    assert at[2] - at[1] == pytest.approx((at[3] - at[1]) * np.log2(1.5))
    x = np.array([0.01, 0.5, 1, 3, 100])
    assert panels.unscaled(panels.scaled(x)) == pytest.approx(x)


def shaded(ax, colour):
    """Ends of the areas of this colour."""
    areas = [p for p in ax.patches if isinstance(p, Rectangle) and to_hex(p.get_facecolor()).upper() == colour]
    return [(area.get_x(), area.get_x() + area.get_width()) for area in areas]


@pytest.mark.parametrize(("longest", "end"), [(0, None), (6, None), (9, 1.5), (12, "edge"), (99, "edge")])
def test_lengths_seen_in_training_are_shaded_and_those_of_a_later_stage_in_blue(longest, end):
    ax = panel_of(simple(), "sorting", ["nope"], longest_seen=longest)
    left, right = ax.get_xlim()
    assert shaded(ax, LIGHT.shade) == [pytest.approx((left, 1))]
    assert shaded(ax, LIGHT.tuned_shade) == ([pytest.approx((1, right if end == "edge" else end))] if end else [])
    assert [list(line.get_xdata()) for line in ax.get_lines() if line.get_color() == LIGHT.muted] == [[1, 1]]


@pytest.mark.parametrize(("task", "shown"), [("parity", True), ("sorting", False)])
def test_chance_is_drawn_and_named_where_it_is_visible(task, shown):
    grid = simple()
    ax = panel_of(grid, task, ["nope"])
    assert [list(line.get_ydata()) for line in lines(ax, "chance")] == [[0.5] * 4] * shown
    assert texts(ax).count("chance") == shown
    notes = " ".join(texts(figure_of(families.draw_families, grid, column_of(grid, task), summarise(grid))))
    assert ("Chance is dotted" in notes) is shown and ("Chance is under 0.001" in notes) is not shown


def test_lengths_are_multiples_of_l_and_do_not_overlap():
    sorting = {"task": "sorting", "variant": "unique", "train_length": 6}
    of = suite(test_at=[0.5, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 10], tasks=[sorting])
    (column,) = only_grid(of, full(of, {"nope": (0,) * 10})).columns
    at = panels.scaled(column.at / 6)
    assert panels.tick_labels(column, 150 * at) == ["0.5", "L", "1.17", "1.33", "1.5", "2", "3", "4", "5", "10"]
    narrow = panels.tick_labels(column, 25 * at)
    assert (narrow[0], narrow[1], narrow[-1]) == ("0.5", "L", "10") and "2" in narrow and narrow.count("") >= 2
    ends = [(x - w, x + w) for x, t in zip(25 * at, narrow, strict=True) if t for w in [text_layout.text_width(t, 7) / 2]]
    assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_names_are_to_the_right_with_their_scores_and_the_best_is_bold():
    ax = panel_of(simple(), "sorting", ["nope", "rope"], apart=["rope"], best="nope")
    drawn = {text.get_text(): text for text in ax.texts}
    for name, mean in (("nope", ".396"), ("rope †", ".058")):
        assert drawn[name].get_window_extent().x0 > ax.bbox.x1
        assert drawn[name].get_position()[1] == drawn[mean].get_position()[1]
        assert drawn[name].get_fontweight() == drawn[mean].get_fontweight() == ("bold" if name == "nope" else "normal")
        middle = drawn[name].get_window_extent().y0 + drawn[name].get_window_extent().height / 2
        colour = lines(ax, name.split()[0])[0].get_color()
        swatches = [line for line in ax.get_lines() if line.get_transform() == ax.transAxes and len({*line.get_ydata()}) == 1]
        nearest = min(swatches, key=lambda line: abs(ax.transAxes.transform((0, line.get_ydata()[0]))[1] - middle))
        assert nearest.get_color() == colour
    assert drawn["nope"].get_position()[1] > drawn["rope †"].get_position()[1], "as their curves end"


def test_only_the_first_column_has_tick_labels_of_exact_match():
    grid = crowd(14, families=7)
    figure = figure_of(overview.draw_overview, grid, summarise(grid))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Parity (answer), L = 4", "Sorting (unique), L = 6"]
    assert [any(t.get_visible() and t.get_text() == ".5" for t in ax.get_yticklabels()) for ax in figure.axes] == [True, False]


def test_no_two_styles_are_alike():
    assert len(set(panels.styles(range(21)).values())) == 21
    assert [style.colour(DARK) for style in panels.styles("abcdefg").values()] == list(DARK.colours)


def test_families_take_the_order_of_the_tables_and_large_ones_are_split():
    of = suite(encodings=[f"e{i}" for i in range(15)])
    family = {**{f"e{i}": "rotary" for i in range(13)}, "e13": "none", "e14": "of its own"}
    runs = []
    for name, title in family.items():
        exact = 1, 1, (14 - int(name[1:])) / 20, 0
        runs += [result(of, t, record(name, family=title), s, exact) for t in ("parity", "sorting") for s in of.seeds]
    split = families.families(summarise(only_grid(of, runs)))
    assert list(split) == ["none", "rotary, 1 of 3", "rotary, 2 of 3", "rotary, 3 of 3", "of its own"]
    assert [len(names) for names in split.values()] == [1, 4, 4, 5, 1]
    assert [name for names in split.values() for name in names] == ["e13", *(f"e{i}" for i in range(13)), "e14"]
    assert max(map(len, families.families(summarise(crowd(56))).values())) <= families.MOST


def test_the_best_encodings_of_a_task_are_named_in_the_subtitle_and_those_ranked_apart_separately():
    of = suite()
    runs = full(of, {"a": (1, 1, 0.2, 0.2), "b": (1, 1, 0.6, 0.6), "c": (1, 1, 0.4, 0.4), "d": (1, 1, 0.1, 0.1)})
    tuned = [result(of, t.task, "z", s, (1, 1, 0.9, 0.9), longest_seen=12) for t in of.tasks for s in of.seeds]
    grid = only_grid(of, runs + tuned)
    column, classes = column_of(grid, "sorting"), summarise(grid)
    line = families.best_line(column, classes)
    assert line == "Highest scores past L: b .600 ± .000, c .400 ± .000, a .200 ± .000; ranked apart†: z .900 ± .000"
    figure = figure_of(families.draw_families, grid, column, classes)
    assert bold_names(figure) == [".600", "b"]
    assert "z †" in texts(figure) and line in texts(figure)


def test_an_encoding_without_a_run_of_the_task_is_not_in_its_figure():
    of = suite(encodings=["nope", "rope", "alibi"])
    grid = only_grid(of, [*full(of, {"nope": (1, 1, 0, 0)}), result(of, "parity", "rope")])
    drawn = {c.task: texts(figure_of(families.draw_families, grid, c, summarise(grid))) for c in grid.columns}
    assert "rope" in drawn["parity"] and "rope" not in drawn["sorting"] and "alibi" not in drawn["parity"]


def test_few_encodings_are_all_highlighted_and_of_many_the_best_and_the_references():
    few = crowd(highlight.ALL)
    assert set(highlight.highlighted(summarise(few))) == set(few.encodings)
    of = suite(encodings=[f"e{i:02}" for i in range(9)])
    marks = {f"e{i:02}": (1, 1, 0.9 - i / 20, 0) for i in range(9)} | {"rope": (1, 1, 0, 0), "alibi": (1, 1, 0.01, 0)}
    tuned = [result(of, t.task, "z", s, (1, 1, 1, 1), longest_seen=12) for t in of.tasks for s in of.seeds]
    grid = only_grid(of, full(of, marks) + tuned)
    classes = summarise(grid)
    assert list(highlight.highlighted(classes)) == ["e00", "e01", "e02", "e03", "e04", "alibi", "rope"]
    figure = figure_of(overview.draw_overview, grid, classes)
    named = texts(figure)
    assert {"e00", "alibi", "rope"} <= set(named) and not {"e05", "z"} & set(named)
    assert any("Named: the first 5 of the ranking and the references; grey: the 5 others." in text for text in named)
    assert highlight.ranked_apart(classes) == {"z"}
    assert bold_names(figure) == [".053", "e00", ".526", "e00"]  # .9 and 0: ln 1.5/ln 2 of .9, or of .8 less the rest


def test_encodings_ranked_apart_are_not_among_the_best_even_if_there_is_room():
    of = suite()
    tuned = {f"z{i}": (1, 1, 0.9, 0.9) for i in range(8)}
    runs = [result(of, t.task, n, s, e, longest_seen=12) for n, e in tuned.items() for t in of.tasks for s in of.seeds]
    grid = only_grid(of, full(of, {"a": (1, 1, 0, 0), "rope": (1, 1, 0.5, 0.5)}) + runs)
    assert list(highlight.highlighted(summarise(grid))) == ["rope", "a"]


def test_families_whose_titles_are_shortened_to_the_same_text_keep_their_panels():
    of = suite(encodings=list("abcdef"))
    names = dict(zip("abcdef", ["none", "no encoding", "bias", "attention bias", "x" * 40 + "1", "x" * 40 + "2"], strict=True))
    runs = [result(of, t.task, record(n, family=title), s) for n, title in names.items() for t in of.tasks for s in of.seeds]
    split = families.families(summarise(only_grid(of, runs)))
    assert sorted(name for members in split.values() for name in members) == list("abcdef")
    assert len(split) == 6
