"""Placement of labels: none overlaps another, and each is close to what it names."""

import numpy as np
import pytest
from figure_helpers import figure_of
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.figures import canvas, label_placement, text_layout

NOTHING = np.zeros((0, 4))
ROWS = st.lists(st.tuples(st.floats(0, 100), st.floats(1, 20)), min_size=1, max_size=8)


@settings(deadline=None)
@given(ROWS)
def test_labels_keep_their_order_and_do_not_overlap(rows):
    rows.sort()
    wanted, heights = zip(*rows, strict=True)
    centres = label_placement.spread(wanted, heights, -300, 300)
    for i in range(len(rows) - 1):
        assert centres[i + 1] - centres[i] >= (heights[i] + heights[i + 1]) / 2 - 1e-9


def test_labels_with_room_stay_and_those_without_start_at_the_low_end():
    assert label_placement.spread([10, 30, 50], [5, 5, 5], 0, 100) == [10, 30, 50]
    assert label_placement.spread([50, 50], [10, 10], 0, 100) == [45, 55]
    assert label_placement.spread([5, 5, 5], [10, 10, 10], 0, 20) == [5, 15, 25]
    assert label_placement.spread([], [], 0, 1) == []


def shared(one, other):
    """Area that two boxes share, computed another way."""
    return max(0, min(one[2], other[2]) - max(one[0], other[0])) * max(0, min(one[3], other[3]) - max(one[1], other[1]))


def test_shared_area():
    rng = np.random.default_rng(0)
    some, others = (np.sort(rng.uniform(0, 10, (n, 2, 2)), axis=1).reshape(n, 4) for n in (6, 9))
    assert label_placement.shared_area(some, others) == pytest.approx([sum(shared(a, b) for b in others) for a in some])
    assert label_placement.shared_area(some, NOTHING).tolist() == [0] * 6


@pytest.mark.parametrize("seed", range(5))
def test_placed_labels_cover_nothing_and_stay_inside(seed):
    rng = np.random.default_rng(seed)
    discs = rng.uniform((40, 40), (560, 360), (30, 2))
    discs[10:16] = discs[10] + rng.uniform(-8, 8, (6, 2))  # a cluster
    sizes = np.stack([rng.uniform(20, 90, 30), np.full(30, 8.0)], 1)
    wall = np.array([[99.0, 0.0, 101.0, 400.0]])
    centres = label_placement.place_labels(discs, sizes, (0, 0, 600, 400), wall, NOTHING, 2.5, range(30))
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], 1)
    for i, one in enumerate(boxes):
        assert one[0] >= 0 and one[1] >= 0 and one[2] <= 600 and one[3] <= 400
        assert not [j for j, other in enumerate(boxes[:i]) if shared(one, other) > 1e-6]
        assert not [j for j, (x, y) in enumerate(discs) if shared(one, (x - 2.5, y - 2.5, x + 2.5, y + 2.5)) > 1e-6]
        assert shared(one, wall[0]) == 0


def test_a_single_label_is_next_to_its_disc_and_moves_away_from_a_thin_line():
    disc, size = np.array([[50.0, 50.0]]), np.array([[20.0, 8.0]])

    def gap(soft):
        (centre,) = label_placement.place_labels(disc, size, (0, 0, 100, 100), NOTHING, soft, 2.5, [0])
        box = np.concatenate([centre - size[0] / 2, centre + size[0] / 2])
        assert not len(soft) or shared(box, soft[0]) == 0
        return np.linalg.norm(np.clip(disc[0], box[:2], box[2:]) - disc[0])

    assert 2.5 <= gap(NOTHING) < label_placement.LEADER
    assert 2.5 <= gap(np.array([[52.0, 0.0, 53.0, 100.0]])) < label_placement.LEADER


def test_a_label_is_placed_even_without_free_space():
    crowd = np.full((9, 2), 10.0)
    centres = label_placement.place_labels(crowd, np.full((9, 2), 18.0), (0, 0, 20, 20), NOTHING, NOTHING, 2.5, range(9))
    assert np.isfinite(centres).all() and centres.shape == (9, 2)
    none = np.zeros((0, 2))
    assert label_placement.place_labels(none, none, (0, 0, 1, 1), NOTHING, NOTHING, 2.5, []).shape == (0, 2)


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
def test_folded_names_fit_and_are_complete_where_there_is_room(name, width):
    lines = text_layout.folded(name, width, 7, suffix=" †")
    assert len(lines) <= 2 and all(text_layout.text_width(line, 7) <= width for line in lines)
    assert lines[-1].endswith(" †")
    if "…" not in "".join(lines):
        assert "".join(lines) == name + " †"
    if text_layout.text_width(name + " †", 7) <= width:
        assert len(lines) == 1


def test_shortened_text_keeps_both_ends():
    assert text_layout.fitted("abcdefghij", 1000, 7) == "abcdefghij"
    cut = text_layout.fitted("finetuned(rope,fixed=True)", 60, 7)
    assert cut.startswith("fin") and cut.endswith("ue)") and cut.count("…") == 1
    assert text_layout.text_width(cut, 7) <= 60 < text_layout.text_width("finetuned(rope,fixed=True)", 7)


def test_lines_of_running_text_fit_and_break_only_at_blanks():
    text = "some words and 95\u00a0% of others " * 9
    lines = text_layout.wrapped(text.strip(), 120, 7)
    assert all(text_layout.text_width(line, 7) <= 120 for line in lines) and " ".join(lines) == text.strip()
    assert not any(line.endswith("95") for line in lines)


def test_text_width_is_what_is_drawn():
    figure = figure_of(lambda theme: canvas.new_figure("randomised(alibi)", 1, theme)[0])
    (title,) = (text for text in figure.texts if text.get_text() == "randomised(alibi)")
    width = text_layout.text_width("randomised(alibi)", text_layout.LARGE, bold=True)
    assert width == pytest.approx(title.get_window_extent().width, rel=0.02)
