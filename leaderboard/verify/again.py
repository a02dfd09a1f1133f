"""Runs of a submission once more: the only part that runs what was submitted, in processes of their own.

Those processes have the rights of whoever starts them, and could do and say anything. They are for machines on which there is
nothing to steal, and for code that somebody has read.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import comb
from pathlib import Path

from bench.check import check as run_checks
from bench.check.subject import Check, Fault
from bench.results import RESULT, Result
from bench.runs import FAILURE, Run
from bench.suite import Suite
from tasks import InputError

from ..store import order
from ..submission import Submission
from .agreement import ALPHA, OUTCOME, Difference, alike, by_examples, by_spread, differing, told
from .reading import read_regular, record
from .subject import Subject, label, listed

MOST_RESULT = 2**20
MORE_S, TIMES = 300.0, 10.0
"""By default the runs have so many seconds, and so many times as long as they are said to have taken."""
CAUTION = (
    "caution: this runs the submitted code on this machine, with your rights, which no static check makes harmless; do so only "
    "where there is nothing to steal, and after reading its source"
)


@dataclass(frozen=True)
class Again:
    """What to run once more.

    Arguments:
        rerun: how many runs, chosen at random, to compare with what was submitted.
        fresh: test so many, or as many as there are tasks, on newly drawn examples too.
        seed: of the choice, and of the new examples.
    """

    rerun: int
    fresh: bool
    seed: int
    workers: int | None = None
    time_limit_s: float | None = None
    say: Callable[[str], None] = lambda text: None

    def choose(self, results: Sequence[Result]) -> list[Result]:
        count = self.rerun or len({r.task for r in results})
        return sorted(random.Random(self.seed).sample(list(results), min(count, len(results))), key=order)

    @property
    def test_seed(self) -> int:
        """Of the new test sets: none that a suite is likely to have."""
        return random.Random(f"test sets {self.seed}").randrange(2**40, 2**41)


def checks(again: Again) -> list[Check]:
    """The checks that run something, in their order."""
    found = [
        Check(
            "check again",
            "`lprime check` passes here too",
            "something was sent that was not checked, or does not keep the rules everywhere; ask the submitters",
            partial(check_again, again=again),
        )
    ]
    if again.rerun:
        found.append(
            Check(
                "rerun",
                "runs chosen at random, trained once more, give what was submitted: bit for bit where device, threads, torch "
                "and numpy are the same, else mean exact match within what the submitted seeds differ by (t test, family-wise "
                f"{ALPHA:.0%})",
                "look at both results; the name of a processor can stand for two kinds of it, so try again where it was run, "
                "with the same --choice-seed, before you ask the submitters",
                partial(rerun, again=again),
            )
        )
    if again.fresh:
        found.append(
            Check(
                "fresh tests",
                "the same runs, tested on newly drawn examples, are as good: Fisher's exact test at each length where the "
                f"model is the very one, else the test of `rerun` with the sampling error added (family-wise {ALPHA:.0%})",
                "what is good on the published test sets alone knows them; read the source, then ask the submitters",
                partial(fresh, again=again),
            )
        )
    return found


def check_again(subject: Subject, again: Again) -> str:
    again.say("lprime check …")
    with written(subject) as (reference, path, _):
        try:
            report = run_checks(reference, path=path)
        except InputError as error:
            raise Fault(str(error)) from None
    if report.source_sha256 != subject.submission.source_sha256:
        raise Fault(f"the source that was checked has hash {report.source_sha256[:12]}")
    failed = [f"{f.check}: {f.found}" for f in report.findings if f.status == "failed"]
    if failed:
        raise Fault(listed(failed))
    return report.summary()


def rerun(subject: Subject, again: Again) -> str:
    chosen = again.choose(subject.results)
    found = train(subject, subject.suite, chosen, again)
    tests, faults = [], []
    for ours, theirs in zip(chosen, found, strict=True):
        differ = differing(ours, theirs)
        if differ and alike(ours, theirs):
            scores = f" ({means(ours)} submitted, {means(theirs)} found)" if "scores" in differ else ""
            faults.append(f"{label(ours)} differs in {', '.join(differ)}{scores}, though device and versions are the same")
        elif differ:
            tests += tested(subject, ours, theirs, fresh=False)
    if faults := faults + told(tests):
        raise Fault(listed(faults))
    same = sum(not differing(ours, theirs) for ours, theirs in zip(chosen, found, strict=True))
    others = f", {len(chosen) - same} by the test: no difference told" if same < len(chosen) else ""
    return f"{', '.join(map(label, chosen))}: {same} bit for bit{others}; {odds(len(subject.results), len(chosen), again.seed)}"


def fresh(subject: Subject, again: Again) -> str:
    chosen = again.choose(subject.results)
    suite = Suite.model_validate(subject.suite.model_dump() | {"test_seed": again.test_seed})
    tests, faults = [], []
    for ours, theirs in zip(chosen, train(subject, suite, chosen, again), strict=True):
        differ = differing(ours, theirs, [what for what in OUTCOME if what != "scores"])
        if differ and alike(ours, theirs):
            faults.append(f"{label(ours)} differs in {', '.join(differ)}, though device and versions are the same")
        else:
            tests += tested(subject, ours, theirs, fresh=True) if differ else by_examples(ours, theirs)
    if faults := faults + told(tests):
        raise Fault(listed(faults))
    return f"{', '.join(map(label, chosen))}: no difference told by {len(tests)} tests; test seed {again.test_seed}"


def tested(subject: Subject, ours: Result, theirs: Result, fresh: bool) -> list[Difference]:
    seeds = subject.by_task[ours.task]
    if len(seeds) < 2:
        raise Fault(
            f"{label(ours)} was run on {ours.device} with {ours.versions.get('torch')}, here on {theirs.device} with "
            f"{theirs.versions.get('torch')}, and a single seed does not tell how far apart such runs may be",
            "run it again where it was run first",
        )
    return by_spread(ours, theirs, seeds, fresh)


def means(run: Result) -> str:
    """``.99 and .12``: exact match within L and past it."""
    inside, outside = (sum(s.exact for s in part) / len(part) for part in (run.in_distribution, run.out_of_distribution))
    return f"exact match {inside:.3f} and {outside:.3f}"


def odds(runs: int, chosen: int, seed: int) -> str:
    """What such a choice can miss."""
    edited = -(-runs // 5)
    missed = comb(runs - edited, chosen) / comb(runs, chosen)
    return f"{chosen} of {runs} runs, choice seed {seed}; had {edited} been edited, {missed:.0%} of such choices would miss all"


# --- the processes


@contextmanager
def written(subject: Subject) -> Iterator[tuple[str, list[str], Path]]:
    """The very source that was verified, in a folder: the encoding's reference, where its modules are found, the folder."""
    of = subject.submission
    with tempfile.TemporaryDirectory(prefix="lprime-verify-", ignore_cleanup_errors=True) as scratch:
        source = Path(scratch) / "source"
        for path, content in subject.contents.sources.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)
        plugin = plugin_reference(of, source)
        name = re.sub(rf"(?<!['\w]){of.plugin.name}(?!['\w])", lambda _: plugin, of.name)
        yield name, [str(source)] if "/" in of.plugin.file else [], Path(scratch)


