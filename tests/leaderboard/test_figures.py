"""Figures: legible on white and on black, the right numbers in the right place, the same bytes for the same numbers."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib.colors
import numpy as np
import pytest
from synthetic_results import CURVE, board, full, result, suite

from leaderboard.figures import plots
from leaderboard.figures.style import COLOURS, FAINT, INK, SMALL, as_svg, colour

CURVES = {
    "nope": CURVE, "rope": (1, 1, 0, 0), "alibi": (1, 1, 1, 1), "t5": (1, 1, 0.75, 0.5), "shaw": (1, 1, 0.9, 0.2),
    "fire": (1, 1, 0.6, 0.6), "my$e^{|pe": (1, 1, 0.3, 0.1),
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    found = board(full(suite(), CURVES))
    found.rows["step_time"] = np.linspace(1, 2, len(found.rows))
    found.rows["text"] = np.linspace(3, 2, len(found.rows))
    return found


@pytest.fixture(scope="module")
def drawn(made):
    rows = made.rows
    return {
        "overview": plots.overview(made, rows.head(3), rows.tail(2), "Three lead"),
        "curves": plots.curves(made, ["alibi", "t5", "fire", "shaw", "nope", "rope"], "Curves"),
        "one": plots.one_encoding(made, "my$e^{|pe", [[0.9, 0.1, 0.0], [0.5, 0.25, 0.25]]),
    }


def luminance(rgb):
    """Relative luminance of an sRGB colour, as WCAG 2 defines it; parts are from 0 to 1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink, paper):
    light, dark = sorted((luminance(matplotlib.colors.to_rgb(one)) for one in (ink, paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("paper", ["#ffffff", "#0d1117"])
def test_text_and_lines_are_legible_on_white_and_on_black(paper):
    """WCAG 2: 3 for graphics and large or bold text."""
    assert contrast(INK, paper) >= 4
    for name in [*COLOURS, *(f"encoding {n}" for n in range(200))]:
        assert contrast(colour(name), paper) >= 3, name


def test_a_figure_is_one_transparent_svg_with_large_text(made, drawn):
    again = as_svg(plots.one_encoding(made, "my$e^{|pe", [[0.9, 0.1, 0.0], [0.5, 0.25, 0.25]]))
    for name, figure in drawn.items():
        data = as_svg(figure)
        assert name != "one" or data == again, "the same bytes again"
        root = ET.fromstring(data)
        assert float(root.get("width").removesuffix("pt")) == pytest.approx(9.2 * 72)
        page = root.find(".//*[@id='patch_1']")
        assert page is None or "fill: none" in (style := page[0].get("style") or "") or "opacity: 0" in style
        sizes = [float(size) for size in re.findall(rb"font-size: ([\d.]+)px", data)]
        assert len(sizes) > 5 and min(sizes) >= SMALL, "points: 9 are 12 pixels"
        assert all(b"sans-serif" in one for one in re.findall(rb"font-family: [^;]*", data))


def test_the_overview_shows_scores_and_limits(made, drawn):
    texts = [text.get_text() for axes in drawn["overview"].axes for text in axes.texts]
    first = made.rows.iloc[0]
    assert first["encoding"] == "alibi" and {"alibi", "≥2.0", f"{first['step_time']:.2f}", f"{first['text']:.2f}"} <= set(texts)
    scores = drawn["overview"].axes[1]
    dots = [line.get_xdata()[0] for line in scores.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([*made.rows["score"].head(3), *made.rows["score"].tail(2)])


def test_a_panel_has_at_most_five_colours_and_labels_at_the_ends_of_lines(made, drawn):
    sorting = next(axes for axes in drawn["curves"].axes if axes.get_title(loc="left") == "Sorting")
    strong = [line for line in sorting.lines if line.get_color() in map(colour, CURVES)]
    assert len(strong) == plots.MOST_LINES
    labels = {text.get_text(): text.xy for text in sorting.texts}
    assert set(labels) == {"alibi", "t5", "fire", "shaw", "nope"}
    chance = 1 / 479001600  # 12!
    for name, (x, y) in labels.items():
        assert (x, y) == pytest.approx((2, (CURVES[name][-1] - chance) / (1 - chance)), abs=1e-6)
    grey = [line for line in sorting.lines if line.get_color() == FAINT]
    assert len(grey) == 1 and np.isnan(grey[0].get_ydata()).sum() == 2, "rope and the other one"


def test_labels_do_not_overlap(drawn):
    figure = drawn["curves"]
    figure.savefig(io.BytesIO())
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text() in CURVES]
        for n, a in enumerate(boxes):
            assert all(a.y0 >= b.y1 - 1 or b.y0 >= a.y1 - 1 for b in boxes[:n])


def test_an_encoding_with_a_part_of_the_tasks_has_a_figure():
    found = board([*full(suite(), {"nope": CURVE}), result(suite(), "parity", "rope", 0)])
    assert b"rope" in as_svg(plots.one_encoding(found, "rope"))
