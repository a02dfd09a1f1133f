"""Heat map, profiles and cost: they show the right numbers in the right place."""

from dataclasses import replace

import numpy as np
import pytest
from figure_helpers import bold_names, crowd, figure_of, line_of, lines, simple, texts
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from matplotlib.colors import to_hex
from synthetic_results import failure, full, only_grid, result, suite, timings

from leaderboard.data.grid import RelativeCost
from leaderboard.figures import cost, heatmap, highlight, profiles, theme
from leaderboard.figures.theme import LIGHT
from leaderboard.format import RANKING_TITLES
from leaderboard.stats import bootstrap
from leaderboard.stats import scores as st
from leaderboard.stats.summary import summarise


def mixed():
    """Encodings of all classes, one that fails its gate, one with missing seeds, one with a failed task."""
    of = suite(encodings=["nope", "rope", "alibi", "t5"])
    runs = full(of, {"nope": (1, 1, 1, 1), "rope": (1, 1, 0.5, 0.5), "alibi": (0.8, 0.9, 0.9, 0.9)})
    runs = [r for r in runs if (r.encoding.name, r.task, r.seed) != ("rope", "sorting", 2)]
    runs += [result(of, "parity", "t5", s) for s in of.seeds]
    runs += [result(of, t.task, "tuned", s, (1, 1, 0.7, 0.7), longest_seen=12) for t in of.tasks for s in of.seeds]
    return only_grid(of, runs, {("sorting", "t5", 0): failure("boom").model_copy(update={"fingerprint": of.fingerprint})})


def heat_map(grid, look=LIGHT):
    return figure_of(heatmap.draw_heatmap, grid, summarise(grid), theme=look)


def cells(ax):
    """(row, column) → the text of that cell."""
    found = {}
    for text in ax.texts:
        x, y = text.get_position()
        if x > 0 and not hasattr(text, "xy"):
            found[int(y), int(x)] = text
    return found


def colours(ax):
    """(row, column) → colour of that cell, for those that have one."""
    (mesh,) = ax.collections[:1]
    values = mesh.get_array()
    drawn = mesh.to_rgba(values)
    return {i: to_hex(drawn[i]).upper() for i in np.ndindex(values.shape) if not np.ma.getmaskarray(values)[i]}


def test_cells_hold_scores_and_reach_in_the_order_of_the_board_with_classes_apart():
    figure = heat_map(mixed())
    scores, reaches, longer, _ = figure.axes
    rows = [[cells(ax)[i, j].get_text() for ax, n in ((scores, 3), (reaches, 3)) for j in range(n)] for i in range(4)]
    assert rows[0] == ["1.000", "1.000", "1.000", "≥ 2.00", "≥ 2.00", "≥ 2.00"]  # score and reach: overall, parity, sorting
    assert rows[1] == [".850", ".800", ".900", "≥ 2.00", "≥ 2.00", "≥ 2.00"]
    # Half right of two classes is guessing: parity falls to 0 at 1.5 L, and is one half on the way there, in log l.
    assert rows[2] == [".250", ".000", ".500*", "1.36", "1.22", "1.50"]
    assert [text for text in rows[3] if text.isalpha()] == ["incomplete", "failed", "incomplete", "failed"]
    names = [text.get_text() for text in scores.texts if hasattr(text, "xy")]
    assert names == ["1", "nope", "2", "alibi", "3", "rope", "–", "t5"]
    assert {RANKING_TITLES["longer"], "tuned"} <= set(texts(longer)) and longer.bbox.y1 < scores.bbox.y0
    assert [t.get_text() for t in scores.get_xticklabels()] == ["overall", "Parity", "Sorting"]


def test_colours_are_the_scores_and_a_failed_gate_is_marked():
    grid = mixed()
    scores, reaches, *_ = heat_map(grid).axes
    rope = summarise(grid)["standard"][2]
    expected = [rope.score, *(rope.cells[t].scores.mean() for t in ("parity", "sorting"))]
    mesh, corners = scores.collections
    assert np.asarray(mesh.get_array())[2] == pytest.approx(expected) and (mesh.get_clim() == (0, 1))
    assert (3, 2) not in colours(scores), "a failed task has no colour"
    for gate, columns in ((corners, (1, 2)), (reaches.collections[1], (1, 2))):
        assert to_hex(gate.get_facecolor()[0]).upper() == LIGHT.flag
        assert [tuple(path.vertices[1].astype(int)) for path in gate.get_paths()] == [(column + 1, 1) for column in columns]


