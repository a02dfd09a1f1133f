"""Checks of the runs: complete, each once, one ranking class, on the suite's data, with possible scores and parameters."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from bench.result import TENTHS, LengthScore, Result
from leaderboard.stats.summary import ranking_class
from tasks import Task

from .submission_checks import Expected, SubmissionData, label, raise_faults, submission_check


@submission_check(
    "encoding",
    expected="all runs are of the submitted encoding, with the same settings and texts",
    advice="make all runs from one version of the source, under one name",
)
def check_encoding(data: SubmissionData) -> str:
    name, runs = data.submission.name, data.results
    faults = [f"{label(r)} is of {r.encoding.name!r:.80}" for r in runs if r.encoding.name != name]
    if not faults:
        others = [r for r in runs if r.encoding != runs[0].encoding]
        faults = [f"{label(r)} describes its encoding differently from {label(runs[0])}" for r in others]
    raise_faults(faults)
    return f"{name}, family {runs[0].encoding.family}"


@submission_check(
    "complete",
    expected="one run of every task with every seed of the suite, and no others",
    advice="complete the runs with `lprime run`; no seed may be omitted, chosen or added",
)
def check_complete(data: SubmissionData) -> str:
    suite = data.suite
    expected = [(spec.task, seed) for spec in suite.tasks for seed in suite.seeds]
    counts = Counter((r.task, r.seed) for r in data.results)
    faults = [f"{task} seed {seed} is missing" for task, seed in expected if not counts[task, seed]]
    faults += [f"{task} seed {seed} occurs {n} times" for (task, seed), n in counts.items() if n > 1]
    tasks, seeds = {spec.task for spec in suite.tasks}, set(suite.seeds)
    faults += [f"{task!r:.60} is not a task of the suite" for task in sorted({t for t, _ in counts} - tasks)]
    for seed in sorted({s for _, s in counts} - seeds):
        where = sorted(t for t, s in counts if s == seed)
        only = f" (only on {', '.join(where)})" if len(where) < len(tasks) else ""
        faults.append(f"seed {seed} is not a seed of the suite{only}")
    raise_faults(faults)
    return f"tasks × seeds: {len(tasks)} × {len(seeds)}"


@submission_check(
    "ranking",
    expected="submission and results name one ranking class, and the lengths used in training agree with it",
    advice="declare ranking='longer' in info if it trains past L, 'task-aware' if it uses what tokens are, and run it again",
)
def check_ranking(data: SubmissionData) -> str:
    submission, runs = data.submission, data.results
    faults = []
    for run in runs:
        seen, expected = run.longest_seen, data.expected.get(run.task)
        lengths = (expected.train_length, expected.task.longest) if expected else ()
        if lengths and seen not in lengths:
            faults.append(f"{label(run)} trained up to length {seen}; expected L = {lengths[0]}, or {lengths[1]} after a stage")
        if run.encoding.ranking != submission.ranking:
            faults.append(f"{label(run)} is ranked {run.encoding.ranking!r:.40}, the submission {submission.ranking}")
        elif ranking_class([run], run) != submission.ranking:
            faults.append(
                f"{label(run)} trained at length {seen}, past L = {run.train_length}, but is ranked {submission.ranking}"
            )
    longest = {task: max((r.longest_seen for r in results), default=0) for task, results in data.by_task.items()}
    stages = {r.longest_seen > r.train_length for r in runs}
    if len(stages) > 1:
        faults.append("some runs have a further training stage and others have none")
    training = submission.training
    if (training.longest, training.extra_stage) != (longest, True in stages):
        faults.append(f"the submission has longest training lengths {training.longest}, its runs {longest}")
    if training.task_aware != (submission.ranking == "task-aware"):
        faults.append(f"the submission has task_aware={training.task_aware}, but is ranked {submission.ranking}")
    raise_faults(faults)
    return f"{submission.ranking}; " + ("a further stage, up to L′" if True in stages else "no training past L")


@submission_check(
    "data",
    expected="task, lengths, number of examples, chance and data hash are those of the suite's test sets, generated here",
    advice="submit unchanged results of `lprime run`; if your numpy draws other examples, tell the maintainers",
)
def check_data(data: SubmissionData) -> str:
    faults = []
    for task, runs in data.by_task.items():
        expected, spec = data.expected[task], data.suite.spec(task)
        fields = {"variant": spec.variant, "train_length": spec.train_length, "data_hash": expected.data_hash}
        for run in runs:
            wrong = [field for field, value in fields.items() if getattr(run, field) != value]
            shape = [(n, len(sizes), int(sizes.sum())) for n, sizes in expected.sizes.items()]
            if [(s.length, s.count, s.tokens) for s in run.scores] != shape:
                wrong.append("lengths, examples or answer tokens")
            else:
                wrong += [name for name in ("chance", "token_chance") if not same_chance(run, expected.task, name)]
            faults += [f"{label(run)}: {', '.join(wrong)} of other data"] if wrong else []
    raise_faults(faults)
    return f"{sum(len(e.sizes) for e in data.expected.values())} test sets as generated here"


def same_chance(run: Result, task: Task, name: str) -> bool:
    """Whether a field of the scores is what the task's method of that name returns."""
    given = [getattr(score, name) for score in run.scores]
    return None not in given and np.allclose(given, [getattr(task, name)(s.length) for s in run.scores], 1e-9, 0)


