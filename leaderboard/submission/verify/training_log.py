"""Checks of the training log: steps, losses and times are plausible, and no run is a copy of another."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import combinations, product

import numpy as np

from bench.encodings import Stage
from bench.plugins.references import encoding_chain
from bench.result import Result
from bench.training.train import LOG_POINTS
from leaderboard.submission.manifest import submitted_source_hash

from .submission_checks import Expected, SubmissionData, label, raise_faults, submission_check
from .text_fields import parse_date

LEARNED, FALLEN = 0.9, 0.5
"""If exact match at l ≤ L is at least the first, the loss must have fallen below the second share of its initial value."""
HIGHEST_LOSS = 1000.0
"""Nats per token; the highest among published and archived results is 9."""
FASTEST_MS = 0.1
"""Shortest plausible time of a training step."""
ROUNDING_S, CLOCK_S = 0.05, 2.0
"""Rounding errors of sums of seconds, and of dates to the second."""
SLACK = 1.01
"""Factor by which sums of times may exceed their total."""
COPIED, ROUNDED = 0.2, 1e-4
"""Two curves with this share of equal losses are copies; losses below ``ROUNDED`` may be equal by rounding."""
CLOSE, HALF, MOST = 3e-4, 0.5, 0.8
"""Relative difference of close losses, and the shares of them that only copies have."""
SAME_SHARE = 0.01
"""Difference of nearly equal accuracies. No two encodings of version 2 of suite `small` have nearly equal losses and scores."""


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
    expected="no two seeds of a task have nearly the same loss curve, no run is nearly one of another encoding on the board, "
    "and a published name keeps its source",
    advice="run every seed; if your encoding gives the numbers of one on the board, it is the same encoding; give changed "
    "source a new name",
)
def check_copies(data: SubmissionData) -> str:
    faults = []
    for runs in data.by_task.values():
        faults += [f"{label(b)} is a copy of {label(a)}" for a, b in combinations(runs, 2) if same_losses(a, b)]
    faults += list(published_copies(data.results, data)) + list(taken_names(data))
    raise_faults(faults)
    board = other_runs(data)
    # An encoding that differs from another only past L has the same losses, but other scores.
    twins = sorted({b.encoding.name for a in data.results for b in board if a.task == b.task and same_losses(a, b)})
    others = f"; same losses, but other scores than {', '.join(twins)}" if twins else ""
    return f"no copies among the runs, nor of {len(board)} runs on the board{others}"


def other_runs(data: SubmissionData) -> list[Result]:
    """The runs on the board that are of this suite and of other encodings."""
    runs = [r for r in data.published if r.fingerprint == data.suite.fingerprint]
    return [r for r in runs if r.encoding.name != data.submission.name]


def published_copies(runs: Sequence[Result], data: SubmissionData) -> Iterator[str]:
    """Runs whose losses and scores are nearly those of a run on the board."""
    for run, other in product(runs, other_runs(data)):
        if run.task == other.task and same_losses(run, other) and same_scores(run, other):
            yield f"{label(run)} is a copy of the published {label(other)} of {other.encoding.name}"


def taken_names(data: SubmissionData) -> Iterator[str]:
    """Published names of this plugin, of any suite and with any settings, whose source is not the submitted one."""
    plugin = data.submission.plugin.name
    for name, digest in sorted({(r.encoding.name, r.encoding.source_sha256) for r in data.published}):
        if plugin not in encoding_chain(name):
            continue
        try:
            own = submitted_source_hash(data.submission.model_copy(update={"name": name}), data.contents.sources)
        except ValueError:  # the name has another plugin in it, whose source is not here
            continue
        if digest != own:
            yield f"{name} is published with source {digest[:12]}, which is not this source"


def same_losses(one: Result, other: Result) -> bool:
    """Whether a fifth of the losses are equal, half are close, or most are close when scaled or shifted by one number.

    ``RULES.md`` says how near published seeds are to that. Those of `language` differ least: with ten times ``CLOSE``, some
    pairs have 80 % of their losses close. So a copy whose losses are changed at random by more than ``CLOSE``, 0.03 %, is not
    seen.
    """
    theirs = dict(other.loss)
    pairs = [(loss, theirs[step]) for step, loss in one.loss if min(loss, theirs.get(step, 0.0)) > ROUNDED]
    if not pairs:
        return False
    a, b = np.array(pairs).T
    if np.mean(a == b) >= COPIED or share_close(a, b) >= HALF:
        return True
    moved = max(share_close(a, b * np.median(a / b)), share_close(a, b + np.median(a - b)))
    return len(pairs) > 4 and moved >= MOST


def share_close(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean(np.abs(a - b) <= CLOSE * np.abs(b)))


def same_scores(one: Result, other: Result) -> bool:
    """Whether all scores are nearly equal: accuracies within 1 % of the examples, log-likelihoods within 2 %."""

    def close(a: float | None, b: float | None) -> bool:
        return a is None or b is None or math.isclose(a, b, rel_tol=2 * SAME_SHARE, abs_tol=1e-4)

    return len(one.scores) == len(other.scores) and all(
        abs(a.exact - b.exact) <= SAME_SHARE and abs(a.token - b.token) <= SAME_SHARE and close(a.nll, b.nll)
        for a, b in zip(one.scores, other.scores, strict=True)
    )
