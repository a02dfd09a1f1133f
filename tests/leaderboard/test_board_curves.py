"""Accuracy by length: that panels show the numbers they should, name what stands out, and leave nobody out."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from picture_parts import classes_of, crowd, lines, only, page_of, simple, texts
from synthetic_results import full, record, result, suite

from leaderboard import beside, curves, families, overview, plot, spotlight
from leaderboard.theme import DARK, LIGHT


def column_of(found, task):
    return next(c for c in found.columns if c.task == task)


def panel_of(found, task, members, left=True, **more):
    """The page with one panel on it, and the panel's place."""
    box = beside.Box(1.0, 0.5, 3.0, 2.0)

    def draw(theme):
        page = plot.Page(4, theme)
        panel = curves.Panel("t", column_of(found, task), curves.styles(members), found.encodings, **more)
        curves.draw_panels(page, found, [(panel, box)], 2.0)
        return page

    return page_of(draw), box


def exact_at(line, box):
    """Back from inches to exact match."""
    return beside.HIGH - (np.asarray(line.get_ydata()) - box.top) / box.height * (beside.HIGH - beside.LOW)


def test_lines_are_means_over_seeds_and_dots_are_the_seeds():
    of = suite()
    found = only(of, [result(of, seed=s, exact=(1, 1, e, 0)) for s, e in enumerate((0.2, 0.3, 0.7))])
    page, box = panel_of(found, "sorting", ["nope", "rope"])
    (line,) = lines(page, "nope")
    assert exact_at(line, box) == pytest.approx([1, 1, 0.4, 0])
    assert not lines(page, "rope")
    (dots,) = lines(page, "seeds")
    pairs = np.stack([np.asarray(dots.get_xdata()), exact_at(dots, box)], 1).reshape(-1, 3, 2)
    x = line.get_xdata()
    expected = [(x[0], 1), (x[1], 1), (x[2], 0.7), (x[2], 0.3), (x[2], 0.2), (x[3], 0)]
    assert np.nanmean(pairs[:, :2], 1) == pytest.approx(np.array(expected))
    assert dots.get_solid_capstyle() == "round" and np.ptp(pairs[:, :2, 0], axis=1).max() < 0.01
    assert dots.get_color() == line.get_color() == LIGHT.colours[0]


def test_a_diverged_run_lies_at_zero():
    of = suite(seeds=[0])
    page, box = panel_of(only(of, [result(of, status="diverged")]), "sorting", ["nope"])
    assert exact_at(lines(page, "nope")[0], box) == pytest.approx([0, 0, 0, 0])


def test_all_encodings_are_grey_below():
    found = crowd(9)
    page, box = panel_of(found, "sorting", ["nope", "e03"])
    (grey,) = (artist for artist in page.figure.get_children() if type(artist).__name__ == "PathCollection")
    (path,) = grey.get_paths()
    drawn = path.vertices.reshape(9, 4, 2) / 72
    assert to_hex(grey.get_edgecolor()[0]).upper() == LIGHT.grey and grey.get_offsets().tolist() == [[1.0, 2.5]]
    for name, one in zip(found.encodings, drawn, strict=True):
        up = beside.LOW + one[:, 1] / box.height * (beside.HIGH - beside.LOW)
        assert up == pytest.approx(found.exact("sorting", name).mean(0))
    assert 1 + drawn[1, :, 0] == pytest.approx(lines(page, "nope")[0].get_xdata())


def test_lengths_stand_on_a_logarithmic_axis_that_is_half_as_wide_up_to_l():
    box = beside.Box(2.0, 0.0, 3.0, 1.0)
    x = curves.scaled(column_of(simple(), "sorting"), box)  # 3, 6, 9, 12 of L = 6
    assert x[0] == 2 + beside.START and x[-1] == pytest.approx(5 - beside.END)
    octave = x[3] - x[1]
    assert x[1] - x[0] == pytest.approx(octave / 2) and x[2] - x[1] == pytest.approx(octave * np.log2(1.5))


def patches(page, colour):
    return [p for p in page.figure.get_children() if hasattr(p, "get_xy") and to_hex(p.get_facecolor()).upper() == colour]


def span(patch):
    return patch.get_xy()[:, 0].min(), patch.get_xy()[:, 0].max()


