"""Train runs of a submission again: the only module that runs submitted code.

Runs are sealed: see ``bench.sealed``. Their results are written like those of ``lprime run``, and ``lprime publish`` takes them
from there; the submitted ones are only compared with them. `lprime check` runs again, too, in the same sandbox.
"""

import re
import tempfile
from collections.abc import Sequence
from math import comb
from pathlib import Path

import numpy as np

from bench.check import check_encoding
from bench.check.checks import Fault
from bench.files import write_atomic
from bench.plugins.registry import is_built_in
from bench.result import Result
from bench.runs.executor import Event
from bench.runs.run import Run
from bench.sealed.request import SealedCode
from bench.suites.suite import Suite
from leaderboard.data.store import read_runs, suite_folders
from leaderboard.submission.manifest import Submission
from tasks import InputError

from .agreement import (
    ALPHA,
    FEWEST,
    OUTCOME,
    compare_by_examples,
    compared_score,
    differing_fields,
    joint_p,
    mean_score,
    other_early_loss,
    same_environment,
    several_seeds,
    significant,
)
from .submission_checks import SubmissionData, label, raise_faults, rerun_check
from .training_log import published_copies

EXTRA_TIME_S, TIME_FACTOR, LONGEST_S = 300.0, 10.0, 6 * 3600.0
"""Default time limit of a run: these seconds, plus this multiple of the longest time that a run reports; at most the last."""
SOURCES = ".submissions"
"""Folder of the submitted source below the results folder, where compute nodes see it too."""
SCORES = {"exact": "exact match", "token": "token accuracy"}
CAUTION = "caution: this runs submitted code; read the source first, and use a machine without secrets"


@rerun_check(
    "check again",
    expected="`lprime check` passes on this machine too",
    advice="the submitted check report is of other code, or the encoding does not pass everywhere; ask the submitters",
)
def check_check_again(data: SubmissionData) -> str:
    data.rerun.say("lprime check …")
    with tempfile.TemporaryDirectory(prefix="lprime-verify-", ignore_cleanup_errors=True) as scratch:
        reference, path = write_source(data, Path(scratch) / "source")
        try:
            report = check_encoding(reference, path=path, sandbox=not data.rerun.unsafe)
        except InputError as error:
            raise Fault(str(error)) from None
    if report.source_sha256 != data.submission.source_sha256:
        raise Fault(f"the source that was checked has hash {report.source_sha256[:12]}")
    raise_faults([f"{f.check}: {f.found}" for f in report.findings if f.status == "failed"])
    return report.summary()


@rerun_check(
    "rerun",
    expected="runs chosen at random give the submitted results when trained again: bit for bit if device, threads, torch and "
    "numpy are the same, else by one test of all runs together against the variation between seeds on the board "
    f"({ALPHA:.0%}), and with the early losses of the same seed",
    advice="the published numbers are those found here; ask the submitters for the difference, and publish nothing before",
)
def check_rerun(data: SubmissionData) -> str:
    chosen = data.rerun.choose(data.results)
    found = train_runs(data, data.suite, chosen, data.rerun.out)
    faults, identical = [], 0
    for ours, theirs in zip(chosen, found, strict=True):
        fields = differing_fields(ours, theirs)
        identical += not fields
        if fields and same_environment(ours, theirs):
            scores = f" ({mean_scores(ours)} submitted, {mean_scores(theirs)} found)" if "scores" in fields else ""
            faults.append(f"{label(ours)} differs in {', '.join(fields)}{scores}, though device and versions are the same")
        elif other_early_loss(ours, theirs):
            losses = f"{ours.loss[0][1]:.4g} submitted, {theirs.loss[0][1]:.4g} found"
            faults.append(f"{label(ours)} is not a run of this code with this seed: its first logged loss is {losses}")
    faults += published_copies(found, data)
    others = ""
    if identical < len(chosen):
        board, tasks = reference_runs(data, chosen), {run.task for run in chosen}
        score = compared_score([*found, *(run for run in board if run.task in tasks)])  # not of claims, which could choose it
        p, basis = joint_p(chosen, found, board, np.random.default_rng(data.rerun.seed), score)
        if p <= ALPHA:
            means = "; ".join(f"{mean_of(runs, score)} {which}" for runs, which in ((chosen, "submitted"), (found, "found")))
            faults.append(f"the {len(chosen)} runs together differ: {means} (p = {p:.1g}, by {basis})")
        others = f", {len(chosen) - identical} by the test: no significant difference (p = {p:.2g}, by {basis})"
    raise_faults(faults)
    missed = describe_miss_chance(len(data.results), len(chosen), data.rerun.seed)
    return f"{', '.join(map(label, chosen))}: {identical} bit for bit{others}; {missed}"


def reference_runs(data: SubmissionData, chosen: Sequence[Result]) -> list[Result]:
    """Published runs of built-in encodings that show how much seeds differ: on this suite, or, as long as too few encodings
    have several seeds there, on all suites and archived versions."""
    tasks, built_in = {r.task for r in chosen}, [r for r in data.published if is_built_in(r.encoding.name)]
    same = [r for r in built_in if r.fingerprint == data.suite.fingerprint]
    if len(several_seeds(same, tasks)) >= FEWEST:
        return same
    folders = [place for board in data.archived for place in suite_folders(board)]
    return built_in + [r for place in folders for r in read_runs(place) if is_built_in(r.encoding.name)]


