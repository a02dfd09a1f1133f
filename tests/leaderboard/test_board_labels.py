"""Where labels go: that none lies on another, and that they are where they belong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_parts import page_of
from scipy.optimize import minimize

from leaderboard import labels, plot
from leaderboard.beside import Named, stacked

ROWS = st.lists(st.tuples(st.floats(0, 100), st.floats(1, 20)), min_size=1, max_size=8)


@settings(deadline=None)
@given(ROWS)
def test_labels_keep_their_order_and_do_not_overlap(rows):
    rows.sort()
    wanted, heights = zip(*rows, strict=True)
    centres = labels.spread(wanted, heights, -300, 300)
    for i in range(len(rows) - 1):
        assert centres[i + 1] - centres[i] >= (heights[i] + heights[i + 1]) / 2 - 1e-9


@settings(deadline=None, max_examples=30)
@given(ROWS, st.floats(0, 40))
def test_labels_are_as_near_as_they_can_be(rows, low):
    rows.sort()
    wanted, heights = (np.array(part) for part in zip(*rows, strict=True))
    high = low + heights.sum() + 30
    found = np.array(labels.spread(wanted.tolist(), heights.tolist(), low, high))
    limits = [{"type": "ineq", "fun": lambda c: np.diff(c) - (heights[1:] + heights[:-1]) / 2}] if len(rows) > 1 else []
    start = low + np.cumsum(heights) - heights / 2
    bounds = list(zip(low + heights / 2, high - heights / 2, strict=True))
    best = minimize(lambda c: ((c - wanted) ** 2).sum(), start, bounds=bounds, constraints=limits, method="SLSQP", tol=1e-10)
    assert (found - heights / 2 >= low - 1e-9).all() and (found + heights / 2 <= high + 1e-9).all()
    assert ((found - wanted) ** 2).sum() <= best.fun + 1e-3


def test_labels_that_have_room_stay_and_those_without_stand_on_the_low_end():
    assert labels.spread([10, 30, 50], [5, 5, 5], 0, 100) == [10, 30, 50]
    assert labels.spread([50, 50], [10, 10], 0, 100) == [45, 55]
    assert labels.spread([5, 5, 5], [10, 10, 10], 0, 20) == [5, 15, 25]
    assert labels.spread([], [], 0, 1) == []


def named(*rows):
    return [Named(name, mean, end, "#000000") for name, mean, end in rows]


def test_names_stand_by_where_curves_end_and_by_their_means_where_they_end_together():
    order = stacked(
        named(("low", 0.9, 0.0), ("high", 0.1, 0.9), ("worse", 0.2, 0.5), ("better", 0.3, 0.46), ("zero", 0.95, 0.01))
    )
    assert [one.name for one in order] == ["high", "better", "worse", "zero", "low"]
    assert [one.name for one in stacked(named(("b", 0.5, 0), ("a", 0.5, 0)))] == ["a", "b"]


def boxes(centres, sizes):
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(centres, sizes, strict=True)]


def shared(one, other):
    """Area of two boxes' overlap, by a rule of its own."""
    return max(0, min(one[2], other[2]) - max(one[0], other[0])) * max(0, min(one[3], other[3]) - max(one[1], other[1]))


def test_overlap_is_the_shared_area():
    rng = np.random.default_rng(0)
    some, others = (np.sort(rng.uniform(0, 10, (n, 2, 2)), axis=1).reshape(n, 4) for n in (6, 9))
    assert labels.overlap(some, others) == pytest.approx([sum(shared(a, b) for b in others) for a in some])
    assert labels.overlap(some, np.zeros((0, 4))).tolist() == [0] * 6


