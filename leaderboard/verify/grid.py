"""Whether the runs are those of the suite: all of them, each once, on its data, and scores that such a test can give."""

from collections import Counter

import numpy as np

from bench.check.subject import Fault
from bench.results import Result

from ..summary import CLASSES, ranking_class
from .subject import Expected, Subject, label, listed, named


@named(
    "encoding",
    expected="all runs are of one encoding, the one submitted, with the same settings and words",
    advice="run all of it from one state of the source, under one name, and submit that",
)
def encoding(subject: Subject) -> str:
    of, runs = subject.submission, subject.results
    faults = [f"{label(r)} is of {r.encoding.name!r:.80}" for r in runs if r.encoding.name != of.name]
    if not faults:
        first = runs[0]
        faults = [
            f"{label(r)} says other things of its encoding than {label(first)}" for r in runs if r.encoding != first.encoding
        ]
    if faults:
        raise Fault(listed(faults))
    return f"{of.name}, family {runs[0].encoding.family}"


@named(
    "complete",
    expected="one run of every task with every seed of the suite, and no others",
    advice="run what is missing with `lprime run`; no seed may be left out, chosen or added",
)
def complete(subject: Subject) -> str:
    suite = subject.suite
    wanted = [(spec.task, seed) for spec in suite.tasks for seed in suite.seeds]
    there = Counter((r.task, r.seed) for r in subject.results)
    faults = [f"{task} seed {seed} is missing" for task, seed in wanted if not there[task, seed]]
    faults += [f"{task} seed {seed} stands {n} times" for (task, seed), n in there.items() if n > 1]
    tasks, seeds = {spec.task for spec in suite.tasks}, set(suite.seeds)
    faults += [f"{task!r:.60} is no task of the suite" for task in sorted({t for t, _ in there} - tasks)]
    for seed in sorted({s for _, s in there} - seeds):
        where = sorted(t for t, s in there if s == seed)
        faults.append(f"seed {seed} is none of the suite's, on {', '.join(where)} alone" if len(where) < len(tasks)
                      else f"seed {seed} is none of the suite's")  # fmt: skip
    if faults:
        raise Fault(listed(faults))
    return f"tasks × seeds: {len(tasks)} × {len(seeds)}"


@named(
    "ranking",
    expected="submission, results and check report name one ranking class, and what was seen in training agrees with it",
    advice="declare ranking='longer' in info if it trains past L, 'task-aware' if it looks at what tokens are; run it again",
)
def ranking(subject: Subject) -> str:
    of, runs = subject.submission, subject.results
    faults = []
    if of.ranking not in CLASSES:
        faults.append(f"{of.ranking!r:.40} is no ranking class")
    for run in runs:
        expected = subject.expected.get(run.task)
        lengths = (expected.train_length, expected.task.longest) if expected else ()
        if lengths and run.longest_seen not in lengths:
            faults.append(
                f"{label(run)} saw length {run.longest_seen}; expected L = {lengths[0]}, or {lengths[1]} after a stage"
            )
        if run.encoding.ranking != of.ranking:
            faults.append(f"{label(run)} is ranked {run.encoding.ranking!r:.40}, the submission {of.ranking}")
        elif ranking_class([run], run) != of.ranking:
            faults.append(
                f"{label(run)} trained at length {run.longest_seen}, past L = {run.train_length}, but is ranked {of.ranking}"
            )
    longest = {task: max((r.longest_seen for r in found), default=0) for task, found in subject.by_task.items()}
    stage = {r.longest_seen > r.train_length for r in runs}
    if len(stage) > 1:
        faults.append("some runs had a further stage of training and others had not")
    if (of.training.longest, of.training.extra_stage) != (longest, True in stage):
        faults.append(f"the submission says that it met {of.training.longest}, its runs {longest}")
    if of.training.task_aware != (of.ranking == "task-aware"):
        faults.append(f"the submission says task_aware={of.training.task_aware}, and is ranked {of.ranking}")
    if faults:
        raise Fault(listed(faults))
    return f"{of.ranking}; " + ("a further stage, up to L′" if True in stage else "nothing past L in training")


