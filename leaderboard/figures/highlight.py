"""Selects the encodings to highlight where there are too many to distinguish, and their styles."""

from collections.abc import Sequence

from leaderboard.stats.rows import Classes, all_rows

from .panels import Style, styles

REFERENCES = ("nope", "sinusoidal", "learned", "t5", "alibi", "rope")
"""Well-known encodings."""
ALL = 8
"""Up to this many encodings, all are highlighted."""
BEST = 5
"""Encodings highlighted besides ``REFERENCES``: the first of the main ranking."""


def highlighted(
    classes: Classes, references: Sequence[str] = REFERENCES, best: int = BEST, all_up_to: int = ALL
) -> dict[str, Style]:
    """Encoding → style: the best of the main ranking and the references; if there are few encodings, all, in table order.

    Encodings ranked apart are highlighted only where all are.
    """
    drawable = [row.name for row in all_rows(classes) if row.record]
    if len(drawable) <= all_up_to:
        return styles(drawable)
    first = [row.name for row in classes.get("standard", ()) if row.record and row.complete][:best]
    return styles(first + [name for name in references if name in drawable and name not in first])


def ranked_apart(classes: Classes) -> frozenset[str]:
    """Encodings that are not in the main ranking."""
    return frozenset(row.name for name, rows in classes.items() if name != "standard" for row in rows)