def test_the_trained_side_is_shaded_up_to_a_line_at_l():
    page, box = panel_of(simple(), "sorting", ["nope"])
    at_train = lines(page, "nope")[0].get_xdata()[1]
    (shade,) = patches(page, LIGHT.shade)
    assert span(shade) == (1.0, pytest.approx(at_train))
    upright = [a for a in page.figure.get_children() if hasattr(a, "get_xdata") and list(a.get_xdata()) == [at_train] * 2]
    assert upright and upright[0].get_ydata() == [box.top, box.bottom]
    assert not patches(page, LIGHT.tuned_shade)


@pytest.mark.parametrize(("longest", "end"), [(9, 2), (12, None), (99, None)])
def test_lengths_of_a_later_stage_are_shaded_in_blue(longest, end):
    page, box = panel_of(simple(), "sorting", ["nope"], tuned=longest)
    x = lines(page, "nope")[0].get_xdata()
    (shade,) = patches(page, LIGHT.tuned_shade)
    assert span(shade) == (pytest.approx(x[1]), pytest.approx(x[end] if end else box.right))


@pytest.mark.parametrize(("task", "shown"), [("parity", True), ("sorting", False)])
def test_chance_is_drawn_and_named_where_it_is_above_the_axis(task, shown):
    page, box = panel_of(simple(), task, ["nope"])
    drawn = [exact_at(line, box) for line in lines(page, "chance")]
    assert len(drawn) == texts(page).count("chance") == shown
    assert all(line == pytest.approx([0.5] * 4) for line in drawn)
    assert ("dotted" in curves.chance_note(column_of(simple(), task))) is shown


def test_lengths_are_multiples_of_l_and_do_not_collide():
    sorting = {"task": "sorting", "variant": "unique", "train_length": 6}
    of = suite(test_at=[0.5, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 10], tasks=[sorting])
    (column,) = only(of, full(of, {"nope": (0,) * 10})).columns
    wide = curves.tick_labels(column, curves.scaled(column, beside.Box(0, 0, 8, 1)))
    assert wide == ["0.5", "L", "1.17", "1.33", "1.5", "2", "3", "4", "5", "10"]
    x = curves.scaled(column, beside.Box(0, 0, 1.6, 1))
    narrow = curves.tick_labels(column, x)
    assert (narrow[0], narrow[1], narrow[-1]) == ("0.5", "L", "10") and "2" in narrow and narrow.count("") >= 2
    ends = [(a - w, a + w) for a, t in zip(x, narrow, strict=True) if t for w in [plot.text_width(t, plot.SMALL) / 144]]
    assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_names_stand_to_the_right_with_their_mean_past_l_and_the_best_is_bold():
    found = simple()
    page, box = panel_of(found, "sorting", ["nope", "rope"], best="nope", apart=frozenset(["rope"]))
    drawn = {t.get_text(): t for t in page.figure.texts}
    for name, mean in (("nope", ".375"), ("rope †", ".050")):
        assert drawn[name].get_position()[0] > box.right
        assert drawn[name].get_position()[1] == pytest.approx(drawn[mean].get_position()[1])
        assert drawn[name].get_fontweight() == drawn[mean].get_fontweight() == ("bold" if name == "nope" else "normal")
        (line,) = lines(page, name.split()[0])
        swatches = [a for a in page.figure.get_children() if hasattr(a, "get_xdata") and np.min(a.get_xdata()) > box.right]
        middle = drawn[name].get_position()[1] - plot.MIDDLE * plot.SMALL * plot.POINT
        beside_it = [a for a in swatches if a.get_ydata()[0] == pytest.approx(middle)]
        assert [a.get_color() for a in beside_it] == [line.get_color()]
    assert drawn["nope"].get_position()[1] < drawn["rope †"].get_position()[1]  # from the top


def test_only_the_leftmost_panels_say_values():
    found = crowd(14, families=7)
    page = page_of(overview.picture, found, classes_of(found))
    assert texts(page).count(".5") == 1  # two tasks, side by side


def test_no_two_styles_are_alike():
    assert len(set(curves.styles(range(21)).values())) == 21
    assert [style.colour(DARK) for style in curves.styles("abcdefg").values()] == list(DARK.colours)


def test_families_take_the_order_of_the_tables_and_large_ones_are_cut():
    of = suite(encodings=[f"e{i}" for i in range(15)])
    family = {**{f"e{i}": "rotary" for i in range(13)}, "e13": "none", "e14": "of its own"}
    runs = []
    for name, of_it in family.items():
        exact = 1, 1, (14 - int(name[1:])) / 20, 0
        runs += [result(of, t, record(name, family=of_it), s, exact) for t in ("parity", "sorting") for s in of.seeds]
    panels = families.families(classes_of(only(of, runs)))
    assert list(panels) == ["no encoding", "rotary, 1 of 3", "rotary, 2 of 3", "rotary, 3 of 3", "of its own"]
    assert [len(names) for names in panels.values()] == [1, 4, 4, 5, 1]
    assert [name for names in panels.values() for name in names] == ["e13", *(f"e{i}" for i in range(13)), "e14"]
    assert max(map(len, families.families(classes_of(crowd(56))).values())) <= families.MOST


