"""How training went: steps, losses and times, and whether two runs are one that was copied."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import combinations

import numpy as np

from bench.check.subject import Fault
from bench.encodings import Stage
from bench.results import Result
from bench.train import LOG_POINTS

from .subject import Expected, Subject, label, listed, named
from .text import date

LEARNED, FALLEN = 0.9, 0.5
"""Who is right about so many examples at l ≤ L has a loss that once fell under this share of what it was at first."""
HIGHEST_LOSS = 1000.0
"""In nats a token; the highest mean among those we published is 13."""
FASTEST_MS = 0.1
"""A step of any model is more calls than fit into this."""
ROUNDING_S, CLOCK_S = 0.05, 2.0
"""What sums of rounded seconds, and of dates to the second, may be off by."""
SLACK = 1.01
ALIKE, ROUNDED = 0.2, 1e-4
"""Share of equal losses from which on two curves are one; smaller losses may be equal by rounding."""


@named(
    "training",
    expected="steps are those of the recipe (and of a further stage of at most 1 %), losses stand where the harness notes them "
    "and fell where the task was learned",
    advice="results come from `lprime run` as it is, and no number of them is changed",
)
def training(subject: Subject) -> str:
    faults = []
    for task, runs in subject.by_task.items():
        for run in runs:
            faults += [f"{label(run)}: {fault}" for fault in implausible_course(run, subject.expected[task])]
    if faults:
        raise Fault(listed(faults))
    diverged = sum(r.status == "diverged" for r in subject.results)
    return "as the recipe has it" + (f"; {diverged} diverged" if diverged else "")


def implausible_course(run: Result, expected: Expected) -> Iterator[str]:
    extra = math.floor(expected.steps * Stage().share) if run.longest_seen > run.train_length else 0
    end = expected.steps + extra
    if not (0 <= run.steps < end if run.status == "diverged" else expected.steps <= run.steps <= end):
        yield f"{run.status} after {run.steps:,} steps; the recipe has {expected.steps:,}" + (
            f" and {extra} more" if extra else ""
        )
        return
    stretch = max(1, expected.steps // LOG_POINTS)
    noted = list(range(stretch, run.steps + 1, stretch))
    if run.status == "done" and noted[-1:] != [run.steps]:
        noted.append(run.steps)
    if [step for step, _ in run.loss] != noted:
        yield f"losses stand at {len(run.loss)} steps; expected every {stretch}, and the last"
        return
    losses = [loss for step, loss in run.loss if step <= expected.steps]
    if any(not 0 <= loss <= HIGHEST_LOSS for _, loss in run.loss):
        yield "a loss is negative, or beyond all measure"
    elif losses:
        # The first entry is a mean that holds the first step's loss, when nothing is known and all tokens are about as likely.
        if losses[0] * stretch < 0.5 * math.log(len(expected.task.vocabulary)):
            yield f"a first loss of {losses[0]:.3g} is less than the very first step alone can have"
        right = float(np.mean([s.exact for s in run.in_distribution]))
        if run.status == "done" and right >= LEARNED and min(losses) > FALLEN * losses[0]:
            yield f"right in {right:.0%} at l ≤ L, but its loss never fell under {min(losses):.3g} from {losses[0]:.3g}"


@named(
    "timings",
    expected="times are positive and add up, and dates stand in order",
    advice="results come from `lprime run` as it is, and no number of them is changed",
)
def timings(subject: Subject) -> str:
    made = date(subject.submission.made)
    faults = [f"{label(run)}: {fault}" for run in subject.results for fault in implausible_times(run)]
    late = [label(r) for r in subject.results if made and (end := date(r.finished)) and end > made]
    faults += [f"finished after the submission was made: {listed(late)}"] if late else []
    if faults:
        raise Fault(listed(faults))
    total = sum(r.timings.total_s for r in subject.results)
    devices = sorted({r.device for r in subject.results})
    dirty = sum((r.commit or "").endswith("-dirty") for r in subject.results)
    caution = f"; caution: {dirty} made by a changed harness (commit …-dirty)" if dirty else ""
    return f"{timedelta(seconds=round(total))} in all on {', '.join(devices)}{caution}"


def implausible_times(run: Result) -> Iterator[str]:
    times = run.timings
    if min(times.step_ms, times.train_s, times.evaluate_s, times.total_s) < 0 or times.total_s == 0:
        yield "a time is negative, or nothing"
        return
    if run.loss and times.step_ms < FASTEST_MS:
        yield f"{times.step_ms} ms a step is faster than any machine"
    if times.train_s + times.evaluate_s > SLACK * times.total_s + ROUNDING_S:
        yield f"{times.train_s} s of training and {times.evaluate_s} s of tests in {times.total_s} s"
    # Half of the stretches took the median or longer.
    if run.steps * times.step_ms / 1e3 > 2.5 * times.train_s + ROUNDING_S:
        yield f"{run.steps:,} steps of {times.step_ms} ms in {times.train_s} s of training"
    if times.cpu_share is not None and not 0 <= times.cpu_share <= 1.5:
        yield f"a share of {times.cpu_share} of a core"
    start, end = date(run.started), date(run.finished)
    if start is None or end is None:
        return  # told by `names`
    if start > end:
        yield f"finished {run.finished}, before it started"
    elif times.total_s > SLACK * (end - start).total_seconds() + CLOCK_S:
        yield f"{times.total_s} s of work between {run.started} and {run.finished}"


@named(
    "copies",
    expected="no two seeds of a task have one loss curve, and no run is one of the board under another name",
    advice="run every seed; if your encoding gives the very numbers of one on the board, it is that one",
)
def copies(subject: Subject) -> str:
    faults = []
    for runs in subject.by_task.values():
        faults += [f"{label(b)} is {label(a)} once more" for a, b in combinations(runs, 2) if copied(a, b)]
    board = [r for r in subject.published if r.fingerprint == subject.suite.fingerprint]
    board = [r for r in board if r.encoding.name != subject.submission.name]
    # Who changes something past L alone trains as another does, and differs in scores.
    twins = [
        (mine, theirs) for mine in subject.results for theirs in board if mine.task == theirs.task and copied(mine, theirs)
    ]
    faults += [f"{label(a)} is {label(b)} of {b.encoding.name}, as published" for a, b in twins if a.scores == b.scores]
    if faults:
        raise Fault(listed(faults))
    alike = f"; same losses, other scores than {', '.join(sorted({b.encoding.name for _, b in twins}))}" if twins else ""
    return f"none, nor of {len(board)} runs on the board{alike}"


def copied(one: Result, other: Result) -> bool:
    """Are these the losses of one run? Equal in a fifth of the places, or all of them scaled or moved by one number."""
    theirs = dict(other.loss)
    places = [(loss, theirs[step]) for step, loss in one.loss if min(loss, theirs.get(step, 0.0)) > ROUNDED]
    pairs = np.array(places).reshape(-1, 2)
    if len(pairs) == 0:
        return False
    mine, yours = pairs.T
    return np.mean(mine == yours) >= ALIKE or (len(pairs) > 4 and (steady(mine / yours) or steady(mine - yours)))


def steady(values: Sequence[float] | np.ndarray) -> bool:
    return float(np.ptp(values)) <= 1e-6 * float(np.max(np.abs(values)))
