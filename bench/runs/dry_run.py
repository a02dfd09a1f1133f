"""``lprime run --dry-run``: what would run on this machine, and its estimated time, as lines of text. Nothing is written."""

from collections.abc import Sequence
from pathlib import Path

from tasks import plural

from .estimate import Estimate, duration, estimate
from .progress import format_duration
from .run import Run
from .shared_training import steps_to_make


def local_dry_run(runs: Sequence[Run], out: Path, device: str, workers: int) -> list[str]:
    """What would run on this machine.

    Arguments:
        runs: of one suite.
    """
    found = estimate(runs, out, device)
    total, at_once, name = duration(list(found.seconds.values()), workers), min(workers, len(runs)), runs[0].suite.name
    return [
        f"{plural(len(runs), 'run')} of suite {name} on this machine ({device}), results under {out / name}",
        time_of_a_run(found, out),
        f"about {span(total)} with {at_once} at a time",
    ]


def time_of_a_run(found: Estimate, out: Path) -> str:
    """The shortest and the longest estimated time, and their basis; runs that load their training and only evaluate are named
    separately."""
    steps = steps_to_make(list(found.seconds), out)
    parts = []
    for what, trains in (("a run", True), ("a run that only evaluates", False)):
        if times := [s for run, s in found.seconds.items() if bool(steps[run]) == trains]:
            shortest, longest = span(min(times)), span(max(times))
            parts.append(f"{what} takes {shortest if shortest == longest else f'{shortest} to {longest}'}")
    basis = "guessed from the FLOPs" if found.guessed else "from finished runs of the same tasks"
    return f"{', '.join(parts)} ({basis})"


def span(seconds: float) -> str:
    """``8 s``, ``2:03 minutes`` or ``6:10 hours``; at least ``1 s``, since no estimate is finer."""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 3599.5:
        return f"{format_duration(seconds)} minutes"
    return f"{format_duration(60 * round(seconds / 60)).removesuffix(':00')} hours"