@pytest.mark.parametrize("look", theme.THEMES, ids=lambda look: look.name)
def test_numbers_are_black_or_white_whichever_can_be_read(look):
    count = 0
    for ax in heat_map(simple(), look).axes:
        ground = colours(ax)
        for place, text in cells(ax).items():
            assert theme.contrast(text.get_color(), ground[place]) >= 4.5
            count += 1
    assert count == 12


def test_heat_grows_away_from_the_background_without_jumps_and_numbers_on_it_can_be_read():
    for look in theme.THEMES:
        steps = [to_hex(heatmap.heat_colours(look)(i / 100)) for i in range(101)]
        assert (steps[0].upper(), steps[-1].upper()) == (look.heat[0], look.heat[-1])
        away = [theme.contrast(step, look.background) for step in steps]
        assert (np.diff(away) >= -1e-9).all() and away[-1] > 10
        assert min(theme.contrast(theme.ink(step), step) for step in steps) >= 4.5
        parts = np.array([[int(step[i : i + 2], 16) for i in (1, 3, 5)] for step in steps])
        assert np.abs(np.diff(parts, axis=0)).max() <= 7


def test_seeds_are_ticks_from_zero_at_the_left_to_one_at_the_right():
    of = suite()
    scores = heat_map(only_grid(of, [result(of, "sorting", "nope", s, (1, 1, e, e)) for s, e in enumerate((0, 0.5, 1))])).axes[
        0
    ]
    x = line_of(scores, "seeds")[0].reshape(-1, 3)[:, 0]
    assert x == pytest.approx([2.05, 2.495, 2.94], abs=1e-3)


