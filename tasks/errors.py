"""User errors, reported in one line without a traceback, and the words of messages.

Every package raises ``InputError`` (or a subclass) for invalid input; the command line prints its message on one line and exits
with code 2. Any other exception is a bug of lprime and keeps its traceback.
"""

import difflib
import re
from collections.abc import Iterable

BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters that show nothing and that Python counts as printable: of Unicode's Default_Ignorable_Code_Point, and the blank of
Braille."""


class InputError(ValueError):
    """Invalid input. The message states what was given, what was expected and the nearest match, if any. It may quote the text
    of a stranger, so it is ``printable``."""

    def __init__(self, message: str):
        super().__init__("\n".join(map(printable, str(message).split("\n"))))


def printable(text: str) -> str:
    """Text with escapes in place of control and invisible characters, which could move the cursor or hide other text."""
    return "".join(c if c.isprintable() and not BLANK.match(c) else c.encode("unicode_escape").decode() for c in text)


def unknown(kind: str, given: str, known: Iterable[str]) -> InputError:
    """Return the error for a name that is not in ``known``: ``unknown task 'sortin'; did you mean 'sorting'?``.

    Upper and lower case count as equal.
    """
    names = list(known)
    by_lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(str(given).lower(), by_lower, n=1, cutoff=0.5)
    listed = ", ".join([*names[:12], *["…"] * (len(names) > 12)])
    hint = f"did you mean {by_lower[close[0]]!r}?" if close else f"expected one of: {listed}" if names else "there is none"
    return InputError(f"unknown {kind} {str(given)!r}; {hint}")


def plural(count: int, noun: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{count} {noun}{'s' * (count != 1)}"
