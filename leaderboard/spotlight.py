"""Which few encodings stand out where there are too many to tell apart, and what they look like."""

from collections.abc import Mapping, Sequence

from .curves import Style, styles
from .summary import Row

REFERENCES = ("nope", "sinusoidal", "learned", "t5", "alibi", "rope")
"""Those that a reader knows, and looks for."""
ALL = 8
"""Up to so many encodings, all stand out."""
BEST = 4


def spotlight(
    classes: Mapping[str, Sequence[Row]], references: Sequence[str] = REFERENCES, best: int = BEST, all_up_to: int = ALL
) -> dict[str, Style]:
    """Encoding → style: the first of the main ranking and the references; all in the order of the tables if they are few.

    Arguments:
        classes: as ``summarise`` gives them. Those ranked apart stand out only where all do.
    """
    drawable = [row.name for rows in classes.values() for row in rows if row.record]
    if len(drawable) <= all_up_to:
        return styles(drawable)
    first = [row.name for row in classes.get("standard", ()) if row.record and row.complete][:best]
    return styles(first + [name for name in references if name in drawable and name not in first])


def apart(classes: Mapping[str, Sequence[Row]]) -> frozenset[str]:
    """Those that are not ranked with the others."""
    return frozenset(row.name for name, rows in classes.items() if name != "standard" for row in rows)