def plugin_reference(of: Submission, source: Path) -> str:
    """A file by itself is loaded as one; one in a folder is of a package, whose modules name each other."""
    if "/" not in of.plugin.file:
        return f"{source / of.plugin.file}:{of.plugin.cls}"
    module = of.plugin.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}:{of.plugin.cls}"


def train(subject: Subject, suite: Suite, chosen: Sequence[Result], again: Again) -> list[Result]:
    """Those runs, of a suite, as they come out here."""
    name, cpu = subject.submission.name, all(r.device.startswith("cpu") for r in chosen)
    again.say(f"training {', '.join(map(label, chosen))} …")
    with written(subject) as (reference, path, scratch):
        out, orders = scratch / "runs", scratch / "orders.json"
        runs = [Run(suite, r.task, name, r.seed) for r in chosen]
        order = {
            "encoding": reference,
            "name": name,
            "suite": suite.model_dump_json(),
            "runs": [[run.task, run.seed] for run in runs],
            "out": str(out),
            "workers": again.workers,
            "device": "cpu" if cpu else "auto",
        }
        orders.write_text(json.dumps(order), encoding="utf-8")
        limit = again.time_limit_s or MORE_S + TIMES * sum(r.timings.total_s for r in chosen)
        error = in_a_process(orders, path, limit)
        return [finished(run, out, error) for run in runs]


def in_a_process(orders: Path, path: Sequence[str], limit_s: float) -> str:
    """Have ``child.py`` work through the orders; what went wrong with it, if anything did."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)])}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "leaderboard.verify", str(orders)],  # -P: this folder may have a leaderboard/ too
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
            start_new_session=True,  # so that whatever it starts can be ended with it
        )
        deadline = time.monotonic() + limit_s
        try:
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            late = process.poll() is None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
        last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    return f"still at it after {limit_s:.0f} s, the limit" if late else "".join(last)


def finished(run: Run, out: Path, error: str) -> Result:
    """A run's result, read as carefully as what was submitted."""
    folder = run.folder(out)
    try:
        return record(read_regular(folder / RESULT, MOST_RESULT), Result)
    except (OSError, InputError) as fault:
        with suppress(OSError, InputError, ValueError):
            error = json.loads(read_regular(folder / FAILURE, MOST_RESULT))["error"]
        raise Fault(f"{run} gave no result: {error or fault}") from None
