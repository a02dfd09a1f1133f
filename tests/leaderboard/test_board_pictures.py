"""Pictures: that they are the same each time, and that they show the numbers they should."""

import io
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from synthetic_results import full, result, suite

from leaderboard import grid, pictures, plot

CURVES = {"nope": (1, 1, 0.5, 0.25), "rope": (1, 0.9, 0.1, 0)}


def only(of, runs):
    (found,) = grid.build(of, runs, {})
    return found


def column_of(found, task):
    return next(c for c in found.columns if c.task == task)


def drawn(found, task, small=False):
    axes = Figure().add_subplot()
    return axes, plot.curves(axes, found, column_of(found, task), pictures.styles(found), small)


def test_lines_are_means_over_seeds_and_faint_lines_are_the_seeds():
    of = suite()
    runs = [result(of, seed=s, exact=(1, 1, e, 0)) for s, e in enumerate((0.2, 0.3, 0.7))]
    axes, lines = drawn(only(of, runs), "sorting")
    assert list(lines) == ["nope"]
    assert lines["nope"].get_xydata() == pytest.approx(np.array([[3, 1], [6, 1], [9, 0.4], [12, 0]]))
    faint = [line for line in axes.get_lines() if line.get_alpha() is not None]
    assert sorted(line.get_ydata()[2] for line in faint) == [0.2, 0.3, 0.7]
    assert {line.get_color() for line in faint} == {lines["nope"].get_color()}


def test_a_single_seed_has_no_faint_lines_and_a_diverged_one_lies_at_zero():
    of = suite(seeds=[0])
    axes, lines = drawn(only(of, [result(of, status="diverged")]), "sorting")
    assert not [line for line in axes.get_lines() if line.get_alpha() is not None]
    assert lines["nope"].get_ydata().tolist() == [0, 0, 0, 0]


def test_the_trained_side_is_shaded_up_to_a_line_at_l():
    of = suite()
    axes, _ = drawn(only(of, full(of, CURVES)), "sorting")
    (shade,) = axes.patches
    assert shade.get_x() < 3 and shade.get_x() + shade.get_width() == pytest.approx(6)
    assert [line for line in axes.get_lines() if list(line.get_xdata()) == [6, 6]]


@pytest.mark.parametrize(("task", "shown"), [("parity", True), ("sorting", False)])
def test_chance_is_drawn_where_it_is_above_the_axis(task, shown):
    found = only(suite(), full(suite(), CURVES))
    axes, lines = drawn(found, task)
    dotted = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert [list(line.get_ydata()) for line in dotted] == ([[0.5] * 4] if shown else [])
    _, labels = plot.keys([column_of(found, task)], lines, {name: name for name in lines}, True)
    assert ("chance" in labels) is shown


def test_every_tested_length_is_a_tick_and_labels_do_not_collide():
    sorting = {"task": "sorting", "variant": "unique", "train_length": 6}
    of = suite(test_at=[0.5, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 10], tasks=[sorting])
    (column,) = only(of, full(of, {"nope": (0,) * 10})).columns
    axes = Figure().add_subplot()
    plot.frame(axes, column, small=False)
    assert axes.get_xticks().tolist() == list(column.lengths)
    labels = plot.tick_labels(column, small=False)
    assert labels == ["3\n0.5 L", "6\nL", "7\n", "", "9\n1.5 L", "12\n2 L", "18\n3 L", "24\n4 L", "30\n5 L", "60\n10 L"]
    small = plot.tick_labels(column, small=True)
    assert "6\nL" in small and small[-1] == "60" and "" in small


def test_an_encoding_looks_the_same_on_every_task_and_no_two_look_alike():
    of = suite(seeds=[0], encodings=[f"e{i}" for i in range(12)])
    found = only(of, full(of, {e: (1, 1, 0.5, 0) for e in of.encodings})[::-1])
    known = pictures.styles(found)
    assert list(known) == of.encodings
    assert len(set(known.values())) == 12
    for task in ("parity", "sorting"):
        _, lines = drawn(found, task)
        assert [line.get_color() for line in lines.values()] == [s.colour for s in known.values()]


