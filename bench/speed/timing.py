"""Contestants by turns, so that whatever drifts (clock rate, temperature, neighbours) meets all of them alike."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from .plan import Budget

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def interleave(
    contestants: Mapping[K, Callable[[T], object]], prepare: Callable[[int], T], budget: Budget, warm: T
) -> dict[K, list[float]]:
    """Wall seconds of every turn of every contestant.

    Arguments:
        prepare: the round's number → what all contestants are given in that round; not timed.
        warm: what each is given once beforehand, not timed.
    """
    names = list(contestants)
    times: dict[K, list[float]] = {name: [] for name in names}
    for run in contestants.values():
        run(warm)
    start, rounds = time.perf_counter(), 0
    while rounds < budget.rounds or time.perf_counter() - start < budget.seconds:
        given = prepare(rounds)
        first = rounds % len(names)  # who runs after whom changes from round to round
        for name in names[first:] + names[:first]:
            before = time.perf_counter()
            contestants[name](given)
            times[name].append(time.perf_counter() - before)
        rounds += 1
    return times