@rerun_check(
    "fresh tests",
    expected="the same runs, trained here, are as good on newly drawn examples, by Fisher's exact test at each length "
    f"(family-wise {ALPHA:.0%})",
    advice="the code may contain the published test sets; read the source, then ask the submitters",
)
def check_fresh_tests(data: SubmissionData) -> str:
    chosen, out, comparisons = data.rerun.choose(data.results), data.rerun.out, []
    suite = Suite.model_validate(data.suite.model_dump() | {"test_seed": data.rerun.test_seed})
    ours = train_runs(data, data.suite, chosen, out)
    for one, other in zip(ours, train_runs(data, suite, chosen, out / f".fresh-{data.rerun.seed}"), strict=True):
        if fields := differing_fields(one, other, [name for name in OUTCOME if name != "scores"]):
            raise Fault(f"{label(one)} differs in {', '.join(fields)} between two trainings here", "use one kind of machine")
        comparisons += compare_by_examples(one, other)
    raise_faults(significant(comparisons))
    tests = f"no significant difference in {len(comparisons)} tests"
    return f"{', '.join(map(label, chosen))}: {tests}; test seed {data.rerun.test_seed}"


def mean_scores(run: Result) -> str:
    """``exact match 0.990 and 0.120``: up to L and beyond it."""
    score = compared_score([run])
    inside, outside = mean_score(run, score)
    return f"{SCORES[score]} {inside:.3f} and {outside:.3f}"


def mean_of(runs: Sequence[Result], score: str) -> str:
    """Mean score of several runs, past L."""
    return f"mean {SCORES[score]} {np.mean([mean_score(run, score)[1] for run in runs]):.3f} past L"


def describe_miss_chance(runs: int, chosen: int, seed: int) -> str:
    """The probability that a choice includes none of the edited runs, if a fifth of all were edited."""
    if chosen == runs:
        return f"all {runs} runs"
    edited = -(-runs // 5)
    missed = comb(runs - edited, chosen) / comb(runs, chosen)
    return f"{chosen} of {runs} runs, choice seed {seed}; had {edited} been edited, {missed:.0%} of such choices would miss all"


# --- the runs


def write_source(data: SubmissionData, source: Path) -> tuple[str, list[str]]:
    """Write the verified source into a folder; a reference to the encoding, and folders to search for modules."""
    submission = data.submission
    for path, content in data.contents.sources.items():
        write_atomic(source / path, content)
    plugin = plugin_reference(submission, source)
    reference = re.sub(rf"(?<!['\w]){submission.plugin.name}(?!['\w=])", lambda _: plugin, submission.name)
    return reference, [str(source)] if "/" in submission.plugin.file else []


def plugin_reference(submission: Submission, source: Path) -> str:
    """A path for a single file, a module's name for a file in a package."""
    plugin = submission.plugin
    if "/" not in plugin.file:
        return f"{source / plugin.file}:{plugin.cls}"
    module = plugin.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}:{plugin.cls}"


def train_runs(data: SubmissionData, suite: Suite, chosen: Sequence[Result], out: Path) -> list[Result]:
    """Results of the chosen runs on a suite, trained and stored under ``out`` where they are not yet: see ``bench.sealed``.

    Raises:
        Fault: a run failed, or the audit of its training found a fault; or ``out`` has results of these runs that are not
            sealed, or of other source.
    """
    submission, options = data.submission, data.rerun
    out = out.resolve()
    runs = [Run(suite, r.task, submission.name, r.seed) for r in chosen]
    todo = []
    for run in runs:
        result, place = run.result(out), run.folder(out)
        if result is None:
            todo.append(run)
        elif not (result.sealed or options.unsafe):
            raise Fault(f"{place} has a result that is not of a sealed run", "choose another --out")
        elif result.encoding.source_sha256 != submission.source_sha256:
            raise Fault(f"{place} has a result of other source", "delete it, or choose another --out")
    if todo:
        source = out / SOURCES / submission.source_sha256[:16] / "source"
        reference, path = write_source(data, source)
        expected = max(map(run_seconds, chosen))
        limit = options.time_limit_s or min(LONGEST_S, EXTRA_TIME_S + TIME_FACTOR * expected)
        code = SealedCode(
            folder=str(source),
            reference=reference,
            path=path,
            encoding=chosen[0].encoding,
            seconds=limit,
            expected_s=expected,
            unsafe=options.unsafe,
        )
        options.say(f"training {len(todo)} of {len(runs)} runs, results under {out / suite.name} …")
        failed: list[str] = []

        def on_event(event: Event) -> None:
            if event.kind in ("finished", "failed", "lost", "locked"):
                options.say(f"{event.run}: {event.text or event.kind}")
            if event.kind in ("failed", "lost", "locked"):
                failed.append(f"{event.run}: {event.text or 'another process works on it'}")

        try:
            options.executor(submission.name, code, options.workers).execute(todo, out, on_event)
        except InputError as error:  # a full disk, no SLURM, no sandbox
            raise Fault(str(error), "correct this, then run the same command again") from None
        raise_faults(failed)
    return [result for run in runs if (result := run.result(out))]


def run_seconds(result: Result) -> float:
    """Seconds that a rerun may take: it makes the training too, where the run loaded a shared one."""
    times = result.timings
    return max(times.total_s, times.train_s + times.evaluate_s)