def test_colours_stay_apart_for_the_colour_blind():
    """Deuteranopia and protanopia as in Viénot et al. 1999, on linear RGB; distances as in CIE 1976."""
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    blind = {
        "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    linear = np.array([to_rgb(c) for c in plot.COLOURS]) ** 2.2
    for name, matrix in blind.items():
        seen = np.clip(linear @ (np.linalg.inv(to_lms) @ matrix @ to_lms).T, 0, 1)
        lab = to_lab(seen)
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + 1e3 * np.eye(len(lab))
        assert apart.min() > 10, (name, apart.min())


def to_lab(linear):
    xyz = linear @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    f = np.cbrt(np.maximum(xyz / np.array([0.9505, 1, 1.089]), 0.008856))
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


def test_more_encodings_than_styles_leave_the_weakest_grey():
    of = suite(seeds=[0], encodings=[f"e{i}" for i in range(15)])
    found = only(of, full(of, {e: (1, 1, i / 20, 0) for i, e in enumerate(of.encodings)}))
    known = pictures.styles(found)
    assert [name for name, style in known.items() if style.colour == plot.GREY] == ["e0", "e1", "e2"]
    assert list(known)[:3] == ["e0", "e1", "e2"]  # drawn first, so below
    _, lines = drawn(found, "sorting")
    handles, labels = plot.keys([column_of(found, "sorting")], lines, {name: name for name in lines}, False)
    assert labels == [*(f"e{i}" for i in range(3, 15)), "3 others", "trained, l ≤ L"]
    assert len(handles) == len(labels)


def test_pictures_are_images_of_the_promised_size():
    found = only(suite(), full(suite(), CURVES))
    files = pictures.draw(found)
    assert list(files) == ["accuracy.png", "accuracy-parity.png", "accuracy-sorting.png"]
    for data in files.values():
        height, width, _ = matplotlib.image.imread(io.BytesIO(data)).shape
        assert 1100 < width < 1400 and 300 < height < 1000
        assert b"matplotlib" not in data.lower() and b"tIME" not in data


def test_bytes_are_the_same_in_another_process_with_other_settings(tmp_path):
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
        "from test_board_pictures import *\n"
        "files = pictures.draw(only(suite(), full(suite(), CURVES)))\n"
        "print({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})"
    )
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.size: 20\nlines.linewidth: 9\nsavefig.facecolor: black\n")
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    printed = [
        subprocess.check_output(command, env=env, text=True) for env in ({}, {"MATPLOTLIBRC": str(rc), "PYTHONHASHSEED": "7"})
    ]
    assert printed[0] == printed[1] and printed[0].count(".png") == 3


def test_drawing_leaves_settings_as_they_were():
    with matplotlib.rc_context({"font.size": 17}):
        pictures.draw(only(suite(), [result(suite())]))
        assert matplotlib.rcParams["font.size"] == 17


def test_hostile_names_are_drawn_as_they_are():
    of = suite(seeds=[0], encodings=["nope"])
    names = ["_under", "$x^{$", "a\nb", "\x1b[31m", "漢字", "w" * 300, "\\frac"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = pictures.draw(only(of, full(of, {name: (1, 1, 0.5, 0) for name in names})))
    assert len(files) == 3
    assert plot.label("w" * 300) == "w" * 27 + "…"


def test_file_names_cannot_leave_the_folder():
    assert pictures.file_name("key_retrieval") == "accuracy-key_retrieval.png"
    assert pictures.file_name("../../x") == "accuracy-..%2F..%2Fx.png"


def test_no_runs_no_pictures():
    of = suite()
    empty, _ = grid.build(of, [result(of, fingerprint="older")], {})
    assert pictures.draw(empty) == {}
