"""Text of figures: font sizes, width in points, and text broken or shortened to a width."""

import warnings
from collections.abc import Sequence
from functools import lru_cache

from leaderboard.format import printable

SMALL, NORMAL, LARGE = 7.0, 8.5, 11.0
"""Font sizes, points."""
LINE = 1.22
"""Line height, in font sizes."""
POINT = 1 / 72
"""A point in inches."""
BREAKS = "(,_ "
"""Characters in a name after which a line may end."""


@lru_cache(4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Width of a text in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
        return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Lines of at most ``width`` points, broken at blanks; a longer word gets its own line and is shortened."""
    lines = [""]
    for word in text.split(" "):  # not at no-break spaces
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitted(line, width, size) for line in lines if line]


def fitted(text: str, width: float, size: float, bold: bool = False, suffix: str = "") -> str:
    """Text with its middle replaced by ``…`` as far as needed for text and suffix to be at most ``width`` points wide."""
    shown, kept = text, len(text)
    while text_width(shown + suffix, size, bold) > width and kept > 2:
        kept -= 1
        shown = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2 - 1) :]}"
    return shown + suffix


def folded(name: str, width: float, size: float, bold: bool = False, suffix: str = "") -> list[str]:
    """A name in one or two lines of at most ``width`` points, broken after punctuation if there is any, otherwise shortened.

    Arguments:
        suffix: ends the last line, even if the name is shortened.
    """

    def fits(text: str) -> bool:
        return text_width(text, size, bold) <= width

    shown = printable(name)
    if fits(shown + suffix):
        return [shown + suffix]
    breaks = [i + 1 for i, c in enumerate(shown[:-1]) if c in BREAKS and fits(shown[: i + 1])]
    if not breaks:
        return [fitted(shown, width, size, bold, suffix)]
    at = next((i for i in reversed(breaks) if fits(shown[i:] + suffix)), breaks[-1])
    return [shown[:at].rstrip(), fitted(shown[at:], width, size, bold, suffix)]


def sentences(parts: Sequence[str]) -> str:
    """``One thing. Another.`` from ``one thing`` and ``another``."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)