TWENTIETHS = some.integers(0, 20).map(lambda i: i / 20)
SCORES = some.lists(arrays(float, some.integers(2, 5), elements=TWENTIETHS), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(SCORES, some.floats(0, 0.999))
def test_steps_are_the_profile_and_their_area_is_the_mean(scores, at):
    x, y = profiles.profile(scores)
    assert x[0] == 0 and x[-1] == 1 and (np.diff(x) > 0).all()
    assert y[np.searchsorted(x, at, side="right") - 1] == pytest.approx(st.performance_profile(scores, np.array([at]))[0])
    assert (np.diff(x) * y[:-1]).sum() == pytest.approx(st.mean_score(scores))


def test_only_the_best_profiles_and_the_references_have_names_and_bands():
    classes = summarise(crowd(12))
    (ax,) = figure_of(profiles.draw_profiles, classes).axes
    rows = {row.name: row for row in classes["standard"]}
    named = {"nope", *(row.name for row in classes["standard"][: profiles.BEST])}
    ranked = sorted(named, key=lambda name: -rows[name].score)
    assert texts(ax.get_legend()) == [f"{rows[name].score:.3f}".removeprefix("0") + f"  {name}" for name in ranked]
    assert len(lines(ax, "others")) == 12 - len(named)
    bands = {band.get_label(): band for band in ax.collections}
    assert set(bands) == {f"band of {name}" for name in named}
    for name in named:
        (line,) = lines(ax, name)
        assert line.get_color() == highlight.highlighted(classes)[name].colour(LIGHT), "as in the overview"
        assert line.get_drawstyle() == "steps-post"
        x, y = line.get_data()
        assert y == pytest.approx(st.performance_profile(rows[name].scores, x))
        low, high = bootstrap.profile_band(rows[name].scores, x)
        box = bands[f"band of {name}"].get_paths()[0].get_extents()
        assert (box.y0, box.y1) == pytest.approx((low.min(), high.max())) and high.max() > low.min()


def test_a_single_seed_has_no_band():
    figure = figure_of(profiles.draw_profiles, summarise(crowd(4, seeds=[0])))
    assert lines(figure.axes[0], "e01") and not figure.axes[0].collections
    assert "stratified bootstrap" not in " ".join(texts(figure))


POINTS = some.lists(some.tuples(some.floats(0.5, 9), some.floats(0, 1), some.booleans()), min_size=1, max_size=12)


@given(POINTS)
def test_no_encoding_beats_one_on_the_front(made):
    shown = [cost.Point(f"e{i}", t, s, None, (), apart, False) for i, (t, s, apart) in enumerate(made)]
    shown = sorted(shown, key=lambda one: (-one.score, one.time, one.name))
    front = cost.pareto_front(shown)
    for one in shown:
        rivals = [r for r in shown if not r.apart and r.time <= cost.NOISE * one.time]
        beaten = any((r.score, -r.time) > (one.score, -one.time) for r in rivals)
        twin = any((r.time, r.score) == (one.time, one.score) and r.name < one.name for r in rivals)
        assert (one in front) is not (one.apart or beaten or twin)
    times = [one.time for one in front]
    assert times == sorted(times, reverse=True)  # a line can be drawn through them


def test_discs_are_at_time_and_score_with_their_seeds_and_intervals():
    of, runs = suite(encodings=["nope", "busy", "rope"]), []
    for i, (name, pace) in enumerate({"nope": 10, "busy": 40, "rope": 20}.items()):
        for seed in of.seeds:
            exact = 1, 1, 0.6 + 0.1 * i, 0.6 + 0.1 * i + 0.01 * seed
            runs += [result(of, t.task, name, seed, exact, timings=timings(pace)) for t in of.tasks]
    classes = summarise(replace(only_grid(of, runs), costs={"busy": RelativeCost(4, 4, 4, True)}))
    figure = figure_of(cost.draw_cost, classes)
    (ax,) = figure.axes
    rows = classes["standard"]
    intervals, discs = ax.collections
    assert discs.get_offsets().tolist() == [[row.step_time, row.score] for row in rows] and ax.get_xscale() == "log"
    assert sorted({row.step_time for row in rows}) == [1, 2, 4]
    expected = [(row.step_time, score) for row in rows for score in np.stack(row.scores).mean(0)]
    assert np.transpose(line_of(ax, "seeds")) == pytest.approx(np.array(expected))
    for segment, row in zip(intervals.get_segments(), rows, strict=True):
        assert segment.tolist() == [[row.step_time, pytest.approx(end)] for end in row.interval]
    assert "busy ‡" in texts(figure) and "timed while the machine did other work" in " ".join(texts(figure)).lower()


def test_the_front_is_drawn_and_bold_and_those_ranked_apart_are_hollow_and_not_on_it():
    of = suite()
    runs = full(of, {"nope": (1, 1, 0.6, 0.6), "rope": (1, 1, 0.7, 0.7)})
    runs += full(of, {"slow": (1, 1, 0.6, 0.6)}, timings=timings(20))
    runs += [result(of, t.task, "tuned", s, (1, 1, 0.9, 0.9), longest_seen=12) for t in of.tasks for s in of.seeds]
    classes = summarise(only_grid(of, runs))
    figure = figure_of(cost.draw_cost, classes)
    (ax,) = figure.axes
    assert bold_names(figure) == ["rope"]
    shown = cost.points(classes)
    discs = ax.collections[-1]
    place = {point.name: tuple(at) for point, at in zip(shown, discs.get_offsets(), strict=True)}
    assert place["rope"] in list(zip(*line_of(ax, "front"), strict=True))
    faces = {point.name: to_hex(face).upper() for point, face in zip(shown, discs.get_facecolors(), strict=True)}
    assert (faces["tuned"], faces["rope"], faces["slow"]) == (LIGHT.background, LIGHT.colours[0], LIGHT.muted)


def test_seeds_that_not_every_task_has_are_not_averaged():
    rows = {row.name: row for rows in summarise(mixed()).values() for row in rows}
    assert len(cost.seed_means(rows["nope"])) == 3 and len(cost.seed_means(rows["rope"])) == 2
    assert cost.seed_means(rows["alibi"]) == pytest.approx([0.85] * 3)
