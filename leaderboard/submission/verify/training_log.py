"""Checks of the training log: steps, losses and times are plausible, and no run is a copy of another."""

import math
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations

import numpy as np

from bench.encodings import Stage
from bench.result import Result
from bench.training.train import LOG_POINTS

from .submission_checks import Expected, SubmissionData, label, raise_faults, submission_check
from .text_fields import parse_date

LEARNED, FALLEN = 0.9, 0.5
"""If exact match at l ≤ L is at least the first, the loss must have fallen below the second share of its initial value."""
HIGHEST_LOSS = 1000.0
"""Nats per token; the highest among published results is 13."""
FASTEST_MS = 0.1
"""Shortest plausible time of a training step."""
ROUNDING_S, CLOCK_S = 0.05, 2.0
"""Rounding errors of sums of seconds, and of dates to the second."""
SLACK = 1.01
"""Factor by which sums of times may exceed their total."""
COPIED, ROUNDED = 0.2, 1e-4
"""Two curves with this share of equal losses are copies; losses below ``ROUNDED`` may be equal by rounding."""


@submission_check(
    "training",
    expected="steps are those of the recipe (plus those of a further stage), losses are logged at the harness's "
    "interval, and fell where the task was learned",
    advice="submit unchanged results of `lprime run`",
)
def check_training(data: SubmissionData) -> str:
    raise_faults([f"{label(run)}: {fault}" for run, expected in data.pairs for fault in training_faults(run, expected)])
    diverged = sum(r.status == "diverged" for r in data.results)
    return "as in the recipe" + (f"; {diverged} diverged" if diverged else "")


def training_faults(run: Result, expected: Expected) -> Iterator[str]:
    extra = math.floor(expected.steps * Stage().share) if run.longest_seen > run.train_length else 0
    end = expected.steps + extra
    if not (0 <= run.steps < end if run.status == "diverged" else expected.steps <= run.steps <= end):
        yield f"{run.status} after {run.steps:,} steps; the recipe has {expected.steps:,}" + (
            f" and {extra} more" if extra else ""
        )
        return
    interval = max(1, expected.steps // LOG_POINTS)
    logged = list(range(interval, run.steps + 1, interval))
    if run.status == "done" and logged[-1:] != [run.steps]:
        logged.append(run.steps)
    if [step for step, _ in run.loss] != logged:
        yield f"losses are logged at {len(run.loss)} steps; expected every {interval} steps, and the last"
        return
    losses = [loss for step, loss in run.loss if step <= expected.steps]
    if any(not 0 <= loss <= HIGHEST_LOSS for _, loss in run.loss):
        yield f"a loss is negative, or more than {HIGHEST_LOSS:g}"
    elif losses:
        # The first entry is a mean that includes the first step, whose loss is that of about equal probabilities of all tokens.
        if losses[0] * interval < 0.5 * math.log(len(expected.task.vocabulary)):
            yield f"a first loss of {losses[0]:.3g} is too small, since it includes the untrained model's"
        exact = float(np.mean([s.exact for s in run.in_distribution]))
        if run.status == "done" and exact >= LEARNED and min(losses) > FALLEN * losses[0]:
            yield f"exact match is {exact:.0%} at l ≤ L, but the loss never fell below {min(losses):.3g} from {losses[0]:.3g}"


@submission_check(
    "timings",
    expected="times are positive and add up, and dates are in order",
    advice="submit unchanged results of `lprime run`",
)
def check_timings(data: SubmissionData) -> str:
    made = parse_date(data.submission.made)
    faults = [f"{label(run)}: {fault}" for run in data.results for fault in timing_faults(run)]
    late = [run for run in data.results if made and (end := parse_date(run.finished)) and end > made]
    raise_faults(faults + [f"{label(run)}: finished after the submission was written" for run in late])
    total = sum(r.timings.total_s for r in data.results)
    devices = sorted({r.device for r in data.results})
    dirty = sum((r.commit or "").endswith("-dirty") for r in data.results)
    caution = f"; caution: {dirty} runs have uncommitted changes of the harness (commit …-dirty)" if dirty else ""
    return f"{timedelta(seconds=round(total))} in total on {', '.join(devices)}{caution}"


def timing_faults(run: Result) -> Iterator[str]:
    times = run.timings
    if min(times.step_ms, times.train_s, times.evaluate_s, times.total_s) < 0 or times.total_s == 0:
        yield "a time is negative or zero"
        return
    if run.loss and times.step_ms < FASTEST_MS:
        yield f"{times.step_ms} ms per step is faster than any machine"
    own_s = times.evaluate_s + (0 if run.trained_as else times.train_s)  # a shared training takes no time of this run
    if own_s > SLACK * times.total_s + ROUNDING_S:
        yield f"{times.train_s} s of training and {times.evaluate_s} s of evaluation in {times.total_s} s"
    # step_ms is a median: half of the logging intervals took as long or longer.
    if run.steps * times.step_ms / 1e3 > 2.5 * times.train_s + ROUNDING_S:
        yield f"{run.steps:,} steps of {times.step_ms} ms in {times.train_s} s of training"
    if times.cpu_share is not None and not 0 <= times.cpu_share <= 1.5:
        yield f"a share of {times.cpu_share} of a core"
    start, end = parse_date(run.started), parse_date(run.finished)
    if start is None or end is None:
        return  # a fault of `names`
    if start > end:
        yield f"finished {run.finished}, before it started"
    elif times.total_s > SLACK * (end - start).total_seconds() + CLOCK_S:
        yield f"{times.total_s} s of work between {run.started} and {run.finished}"


@submission_check(
    "copies",
    expected="no two seeds of a task have the same loss curve, and no run is a copy of one on the board",
    advice="run every seed; if your encoding gives exactly the numbers of one on the board, it is the same encoding",
)
def check_copies(data: SubmissionData) -> str:
    faults = []
    for runs in data.by_task.values():
        faults += [f"{label(b)} is a copy of {label(a)}" for a, b in combinations(runs, 2) if same_losses(a, b)]
    board = [r for r in data.published if r.fingerprint == data.suite.fingerprint]
    board = [r for r in board if r.encoding.name != data.submission.name]
    # An encoding that differs from another only past L has the same losses, but other scores.
    twins = [(a, b) for a in data.results for b in board if a.task == b.task and same_losses(a, b)]
    copies = [(a, b) for a, b in twins if a.scores == b.scores]
    faults += [f"{label(a)} is a copy of the published {label(b)} of {b.encoding.name}" for a, b in copies]
    raise_faults(faults)
    others = f"; same losses, but other scores than {', '.join(sorted({b.encoding.name for _, b in twins}))}" if twins else ""
    return f"no copies among the runs, nor of {len(board)} runs on the board{others}"


def same_losses(one: Result, other: Result) -> bool:
    """Whether a fifth of the losses are equal, or all are scaled or shifted by one number."""
    theirs = dict(other.loss)
    pairs = [(loss, theirs[step]) for step, loss in one.loss if min(loss, theirs.get(step, 0.0)) > ROUNDED]
    if not pairs:
        return False
    a, b = np.array(pairs).T
    return np.mean(a == b) >= COPIED or (len(pairs) > 4 and (nearly_constant(a / b) or nearly_constant(a - b)))


def nearly_constant(values: np.ndarray) -> bool:
    return float(np.ptp(values)) <= 1e-6 * float(np.max(np.abs(values)))