def test_the_best_of_a_task_are_named_above_those_ranked_apart_for_themselves():
    of = suite()
    runs = full(of, {"a": (1, 1, 0.2, 0.2), "b": (1, 1, 0.6, 0.6), "c": (1, 1, 0.4, 0.4), "d": (1, 1, 0.1, 0.1)})
    tuned = [result(of, t.task, "z", s, (1, 1, 0.9, 0.9), longest_seen=12) for t in of.tasks for s in of.seeds]
    found = only(of, runs + tuned)
    column = column_of(found, "sorting")
    line = families.best_line(column, classes_of(found))
    assert line == "Highest mean past L: b .600 ± .000, c .400 ± .000, a .200 ± .000; ranked apart†: z .900 ± .000"
    page = page_of(families.picture, found, column, classes_of(found))
    bold = [t.get_text() for t in page.figure.texts if t.get_fontweight() == "bold" and t.get_fontsize() == plot.SMALL]
    assert bold == [".600", "b"]
    assert "z †" in texts(page) and line in " ".join(texts(page))


def test_an_encoding_without_a_run_of_the_task_is_not_in_its_picture():
    of = suite(encodings=["nope", "rope", "alibi"])
    found = only(of, [*full(of, {"nope": (1, 1, 0, 0)}), result(of, "parity", "rope")])
    classes = classes_of(found)
    drawn = {c.task: texts(page_of(families.picture, found, c, classes)) for c in found.columns}
    assert "rope" in drawn["parity"] and "rope" not in drawn["sorting"] and "alibi" not in drawn["parity"]


def test_few_encodings_all_stand_out_and_of_many_the_best_and_the_references():
    few = crowd(spotlight.ALL)
    assert set(spotlight.spotlight(classes_of(few))) == set(few.encodings)
    of = suite(encodings=[f"e{i:02}" for i in range(9)])
    marks = {f"e{i:02}": (1, 1, 0.9 - i / 20, 0) for i in range(9)} | {"rope": (1, 1, 0, 0), "alibi": (1, 1, 0.01, 0)}
    tuned = [result(of, t.task, "z", s, (1, 1, 1, 1), longest_seen=12) for t in of.tasks for s in of.seeds]
    found = only(of, full(of, marks) + tuned)
    classes = classes_of(found)
    assert list(spotlight.spotlight(classes)) == ["e00", "e01", "e02", "e03", "alibi", "rope"]
    page = page_of(overview.picture, found, classes)
    named = texts(page)
    assert {"e00", "alibi", "rope"} <= set(named) and not {"e04", "z"} & set(named)
    assert "Named: the first 4 of the ranking and the references; grey: the 6 others." in " ".join(named).replace("\n", " ")
    assert spotlight.apart(classes) == {"z"}
    bold = [t.get_text() for t in page.figure.texts if t.get_fontweight() == "bold" and t.get_fontsize() == plot.SMALL]
    assert bold == [".450", "e00"] * 2


def test_those_ranked_apart_are_not_among_the_best_though_there_is_room():
    of = suite()
    tuned = {f"z{i}": (1, 1, 0.9, 0.9) for i in range(8)}
    runs = [result(of, t.task, n, s, e, longest_seen=12) for n, e in tuned.items() for t in of.tasks for s in of.seeds]
    found = only(of, full(of, {"a": (1, 1, 0, 0), "rope": (1, 1, 0.5, 0.5)}) + runs)
    assert list(spotlight.spotlight(classes_of(found))) == ["rope", "a"]


def test_families_whose_titles_are_cut_to_the_same_text_keep_their_panels():
    of = suite(encodings=list("abcdef"))
    names = dict(zip("abcdef", ["none", "no encoding", "bias", "attention bias", "x" * 40 + "1", "x" * 40 + "2"], strict=True))
    runs = [
        result(of, t.task, record(name, family=of_it), s) for name, of_it in names.items() for t in of.tasks for s in of.seeds
    ]
    panels = families.families(classes_of(only(of, runs)))
    assert sorted(name for members in panels.values() for name in members) == list("abcdef")
    assert len(panels) == 6
