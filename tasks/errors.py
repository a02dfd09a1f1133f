"""Errors that are the user's to mend: one clear line, no traceback.

Every package raises ``InputError`` (or a subclass) for bad input; the command line prints its message as one line and exits
with code 2. Anything else that escapes is a defect of ours and keeps its traceback.
"""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: the message says what was given, what was expected and, where there is one, the nearest match."""


def unknown(kind: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among ``known``: ``unknown task 'sortin'; did you mean 'sorting'?``."""
    names = list(known)
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of: {', '.join(names)}"
    return InputError(f"unknown {kind} {str(given)!r}; {hint}")
