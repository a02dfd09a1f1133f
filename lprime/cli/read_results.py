"""Read results for commands: names of encodings, and warnings of damaged results."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


def full_name(name: str) -> str:
    """The name under which an encoding's results are stored, if it is given as a file or with settings."""
    from bench.plugins.references import references_in

    if not ("(" in name or references_in(name)):
        return name  # a look-up would load torch
    from bench.plugins.registry import full_name as stored_name

    return stored_name(name)


@contextmanager
def damage_noted() -> Iterator[list[str]]:
    """Print results that are skipped because they are damaged, a line each, and return them."""
    from leaderboard.results import Damaged

    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Damaged)
        yield found
    for one in caught:
        if issubclass(one.category, Damaged):
            found.append(str(one.message))
            print(f"lprime: {one.message}", file=sys.stderr)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
