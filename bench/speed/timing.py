"""Interleaved timing: contestants take turns, so that drift (clock rate, temperature, other processes) affects all alike."""

import sys
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from .plan import Budget

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def interleave(
    contestants: Mapping[K, Callable[[T], object]],
    prepare: Callable[[int], T],
    budget: Budget,
    warm_up: T,
    wait: Callable[[], None] = lambda: None,
    turn: int = 1,
) -> dict[K, list[float]]:
    """Return the wall seconds of every call of every contestant.

    Arguments:
        prepare: maps a number to an input, which all contestants get; not timed.
        warm_up: input of an untimed first call.
        wait: called at the end of each call and timed with it: on a GPU, until its work is done.
        turn: calls of a contestant in each round. If there are several, the first is not counted: it finds the caches as the
            contestant before left them, which matters where a call takes a millisecond.
    """
    names = list(contestants)
    times: dict[K, list[float]] = {name: [] for name in names}
    for run in contestants.values():
        run(warm_up)
    start, rounds = time.perf_counter(), 0
    while rounds < budget.rounds or time.perf_counter() - start < budget.seconds:
        given = [prepare(rounds * turn + call) for call in range(turn)]
        first = rounds % len(names)  # rotate the order by one each round
        for name in names[first:] + names[:first]:
            for call, value in enumerate(given):
                before = time.perf_counter()
                contestants[name](value)
                wait()
                if call or turn == 1:
                    times[name].append(time.perf_counter() - before)
        rounds += 1
    return times


def log(text: str) -> None:
    """Report progress on stderr."""
    print(text, file=sys.stderr, flush=True)
