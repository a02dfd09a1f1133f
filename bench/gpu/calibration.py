"""Trials of candidates, and the choice of a suite's tasks by the criteria in ``bench/suites/CALIBRATION.md``."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import yaml

from bench.files import write_atomic
from bench.result import RESULT, LengthScore, Result, read_result
from bench.runs.run import plan_runs
from bench.suites.suite import Suite, TaskSpec

from .candidates import Candidates, trial_key
from .measurements import Trial
from .throughput import LATE_S, lprime_run, run_to_end

SEEDS = [100, 101]
"""Seeds that the board never uses."""
LEARNED = 0.95
"""Mean exact match over test lengths l ≤ L and the seeds that all encodings but one must reach."""
FLOOR, CEILING, SHARE = 0.02, 0.98, 1 / 3
"""Scores past L under the floor and over the ceiling; largest share of the cells that may be under, and over."""
LENGTHS, SHORTEST = 8, 1.5
"""Fewest test lengths past L that are kept; the least L′, as a multiple of L."""


def run_trial(base: Suite, spec: TaskSpec, workers: int, device: torch.device, end: float, folder: Path) -> Trial:
    """Train every encoding of a suite on a candidate, with one seed after the other, and judge it.

    Arguments:
        end: value of ``time.monotonic()`` at which the trial is given up.

    Raises:
        InputError: ``lprime run`` fails or takes too long; finished runs stay in ``folder``.
    """
    name = f"{base.name}-{trial_key(spec)}"
    suite = base.model_copy(update={"name": name, "tasks": [spec], "seeds": SEEDS, "vary": None})
    out = folder / "trials"
    file = out / f"{name}.yaml"
    write_suite(file, suite)
    found: list[Result] = []
    for seed in SEEDS:
        command = [*lprime_run(str(file), workers, device, out), f"--seed={seed}", "--quiet"]
        run_to_end(command, os.environ, end + LATE_S - time.monotonic())
        found += [read_result(run.folder(out) / RESULT) for run in plan_runs(suite, seeds=[seed])]
        # An encoding under this mean cannot reach LEARNED, even if its other seed is all right.
        if not enough(learned(found), LEARNED - (1 - LEARNED) * (len(SEEDS) - 1)):
            break
    return judge(spec, suite.test_lengths(spec.task), found)


def judge(spec: TaskSpec, lengths: Sequence[int], found: Sequence[Result]) -> Trial:
    """Whether a candidate is learned, and the greatest L′ at which it is graded."""
    past, longest, shares = [n for n in lengths if n > spec.train_length], 0, (math.nan, math.nan)
    for count in range(len(past), min(LENGTHS, len(past)) - 1, -1):
        scores = [ranked_score(cell) for r in found for cell in r.scores if spec.train_length < cell.length <= past[count - 1]]
        shares = sum(s < FLOOR for s in scores) / len(scores), sum(s > CEILING for s in scores) / len(scores)
        if max(shares) <= SHARE and past[count - 1] >= SHORTEST * spec.train_length:
            longest = past[count - 1]
            break
    means = learned(found)
    return Trial(
        key=trial_key(spec),
        task=spec.task,
        train_length=spec.train_length,
        steps=spec.recipe["steps"],
        longest=longest,
        learned=means,
        floor=shares[0],
        ceiling=shares[1],
        run_s=sum(r.timings.train_s + r.timings.evaluate_s for r in found) / len(found),
        met=longest > 0 and enough(means, LEARNED),
    )


def learned(found: Sequence[Result]) -> dict[str, float]:
    """Encoding → mean exact match over its runs and the test lengths l ≤ L."""
    by_encoding: dict[str, list[float]] = {}
    for result in found:
        cells = [cell.exact for cell in result.scores if cell.length <= result.train_length]
        by_encoding.setdefault(result.encoding.name, []).append(sum(cells) / len(cells))
    return {name: sum(means) / len(means) for name, means in by_encoding.items()}


def enough(means: Mapping[str, float], bound: float) -> bool:
    """Whether all encodings but one reach a mean."""
    return sum(mean >= bound for mean in means.values()) >= len(means) - 1


def ranked_score(cell: LengthScore) -> float:
    """What the board ranks: the mean of exact match and token accuracy, each with guessing taken out."""
    assert cell.token_chance is not None  # None only in results of protocol 2
    of_exact = (cell.exact - cell.chance) / (1 - cell.chance)
    return (of_exact + (cell.token - cell.token_chance) / (1 - cell.token_chance)) / 2


def next_candidate(task: Candidates, trials: Mapping[str, Trial]) -> TaskSpec | None:
    """The first candidate of a task that has not been tried; None if one before it meets the criteria, or all have been."""
    for spec in task.specs():
        if trial_key(spec) not in trials:
            return spec
        if trials[trial_key(spec)].met:
            break
    return None


def calibrated(base: Suite, candidates: Sequence[Candidates], trials: Mapping[str, Trial]) -> Suite | None:
    """The suite with each task's first candidate that meets the criteria; None while there is a candidate to try.

    If no candidate of a task meets them, it gets the one that most encodings have learned, of these the first.
    """
    if any(next_candidate(task, trials) for task in candidates):
        return None
    specs = []
    for task in candidates:
        tried = [(spec, trials[trial_key(spec)]) for spec in task.specs() if trial_key(spec) in trials]
        spec, trial = max(tried, key=lambda pair: (pair[1].met, sum(m >= LEARNED for m in pair[1].learned.values())))
        kept = [x for x in spec.test_at or () if not trial.longest or x * spec.train_length <= trial.longest]
        specs.append(spec.model_copy(update={"test_at": kept}))
    return base.model_copy(update={"tasks": specs})


def write_suite(file: Path, suite: Suite) -> None:
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, yaml.safe_dump(suite.model_dump(mode="json", exclude_none=True), sort_keys=False))
