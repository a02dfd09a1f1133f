"""The two looks of every figure, light and dark: colours by role."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """Colours by role. Backgrounds are painted, not transparent, so that a figure opened on its own is readable."""

    name: str
    background: str
    text: str
    muted: str
    """Axes, tick labels and notes."""
    grid: str
    grey: str
    """Curves without a name, for comparison."""
    shade: str
    """Lengths seen in training."""
    tuned_shade: str
    """Lengths seen only in a stage after training."""
    flag: str
    """Warning corner of a cell; visible on any colour of ``heat``."""
    colours: tuple[str, ...]
    """Line colours. Contrast with the background is at least 3:1 (WCAG 2.2, non-text contrast). Distinguishable under protan-,
    deuter- and tritanopia: Okabe & Ito's hues (2008), moved by a search that maximises the smallest distance in OKLab."""
    heat: tuple[str, ...]
    """Colour map of scores, from 0 to 1."""


LIGHT = Theme(
    name="light",
    background="#FFFFFF",
    text="#1F2328",
    muted="#59636E",
    grid="#E4E7EB",
    grey="#C2C8CF",
    shade="#F1F3F5",
    tuned_shade="#E3EEF9",
    flag="#E5484D",
    colours=("#9E2C02", "#073F97", "#0C817B", "#B0871F", "#F91CC0", "#3092FF", "#1F2328"),
    heat=("#F4F6F8", "#9CC4E4", "#2F79B5", "#08306B"),
)
DARK = Theme(
    name="dark",
    background="#0D1117",
    text="#F0F6FC",
    muted="#9198A1",
    grid="#262C36",
    grey="#444C56",
    shade="#171C23",
    tuned_shade="#10263F",
    flag="#FF5A52",
    colours=("#E8660F", "#74C7FF", "#26A69A", "#F5B60D", "#AE6BFF", "#3E7496", "#F0F6FC"),
    heat=("#161B22", "#1B4B7A", "#3D8FCB", "#C6E4FF"),
)
THEMES = (LIGHT, DARK)


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour ``#rrggbb``, 0 … 1 (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 … 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink(colour: str) -> str:
    """Black or white, whichever reads better on a colour: at least 4.5:1 on any."""
    return max(("#000000", "#FFFFFF"), key=lambda text: contrast(text, colour))
