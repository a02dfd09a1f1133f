"""Trials of candidates, and the choice of a suite's tasks by the criteria in ``bench/suites/CALIBRATION.md``."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch
import yaml

from bench.files import write_atomic
from bench.result import LengthScore
from bench.runs.run import plan_runs
from bench.suites.suite import Suite, TaskSpec
from bench.training.evaluate import zero_scores
from tasks import InputError

from .candidates import Candidates
from .grid import lprime_run, pack_results, unpack_results
from .measurements import Trial

SEEDS = [100, 101]
"""Seeds that the board never uses."""
LEARNED = 0.95
"""Mean exact match over test lengths l ≤ L and the seeds that all encodings but one must reach."""
FLOOR, CEILING, SHARE = 0.02, 0.98, 1 / 3
"""Scores past L under the floor and over the ceiling; largest share of the cells that may be under, and over."""
LENGTHS = 8
"""Fewest test lengths past L that are kept."""
TRIALS = "trials"
"""Folder of the trials' runs, and name of the archive of their results."""
LATE_S = 30.0
"""Seconds that what is still running gets when the command's time is over."""
Scores = dict[str, list[list[LengthScore]]]
"""Encoding → scores of each of its runs, by test length."""


def suite_of(base: Suite, specs: Sequence[TaskSpec], **changes: object) -> Suite:
    """A suite with other tasks."""
    return Suite.model_validate(base.model_dump() | {"tasks": [spec.model_dump() for spec in specs], "vary": None} | changes)


def trial_key(base: Suite, spec: TaskSpec) -> str:
    """Names a candidate. Its fingerprint keeps apart trials of an earlier version of the suite or of the candidate."""
    return f"{spec.task}-{spec.train_length}-{spec.recipe['steps']}-{suite_of(base, [spec]).fingerprint}"


def run_trials(
    base: Suite, specs: Sequence[TaskSpec], workers: int, device: torch.device, end: float, folder: Path
) -> list[Trial]:
    """Train every encoding of a suite on candidates, each of another task, and judge them.

    Arguments:
        end: value of ``time.monotonic()`` at which the trials are given up.

    Raises:
        TimeoutError: the time is over; finished runs are kept in ``folder`` and its archive.
    """
    out, archive = folder / TRIALS, folder / f"{TRIALS}.tar.gz"
    unpack_results(archive, out)
    suite = suite_of(base, specs, name=f"{base.name}-trials-{suite_of(base, specs).fingerprint}", seeds=SEEDS)
    file = out / f"{suite.name}.yaml"
    write_suite(file, suite)
    found: dict[str, Scores] = {spec.task: {name: [] for name in suite.encoding_names} for spec in specs}
    going_on = list(specs)
    for count, seed in enumerate(SEEDS, 1):
        if not going_on:
            break
        options = [f"--seed={seed}", *(f"--task={spec.task}" for spec in going_on), "--retry-failed", "--quiet"]
        command = [*lprime_run(str(file), workers, device, out), *options]
        try:
            for _ in range(2):  # a run that fails is tried once more, next to fewer others
                with suppress(RunsFailed):
                    run_to_end(command, end + LATE_S - time.monotonic())
                    break
        finally:
            pack_results(out, archive)
        for run in plan_runs(suite, tasks=[spec.task for spec in going_on], seeds=[seed]):
            if (result := run.result(out)) is None and run.failure(out) is None:
                raise InputError(f"{run} is not finished: does another process work on it?")
            scores = result.scores if result else zero_scores(suite.make_task(run.task), suite.test_sets(run.task))
            found[run.task][run.encoding].append(scores)
        # An encoding under this mean cannot reach LEARNED, even if its other seeds are all right.
        bound = LEARNED - (1 - LEARNED) * (len(SEEDS) - count) / count
        going_on = [spec for spec in going_on if enough(learned(spec, found[spec.task]), bound)]
    return [judge(spec, trial_key(base, spec), found[spec.task]) for spec in specs]


class RunsFailed(InputError):
    """``lprime run`` ended, and some runs failed."""