@pytest.mark.parametrize("seed", range(5))
def test_placed_names_lie_on_nothing_and_inside(seed):
    rng = np.random.default_rng(seed)
    anchors = rng.uniform((40, 40), (560, 360), (30, 2))
    anchors[10:16] = anchors[10] + rng.uniform(-8, 8, (6, 2))  # a cluster
    sizes = np.stack([rng.uniform(20, 90, 30), np.full(30, 8.0)], 1)
    wall = labels.along(np.array([100.0, 100.0]), np.array([0.0, 400.0]))
    centres = labels.place(anchors, sizes, (0, 0, 600, 400), wall, [range(30), range(29, -1, -1)], 5)
    found = boxes(centres, sizes)
    for i, one in enumerate(found):
        assert one[0] >= 0 and one[1] >= 0 and one[2] <= 600 and one[3] <= 400
        assert not [j for j, other in enumerate(found[:i]) if shared(one, other) > 1e-6]
        assert not [j for j, (x, y) in enumerate(anchors) if shared(one, (x - 2.5, y - 2.5, x + 2.5, y + 2.5)) > 1e-6]
        assert not (one[0] < 100 < one[2])
        for j, (anchor, other, size) in enumerate(zip(anchors, centres, sizes, strict=True)):
            if j != i and labels.far(anchor, other, size):
                line = labels.leader(anchor, other[None], size)[0]
                assert labels.overlap(np.array([one]), line) == 0


def test_a_lonely_name_is_right_beside_its_disc_and_no_line_joins_them():
    (centre,) = labels.place(np.array([[50.0, 50.0]]), np.array([[20.0, 8.0]]), (0, 0, 100, 100), np.zeros((0, 4)), [[0]], 5)
    gap = np.linalg.norm(labels.touch(np.array([50.0, 50.0]), centre, np.array([20.0, 8.0])) - 50)
    assert 2.5 <= gap < labels.LEADER
    assert not labels.far(np.array([50.0, 50.0]), centre, np.array([20.0, 8.0]))


def test_where_nothing_is_free_a_name_still_gets_a_place():
    centres = labels.place(np.full((9, 2), 10.0), np.full((9, 2), 18.0), (0, 0, 20, 20), np.zeros((0, 4)), [range(9)], 5)
    assert np.isfinite(centres).all() and centres.shape == (9, 2)
    assert labels.place(np.zeros((0, 2)), np.zeros((0, 2)), (0, 0, 1, 1), np.zeros((0, 4)), [[]], 5).shape == (0, 2)


NAMES = [
    "rope",
    "randomised(sinusoidal)",
    "finetuned(interpolated(rope,fixed=True))",
    "sinusoidal_every_layer",
    "w" * 99,
    "漢字" * 20,
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [40, 70, 300])
def test_folded_names_fit_and_lose_nothing_where_there_is_room(name, width):
    lines = labels.folded(name, width, 7, suffix=" †")
    assert len(lines) <= 2 and all(plot.text_width(line, 7) <= width for line in lines)
    assert lines[-1].endswith(" †")
    if "…" not in "".join(lines):
        assert "".join(lines) == name + " †"
    if plot.text_width(name + " †", 7) <= width:
        assert len(lines) == 1


def test_what_is_cut_keeps_both_ends():
    assert plot.fitted("abcdefghij", 1000, 7) == "abcdefghij"
    cut = plot.fitted("finetuned(rope,fixed=True)", 60, 7)
    assert cut.startswith("fin") and cut.endswith("ue)") and cut.count("…") == 1
    assert plot.text_width(cut, 7) <= 60 < plot.text_width("finetuned(rope,fixed=True)", 7)


def test_lines_of_running_text_fit_and_break_only_at_blanks():
    text = "some words and 95\u00a0% of others " * 9
    lines = plot.wrapped(text.strip(), 120, 7)
    assert all(plot.text_width(line, 7) <= 120 for line in lines) and " ".join(lines) == text.strip()
    assert not any(line.endswith("95") for line in lines)


def test_text_width_is_what_is_drawn():
    def draw(theme):
        page = plot.Page(1, theme)
        page.text(0.5, 0.5, "randomised(alibi)", 20)
        return page

    page = page_of(draw)
    box = page.figure.texts[0].get_window_extent()
    assert plot.text_width("randomised(alibi)", 20) * plot.DPI / 72 == pytest.approx(box.width, rel=0.02)