@named(
    "data",
    expected="task, lengths, number of examples, chance and data hash are those of the suite's own test sets, made anew here",
    advice="results come from `lprime run` as it is; where numpy draws other examples than here, say so to the maintainers",
)
def data(subject: Subject) -> str:
    faults = []
    for task, runs in subject.by_task.items():
        expected, spec = subject.expected[task], subject.suite.spec(task)
        for run in runs:
            wrong = [
                what
                for what, value in {
                    "variant": spec.variant,
                    "train_length": spec.train_length,
                    "data_hash": expected.data_hash,
                }.items()
                if getattr(run, what) != value
            ]
            shape = [(n, len(sizes), int(sizes.sum())) for n, sizes in expected.sizes.items()]
            if [(s.length, s.count, s.tokens) for s in run.scores] != shape:
                wrong.append("lengths, examples or answer tokens")
            elif not np.allclose([s.chance for s in run.scores], [expected.task.chance(n) for n in expected.sizes], 1e-9, 0):
                wrong.append("chance")
            faults += [f"{label(run)}: {', '.join(wrong)} of other data"] if wrong else []
    if faults:
        raise Fault(listed(faults))
    return f"{sum(len(e.sizes) for e in subject.expected.values())} test sets as they are made here"


@named(
    "scores",
    expected="every share is a whole number of examples or tokens, right tokens and right examples can both be true, and a "
    "diverged run has none",
    advice="results come from `lprime run` as it is, and no number of them is changed",
)
def scores(subject: Subject) -> str:
    faults = []
    for task, runs in subject.by_task.items():
        for run in runs:
            faults += [f"{label(run)}, {fault}" for fault in impossible(run, subject.expected[task])]
    if faults:
        raise Fault(listed(faults))
    return "all of them can be"


def impossible(run: Result, expected: Expected) -> list[str]:
    """Scores that no test of these examples gives."""
    faults = []
    for score in run.scores:
        where = f"length {score.length}: "
        exact, right = round(score.exact * score.count), round(score.token * score.tokens)
        if exact / score.count != score.exact:
            faults.append(f"{where}exact match {score.exact!r} is no whole number of {score.count} examples")
        if right / score.tokens != score.token:
            faults.append(f"{where}token accuracy {score.token!r} is no whole number of {score.tokens} tokens")
        if run.status == "diverged" and (exact or right):
            faults.append(f"{where}the run diverged, but has scores")
        sizes = np.sort(expected.sizes.get(score.length, np.zeros(0, int)))
        if len(sizes) != score.count:
            continue  # told by `data`
        least, most = int(sizes[:exact].sum()), score.tokens - (score.count - exact)
        if not least <= right <= most:
            faults.append(f"{where}{exact} right examples have {least:,} to {most:,} right tokens, not {right:,}")
    return faults


@named(
    "parameters",
    expected="a model of the suite has the parameters of the bare model and those of the encoding, the same with every seed",
    advice="results come from `lprime run` as it is",
)
def parameters(subject: Subject) -> str:
    faults = []
    for task, runs in subject.by_task.items():
        bare = subject.expected[task].parameters
        for run in runs:
            model, own = run.parameters.model, run.parameters.encoding
            if model != bare + own:
                faults.append(
                    f"{label(run)}: a model of {model:,}, but {bare:,} and {own:,} of the encoding are {bare + own:,}"
                )
        if len({r.parameters for r in runs}) > 1:
            faults.append(f"the seeds of {task} have models of different sizes")
    if faults:
        raise Fault(listed(faults))
    sizes = sorted({r.parameters.encoding for r in subject.results})
    return f"{sizes[0]:,}" + (f" to {sizes[-1]:,}" if len(sizes) > 1 else "") + " of the encoding"
