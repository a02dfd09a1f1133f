"""Colours of the two looks: visible and distinguishable, with colour vision deficiency too."""

import colorsys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from leaderboard.figures import panels, theme
from leaderboard.figures.heatmap import heat_colours

# Machado, Oliveira & Fernandes 2009, "A Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1, on
# linear RGB.
EYES = {
    "trichromat": np.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
LOOKS = pytest.mark.parametrize("look", theme.THEMES, ids=lambda look: look.name)


def linear(colours):
    values = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def oklab(rgb):
    """Ottosson 2020, from linear RGB."""
    return np.cbrt(rgb @ np.array(TO_CONES).T) @ np.array(TO_LAB).T


def nearest(colours, eye):
    """Distance in OKLab of the two colours that this eye sees as the most alike."""
    seen = oklab(np.clip(linear(colours) @ np.array(EYES[eye]).T, 0, 1))
    return (np.linalg.norm(seen[:, None] - seen, axis=-1) + np.eye(len(seen))).min()


@LOOKS
def test_lines_and_texts_stand_out_from_the_background(look):
    for ground in (look.background, look.shade):
        assert min(theme.contrast(c, ground) for c in look.colours) >= 2.8
        assert min(theme.contrast(c, ground) for c in (look.text, look.muted)) >= 4.5
    assert min(theme.contrast(c, look.background) for c in look.colours) >= 3  # WCAG 2.2, 1.4.11
    assert theme.contrast(look.grid, look.background) < theme.contrast(look.grey, look.background) < 3


@LOOKS
@pytest.mark.parametrize("eye", EYES)
def test_colours_are_distinguishable_with_colour_blindness(look, eye):
    assert len(look.colours) == panels.COLOURS
    assert nearest(look.colours, eye) > 0.11
    if eye != "trichromat":
        assert nearest(look.colours, eye) > nearest(OKABE_ITO, eye)


def test_nearest_colours_by_eye():
    assert nearest(["#FF0000", "#9C8500"], "deuteranope") < 0.1 < nearest(["#FF0000", "#9C8500"], "trichromat")
    assert oklab(linear(["#FFFFFF"]))[0] == pytest.approx([1, 0, 0], abs=1e-3)
    assert oklab(linear(["#FF0000"]))[0] == pytest.approx([0.628, 0.2249, 0.1258], abs=1e-3)  # as Ottosson prints it


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_ink_can_be_read_on_any_colour(rgb):
    colour = "#{:02X}{:02X}{:02X}".format(*rgb)
    assert theme.contrast(theme.ink(colour), colour) >= 4.5


def test_contrast_is_that_of_wcag():
    assert theme.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert theme.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)  # the known grey that just fails
    assert theme.contrast("#FFFFFF", "#777777") == theme.contrast("#777777", "#FFFFFF")


@LOOKS
def test_the_flag_stands_out_in_hue_from_all_heat(look):
    flag = colorsys.rgb_to_hls(*(int(look.flag[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    assert (flag[0] < 0.05 or flag[0] > 0.95) and flag[2] > 0.5
    for value in np.linspace(0, 1, 21):
        colour = to_hex(heat_colours(look)(value))
        assert np.linalg.norm(np.diff(oklab(linear([look.flag, colour])), axis=0)) > 0.15