def run_to_end(command: list[str], seconds: float) -> None:
    """Run ``lprime run``, and kill it and its workers when the time is over.

    Raises:
        RunsFailed: a run failed.
        InputError: it refuses the runs.
        TimeoutError: it takes longer.
    """
    if seconds <= 0:
        raise TimeoutError("no time left")
    pipe, errors = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=errors, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"lprime run takes longer than {seconds:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        error = RunsFailed if process.returncode == 1 else InputError
        raise error(f"lprime run ended with {process.returncode}: {' '.join(output.split()[-40:])}")


def judge(spec: TaskSpec, key: str, scores: Scores) -> Trial:
    """Whether a candidate is learned, and the greatest L′ up to which it is graded."""
    runs = [run for runs in scores.values() for run in runs]
    past = [cell.length for cell in runs[0] if cell.length > spec.train_length]
    longest, floor, ceiling = 0, 1.0, 1.0
    for last in reversed(past[LENGTHS - 1 :]):
        cells = [ranked_score(cell) for run in runs for cell in run if spec.train_length < cell.length <= last]
        floor, ceiling = sum(s < FLOOR for s in cells) / len(cells), sum(s > CEILING for s in cells) / len(cells)
        if max(floor, ceiling) <= SHARE:
            longest = last
            break
    means = learned(spec, scores)
    return Trial(
        key=key,
        task=spec.task,
        train_length=spec.train_length,
        steps=spec.recipe["steps"],
        seeds=max(map(len, scores.values())),
        longest=longest,
        learned=means,
        floor=floor,
        ceiling=ceiling,
        met=longest > 0 and enough(means, LEARNED),
    )


def learned(spec: TaskSpec, scores: Scores) -> dict[str, float]:
    """Encoding → mean exact match over its runs and the test lengths l ≤ L."""
    found = {}
    for name, runs in scores.items():
        cells = [cell.exact for run in runs for cell in run if cell.length <= spec.train_length]
        found[name] = sum(cells) / len(cells)
    return found


def enough(means: Mapping[str, float], bound: float) -> bool:
    """Whether all encodings but one reach a mean."""
    return sum(mean >= bound for mean in means.values()) >= len(means) - 1


def ranked_score(cell: LengthScore) -> float:
    """What the board ranks, ``leaderboard.stats.scores.cell_scores``, which ``bench`` may not import."""
    assert cell.token_chance is not None  # None only in results of protocol 2
    of_exact = (cell.exact - cell.chance) / (1 - cell.chance)
    return (of_exact + (cell.token - cell.token_chance) / (1 - cell.token_chance)) / 2


def next_round(base: Suite, candidates: Sequence[Candidates], trials: Mapping[str, Trial]) -> list[TaskSpec]:
    """The first candidate that has not been tried, of each task of which none meets the criteria."""
    specs = []
    for task in candidates:
        for spec in task.specs():
            if (trial := trials.get(trial_key(base, spec))) is None:
                specs.append(spec)
                break
            if trial.met:
                break
    return specs


def calibrated(base: Suite, candidates: Sequence[Candidates], trials: Mapping[str, Trial]) -> Suite:
    """The next version of a suite, with each task's first candidate that meets the criteria.

    If no candidate of a task meets them, it gets the one that most encodings have learned, of these the first.

    Raises:
        InputError: candidates of a task must be tried first.
    """
    if waiting := [spec.task for spec in next_round(base, candidates, trials)]:
        raise InputError(f"waits for the calibration of {', '.join(waiting)}")
    specs, unmet = [], []
    for task in candidates:
        tried = [(spec, trials[key]) for spec in task.specs() if (key := trial_key(base, spec)) in trials]
        spec, trial = max(tried, key=lambda pair: (pair[1].met, sum(m >= LEARNED for m in pair[1].learned.values())))
        kept = [x for x in spec.test_at or () if not trial.longest or x * spec.train_length <= trial.longest]
        specs.append(spec.model_copy(update={"test_at": kept}))
        unmet += [spec.task] * (not trial.met)
    size = f"{base.model.layers} layers of width {base.model.width}"
    but = f"; no candidate of {', '.join(unmet)} met the criteria" if unmet else ""
    about = f"The GPU suite, {size}. Calibrated in CALIBRATION.md{but}."
    return suite_of(base, specs, version=base.version + 1, about=about)


def write_suite(file: Path, suite: Suite) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, yaml.safe_dump(suite.model_dump(mode="json", exclude_none=True), sort_keys=False))
