"""Heat map, profiles and cost: that they show the numbers they should, in the right place."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from matplotlib.colors import to_hex
from picture_parts import classes_of, crowd, lines, only, page_of, simple, texts
from synthetic_results import failure, full, result, suite

from bench.results import Timings
from leaderboard import cost, heatmap, inference, plot, profiles, spotlight, theme
from leaderboard import statistics as st
from leaderboard.theme import LIGHT


def mixed():
    """Encodings of all classes, one that fails its gate, one with missing seeds, one with a failed task."""
    of = suite(encodings=["nope", "rope", "alibi", "t5"])
    runs = full(of, {"nope": (1, 1, 1, 1), "rope": (1, 1, 0.5, 0.5), "alibi": (0.8, 0.9, 0.9, 0.9)})
    runs = [r for r in runs if (r.encoding.name, r.task, r.seed) != ("rope", "sorting", 2)]
    runs += [result(of, "parity", "t5", s) for s in of.seeds]
    runs += [result(of, t.task, "tuned", s, (1, 1, 0.7, 0.7), longest_seen=12) for t in of.tasks for s in of.seeds]
    return only(of, runs, {("sorting", "t5", 0): failure("boom").model_copy(update={"fingerprint": of.fingerprint})})


def rows_of(page):
    """Encoding → the texts right of it in its row."""
    placed = sorted((*t.get_position(), t.get_text()) for t in page.figure.texts)
    names = {text: y for x, y, text in placed if x == pytest.approx(heatmap.MARGIN + 0.3)}
    cells = [(y, text) for x, y, text in placed if x > heatmap.NAMES]
    down = sorted(names, key=names.__getitem__)
    return {name: [text for y, text in cells if abs(y - names[name]) < 0.05] for name in down}


def test_cells_hold_scores_and_reach():
    found = mixed()
    rows = rows_of(page_of(heatmap.picture, found, classes_of(found)))
    assert rows["nope"] == ["1.000", "1.000", "1.000", "1.000", "≥ 2", "≥ 2"]  # IQM, mean, parity, sorting, reach twice
    assert rows["rope"][1:] == [".250", ".000", ".500*", "1", "1"]  # half right of two classes is guessing
    assert rows["alibi"][1:] == [".850", ".800", ".900", "0", "0"]
    words = [text for text in rows["t5"] if text.isalpha()]
    assert words == ["incomplete", "incomplete", "failed", "failed"]


def test_rows_stand_in_the_order_of_the_board_and_classes_apart():
    found = mixed()
    page = page_of(heatmap.picture, found, classes_of(found))
    assert list(rows_of(page)) == ["nope", "alibi", "rope", "t5", "tuned"]
    at = {t.get_text(): t.get_position()[1] for t in page.figure.texts}
    assert at["t5"] < at[heatmap.HEADINGS["longer"]] < at["tuned"]
    assert at["tuned"] - at["t5"] == pytest.approx(heatmap.HEIGHT + heatmap.APART)


def test_colours_are_the_scores_and_a_failed_gate_is_marked():
    found = mixed()
    page = page_of(heatmap.picture, found, classes_of(found))
    (cells,) = (a for a in page.figure.get_children() if type(a).__name__ == "PolyCollection")
    colours = [to_hex(c).upper() for c in cells.get_facecolors()]
    rope = classes_of(found)["standard"][2]
    expected = [rope.iqm, rope.score, *(rope.cells[t].scores.mean() for t in ("parity", "sorting")), 0, 0]
    assert sorted(map(theme.LIGHT.heat_at, expected)) == sorted(
        c for c, path in zip(colours, cells.get_paths(), strict=True) if abs(path.vertices[0, 1] - row_top(page, "rope")) < 0.01
    )
    flagged = lines(page, "gate")
    tops = {round(float(p.get_xy()[:, 1].min()), 3) for p in flagged}
    assert tops == {round(row_top(page, "alibi"), 3)}
    assert len(flagged) == 4  # two tasks, as score and as reach


def row_top(page, name):
    (place,) = (t.get_position()[1] for t in page.figure.texts if t.get_text() == name)
    return place - plot.MIDDLE * plot.SMALL * plot.POINT - heatmap.HEIGHT / 2 + 0.01


def test_numbers_are_black_or_white_whichever_can_be_read():
    for look in theme.THEMES:
        page = page_of(heatmap.picture, simple(), classes_of(simple()), theme=look)
        (cells,) = (a for a in page.figure.get_children() if type(a).__name__ == "PolyCollection")
        boxes = [(path.get_extents(), to_hex(c)) for path, c in zip(cells.get_paths(), cells.get_facecolors(), strict=True)]
        numbers = [
            t
            for t in page.figure.texts
            if re.fullmatch(r"(≥ )?[\d.]+\*?", t.get_text()) and t.get_color() in ("#000000", "#FFFFFF")
        ]
        assert len(numbers) == len(boxes) == 12
        for number in numbers:
            (ground,) = (colour for box, colour in boxes if box.contains(*number.get_position()))
            assert theme.contrast(number.get_color(), ground) >= 4.5


def test_seeds_are_ticks_from_zero_at_the_left_to_one_at_the_right():
    of = suite()
    found = only(of, [result(of, "sorting", "nope", s, (1, 1, e, e)) for s, e in enumerate((0, 0.5, 1))])
    page = page_of(heatmap.picture, found, classes_of(found))
    x = np.concatenate([line.get_xdata() for line in lines(page, "seeds")]).reshape(-1, 3)[:, 0]
    (at,) = (t.get_position()[0] for t in page.figure.texts if t.get_text() == ".500")
    assert len(x) == 3 and x.mean() == pytest.approx(at, abs=0.03)
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=1e-4) and x[2] - x[0] > 0.5


TWENTIETHS = some.integers(0, 20).map(lambda i: i / 20)
SCORES = some.lists(arrays(float, some.integers(2, 5), elements=TWENTIETHS), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(SCORES, some.floats(0, 0.999))
def test_steps_are_the_profile_and_their_area_is_the_mean(own, at):
    x, y = profiles.steps(own)
    assert x[0] == 0 and x[-1] == 1 and (np.diff(x) >= 0).all()
    place = np.searchsorted(x, at, side="right") - 1
    assert y[place] == pytest.approx(st.profile(own, np.array([at]))[0])
    assert np.trapezoid(y, x) == pytest.approx(st.overall(own))


def test_bands_are_those_of_the_statistics():
    own = [np.array([0.1, 0.4, 0.8]), np.array([0.0, 0.5, 0.9])]
    low, high = profiles.band(own)
    x, y = profiles.steps(own)
    assert (low <= y + 1e-9).all() and (y <= high + 1e-9).all() and (high - low).max() > 0.3
    at = np.linspace(0.005, 0.995, 100)
    places = np.searchsorted(x, at, side="right") - 1
    assert np.stack([low, high])[:, places] == pytest.approx(inference.profile_band(own, at), abs=1e-9)
    assert profiles.band([np.array([0.5])]) is None


def test_of_many_profiles_the_best_and_some_references_have_names_and_bands():
    found = crowd(12)
    classes = classes_of(found)
    page = page_of(profiles.picture, classes)
    best = [row.name for row in classes["standard"][: profiles.BEST]]
    named = {text.rsplit("  ", 1)[0]: text.rsplit("  ", 1)[1] for text in texts(page) if re.search(r"  [.1]\d", text)}
    rows = {row.name: row for row in classes["standard"]}
    assert named == {name: f"{rows[name].score:.3f}".removeprefix("0") for name in {*best, "nope"}}
    (grey,) = lines(page, "others")
    assert np.isnan(grey.get_xdata()).sum() == 12 - len(named)
    looks = spotlight.spotlight(classes)
    for name in named:
        (line,) = lines(page, name)
        assert line.get_color() == looks[name].colour(LIGHT), "as in all other pictures"
        assert len(lines(page, f"band of {name}")) == 1


def test_a_single_seed_has_no_band():
    page = page_of(profiles.picture, classes_of(crowd(4, seeds=[0])))
    assert lines(page, "e01") and not lines(page, "band of e01")
    assert "stratified bootstrap" not in " ".join(texts(page))


POINTS = some.lists(some.tuples(some.floats(0.5, 9), some.floats(0, 1), some.booleans()), min_size=1, max_size=12)


@given(POINTS)
def test_the_front_is_what_nobody_beats(made):
    shown = [cost.Point(f"e{i}", t, s, None, (), apart, False) for i, (t, s, apart) in enumerate(made)]
    shown = sorted(shown, key=lambda one: (-one.score, one.time, one.name))
    front = cost.front(shown)
    for one in shown:
        rivals = [r for r in shown if not r.apart and r.time <= 1.05 * one.time]
        beaten = any((r.score, -r.time) > (one.score, -one.time) for r in rivals)
        twin = any((r.time, r.score) == (one.time, one.score) and r.name < one.name for r in rivals)
        assert (one in front) is not (one.apart or beaten or twin)
    times = [one.time for one in front]
    assert times == sorted(times, reverse=True)  # a line can be drawn through them


def timed(times):
    """A grid in which the encodings have these step times and get better with their number."""
    of = suite(encodings=list(times))
    runs = []
    for i, (name, pace) in enumerate(times.items()):
        timings = Timings(step_ms=pace, train_s=8.0, evaluate_s=1.0, total_s=9.0, cpu_share=0.5 if name == "busy" else 1.0)
        for seed in of.seeds:
            exact = 1, 1, 0.6 + 0.1 * i, 0.6 + 0.1 * i + 0.01 * seed
            runs += [result(of, t.task, name, seed, exact, timings=timings) for t in of.tasks]
    return only(of, runs)


def test_points_stand_at_time_and_score_with_their_seeds_and_intervals():
    classes = classes_of(timed({"nope": 10, "busy": 40, "rope": 20}))
    page = page_of(cost.picture, classes)
    rows = {row.name: row for row in classes["standard"]}
    at = {name: [float(v[0]) for v in lines(page, name)[0].get_data()] for name in rows}
    assert at["busy"][0] - at["rope"][0] == pytest.approx(at["rope"][0] - at["nope"][0])  # twice as long, logarithmic
    scores = {name: row.score for name, row in rows.items()}
    slope = (at["nope"][1] - at["rope"][1]) / (scores["rope"] - scores["nope"])
    assert slope > 0 and (at["nope"][1] - at["busy"][1]) / (scores["busy"] - scores["nope"]) == pytest.approx(slope)
    (seeds,) = lines(page, "seeds")
    drawn = sorted(zip(*np.round(seeds.get_data(), 6), strict=True))
    for name, row in rows.items():
        mean_of = np.stack(row.scores).mean(0)
        expected = sorted(at[name][1] - (value - row.score) * slope for value in mean_of)
        assert [y for x, y in drawn if x == pytest.approx(at[name][0], abs=1e-5)] == pytest.approx(expected, abs=1e-5)
    (intervals,) = lines(page, "intervals")
    ends = np.asarray(intervals.get_ydata()).reshape(-1, 3)[:, :2]
    expected = [[at[row.name][1] - (end - row.score) * slope for end in row.interval] for row in rows.values()]
    assert sorted(map(sorted, ends.tolist())) == [pytest.approx(pair) for pair in sorted(map(sorted, expected))]
    assert "busy *" in texts(page) and "timed while the machine did other work" in " ".join(texts(page))


def test_the_front_is_drawn_and_bold_and_those_ranked_apart_are_hollow_and_not_on_it():
    of = suite()
    runs = full(of, {"nope": (1, 1, 0.6, 0.6), "rope": (1, 1, 0.7, 0.7)})
    slow = Timings(step_ms=20, train_s=8.0, evaluate_s=1.0, total_s=9.0)
    runs += full(of, {"slow": (1, 1, 0.6, 0.6)}, timings=slow)
    runs += [result(of, t.task, "tuned", s, (1, 1, 0.9, 0.9), longest_seen=12) for t in of.tasks for s in of.seeds]
    page = page_of(cost.picture, classes_of(only(of, runs)))
    bold = {t.get_text() for t in page.figure.texts if t.get_fontweight() == "bold" and t.get_fontsize() == 7}
    assert bold == {"rope"}
    (line,) = lines(page, "front")
    (disc,) = lines(page, "rope")
    assert (disc.get_xdata()[0], disc.get_ydata()[0]) in list(zip(*line.get_data(), strict=True))
    faces = {name: lines(page, name)[0].get_markerfacecolor() for name in ("rope", "slow", "tuned")}
    assert faces["tuned"] == LIGHT.background and faces["rope"] == LIGHT.colours[0] and faces["slow"] == LIGHT.muted


def test_names_do_not_lie_on_each_other():
    page = page_of(cost.picture, classes_of(crowd(40)))
    names = [t for t in page.figure.texts if re.fullmatch(r"nope|e\d\d", t.get_text())]
    assert len(names) == 40
    boxes = [t.get_window_extent() for t in names]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_seeds_that_not_every_task_has_are_not_averaged():
    found = mixed()
    rows = {row.name: row for rows in classes_of(found).values() for row in rows}
    assert len(cost.by_seed(rows["nope"])) == 3 and len(cost.by_seed(rows["rope"])) == 2
    assert cost.by_seed(rows["alibi"]) == pytest.approx([0.85] * 3)
