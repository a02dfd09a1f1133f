"""Train runs of a submission again: the only module that runs submitted code.

The training is a sealed run: see ``bench.sealed``. `lprime check` runs again outside of the sandbox.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from math import comb
from multiprocessing import get_context
from pathlib import Path

from bench.check import check_encoding
from bench.check.checks import Fault
from bench.result import Result
from bench.runs.run import Run
from bench.runs.worker import end_with_parent
from bench.sealed.judge import Code, Limits, SealedError
from bench.sealed.run import run_sealed
from bench.suites.suite import Suite
from leaderboard.submission.manifest import Submission
from tasks import InputError

from .agreement import (
    ALPHA,
    OUTCOME,
    Comparison,
    compare_by_examples,
    compare_by_seeds,
    differing_fields,
    same_environment,
    significant,
)
from .submission_checks import SubmissionData, label, raise_faults, rerun_check

EXTRA_TIME_S, TIME_FACTOR = 300.0, 10.0
"""Default time limit: these seconds, plus this multiple of the time that the runs report."""
CAUTION = (
    "caution: `lprime check` runs the submitted code with your rights; do so only on a machine with nothing to steal, after "
    "reading the source"
)


@rerun_check(
    "check again",
    expected="`lprime check` passes on this machine too",
    advice="the submitted check report is of other code, or the encoding does not pass everywhere; ask the submitters",
)
def check_check_again(data: SubmissionData) -> str:
    data.rerun.say("lprime check …")
    with source_folder(data) as (reference, path, _):
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
    "numpy are the same, else mean exact match within the variation of the submitted seeds (t test, family-wise "
    f"{ALPHA:.0%})",
    advice="compare both results; one processor name can stand for two kinds of processor, so run again on the original "
    "machine, with the same --choice-seed, before you ask the submitters",
)
def check_rerun(data: SubmissionData) -> str:
    chosen = data.rerun.choose(data.results)
    comparisons, faults, identical = [], [], 0
    for ours, theirs in zip(chosen, train_runs(data, data.suite, chosen), strict=True):
        fields = differing_fields(ours, theirs)
        identical += not fields
        if fields and same_environment(ours, theirs):
            scores = f" ({mean_scores(ours)} submitted, {mean_scores(theirs)} found)" if "scores" in fields else ""
            faults.append(f"{label(ours)} differs in {', '.join(fields)}{scores}, though device and versions are the same")
        elif fields:
            comparisons += compare_elsewhere(data, ours, theirs, fresh=False)
    raise_faults(faults + significant(comparisons))
    others = f", {len(chosen) - identical} by the test: no significant difference" if identical < len(chosen) else ""
    missed = describe_miss_chance(len(data.results), len(chosen), data.rerun.seed)
    return f"{', '.join(map(label, chosen))}: {identical} bit for bit{others}; {missed}"


@rerun_check(
    "fresh tests",
    expected="the same runs are as good on newly drawn examples: by Fisher's exact test at each length if the model is "
    f"identical, else by the test of `rerun` with the sampling error added (family-wise {ALPHA:.0%})",
    advice="the code may contain the published test sets; read the source, then ask the submitters",
)
def check_fresh_tests(data: SubmissionData) -> str:
    chosen = data.rerun.choose(data.results)
    suite = Suite.model_validate(data.suite.model_dump() | {"test_seed": data.rerun.test_seed})
    comparisons, faults = [], []
    for ours, theirs in zip(chosen, train_runs(data, suite, chosen), strict=True):
        fields = differing_fields(ours, theirs, [name for name in OUTCOME if name != "scores"])
        if fields and same_environment(ours, theirs):
            faults.append(f"{label(ours)} differs in {', '.join(fields)}, though device and versions are the same")
        else:
            comparisons += compare_elsewhere(data, ours, theirs, fresh=True) if fields else compare_by_examples(ours, theirs)
    raise_faults(faults + significant(comparisons))
    tests = f"no significant difference in {len(comparisons)} tests"
    return f"{', '.join(map(label, chosen))}: {tests}; test seed {data.rerun.test_seed}"


def compare_elsewhere(data: SubmissionData, ours: Result, theirs: Result, fresh: bool) -> list[Comparison]:
    """Compare runs of two machines.

    Raises:
        Fault: there is only one seed.
    """
    seeds = data.by_task[ours.task]
    if len(seeds) < 2:
        raise Fault(
            f"{label(ours)} was run on {ours.device} with {ours.versions.get('torch')}, here on {theirs.device} with "
            f"{theirs.versions.get('torch')}; a single seed does not show how much such runs vary",
            "run it again on the original machine",
        )
    return compare_by_seeds(ours, theirs, seeds, fresh)


def mean_scores(run: Result) -> str:
    """``exact match 0.990 and 0.120``: up to L and beyond it."""
    inside, outside = (sum(s.exact for s in part) / len(part) for part in (run.in_distribution, run.out_of_distribution))
    return f"exact match {inside:.3f} and {outside:.3f}"


def describe_miss_chance(runs: int, chosen: int, seed: int) -> str:
    """The probability that a choice includes none of the edited runs, if a fifth of all were edited."""
    edited = -(-runs // 5)
    missed = comb(runs - edited, chosen) / comb(runs, chosen)
    return f"{chosen} of {runs} runs, choice seed {seed}; had {edited} been edited, {missed:.0%} of such choices would miss all"


# --- the processes


@contextmanager
def source_folder(data: SubmissionData) -> Iterator[tuple[str, list[str], Path]]:
    """The verified source in a temporary folder: a reference to the encoding, folders to search for modules, the source's
    folder."""
    submission = data.submission
    with tempfile.TemporaryDirectory(prefix="lprime-verify-", ignore_cleanup_errors=True) as scratch:
        source = Path(scratch) / "source"
        for path, content in data.contents.sources.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)
        plugin = plugin_reference(submission, source)
        reference = re.sub(rf"(?<!['\w]){submission.plugin.name}(?!['\w])", lambda _: plugin, submission.name)
        yield reference, [str(source)] if "/" in submission.plugin.file else [], source


def plugin_reference(submission: Submission, source: Path) -> str:
    """A path for a single file, a module's name for a file in a package."""
    plugin = submission.plugin
    if "/" not in plugin.file:
        return f"{source / plugin.file}:{plugin.cls}"
    module = plugin.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}:{plugin.cls}"