@submission_check(
    "scores",
    expected="every share is of a whole number of examples or tokens; exact match, token accuracy, log-likelihood and places "
    "of first wrong tokens are compatible; a diverged run scores zero",
    advice="submit unchanged results of `lprime run`",
)
def check_scores(data: SubmissionData) -> str:
    raise_faults([f"{label(run)}, {fault}" for run, expected in data.pairs for fault in score_faults(run, expected)])
    return "all are possible"


def score_faults(run: Result, expected: Expected) -> Iterator[str]:
    """Scores that are impossible on these examples."""
    for score in run.scores:
        where = f"length {score.length}: "
        exact, right = round(score.exact * score.count), round(score.token * score.tokens)
        if exact / score.count != score.exact:
            yield f"{where}exact match {score.exact!r} is not a whole number of {score.count} examples"
        if right / score.tokens != score.token:
            yield f"{where}token accuracy {score.token!r} is not a whole number of {score.tokens} tokens"
        if run.status == "diverged" and (right or score.nll is not None):
            yield f"{where}the run diverged, but its scores are not zero"
        yield from (where + fault for fault in likelihood_faults(score, len(expected.task.vocabulary)))
        sizes = np.sort(expected.sizes.get(score.length, np.zeros(0, int)))
        if len(sizes) != score.count:
            continue  # a fault of `data`
        if len(score.first_wrong) != TENTHS:
            yield f"{where}the places of first wrong tokens are missing"
            continue
        possible = np.unique([TENTHS * place // size for size in np.unique(sizes) for place in range(size)])
        if impossible := sorted(set(np.flatnonzero(score.first_wrong)) - set(possible)):
            yield f"{where}first wrong tokens in tenth {impossible[0] + 1}, where no answer has a token"
        # Before a first wrong token in tenth k, counted from 0, are at least k/10 of the shortest answer's tokens.
        before = np.ceil(np.arange(TENTHS) * sizes[0] / TENTHS).astype(int) @ score.first_wrong
        least, most = int(sizes[:exact].sum() + before), score.tokens - (score.count - exact)
        if not least <= right <= most:
            yield f"{where}{exact} correct examples have {least:,} to {most:,} correct tokens, not {right:,}"


def likelihood_faults(score: LengthScore, symbols: int) -> Iterator[str]:
    """A wrong token has a probability of at most 1/2, and a right one of at least 1/symbols."""
    low, high = (1 - score.token) * math.log(2), math.log(symbols) if score.token == 1 else math.inf
    if score.nll is None:
        if score.token == 1:
            yield "every token is correct, but the log-likelihood is missing"
    elif not low - 1e-6 <= score.nll <= high + 1e-6:
        yield f"token accuracy {score.token:.3g} has {low:.3g} to {high:.3g} nats per token, not {score.nll:.3g}"


@submission_check(
    "parameters",
    expected="a model has the parameters of the suite's model and at most as many of the encoding, the same with every seed",
    advice="share parameters over layers, heads or positions; submit unchanged results of `lprime run`",
)
def check_parameters(data: SubmissionData) -> str:
    faults = []
    for task, runs in data.by_task.items():
        bare = data.expected[task].parameters
        for run in runs:
            model, encoding = run.parameters.model, run.parameters.encoding
            if model != bare + encoding:
                faults.append(f"{label(run)}: the model has {model:,}; expected {bare:,} + {encoding:,} of the encoding")
            elif encoding > bare:
                faults.append(f"{label(run)}: {encoding:,} parameters of the encoding, more than the model's {bare:,}")
        if len({r.parameters for r in runs}) > 1:
            faults.append(f"{task}: seeds have models of different sizes")
    raise_faults(faults)
    sizes = sorted({r.parameters.encoding for r in data.results})
    return f"{sizes[0]:,}" + (f" to {sizes[-1]:,}" if len(sizes) > 1 else "") + " of the encoding"