def train_runs(data: SubmissionData, suite: Suite, chosen: Sequence[Result]) -> list[Result]:
    """Results of the chosen runs, trained here on a suite: see ``bench.sealed``.

    Raises:
        Fault: a run failed, or its gradients were not those of its loss.
    """
    name, options = data.submission.name, data.rerun
    options.say(f"training {', '.join(map(label, chosen))} …")
    with source_folder(data) as (reference, path, source):
        limit = options.time_limit_s or EXTRA_TIME_S + TIME_FACTOR * sum(map(run_seconds, chosen))
        code = Code(reference, [source], path, options.unsafe, Limits(limit))
        runs = [Run(suite, r.task, name, r.seed) for r in chosen]
        workers = min(len(runs), options.workers or len(os.sched_getaffinity(0)))
        with ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool:
            return [
                result.result() for result in [pool.submit(train_run, *one, code) for one in zip(runs, chosen, strict=True)]
            ]


def train_run(run: Run, submitted: Result, code: Code) -> Result:
    """The submitted result with what one sealed run gave in place of its outcome."""
    import torch

    from bench.runs.run_one import device_name, package_versions

    torch.set_num_threads(1)
    try:
        found = run_sealed(run, code)
    except SealedError as error:
        raise Fault(f"{run} gave no result: {error}") from None
    if found.audit:
        raise Fault(f"{run}: {'; '.join(found.audit)}", "its code computes gradients of something else than its loss; read it")
    machine = {"device": device_name(torch.device("cpu")), "threads": 1, "versions": package_versions()}
    return submitted.model_copy(update=found.outcome() | machine)


def run_seconds(result: Result) -> float:
    """Seconds that a rerun may take: it makes the training too, where the run loaded a shared one."""
    times = result.timings
    return max(times.total_s, times.train_s + times.evaluate_s)
