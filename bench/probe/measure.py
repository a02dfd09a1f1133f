"""Run probes on trained runs. Every record is a file of its own; records that are missing or out of date are measured."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.devices import available_cores
from bench.runs.progress import say
from bench.runs.run import Run
from bench.runs.shared_training import weights_file
from bench.runs.worker import RunRequest, end_with_parent
from tasks import plural
from tasks.key_retrieval import KeyRetrieval
from tasks.language import Language

from . import answers, attention, position
from .record import ProbeRecord, Value, file_of, read_record, write_record
from .subject import Subject, trained_subject

SIMILARITY = "similarity"
DIVERGED = "the run diverged"
NO_WEIGHTS = "some attention is not a weighted sum of values, so it has no weights"
DIGITS = 5
"""Significant digits of a stored number."""


class Probe(NamedTuple):
    """A probe of a single run."""

    version: int
    measure: Callable[[Subject], list[Value]]
    without: str = ""
    """Why there may be no values."""
    applies: Callable[[Run], bool] = lambda run: True
    """Whether it is defined for the run's task."""


def has_needle(run: Run) -> bool:
    return run.task == KeyRetrieval.name and run.suite.spec(run.task).variant == "needle"


PROBES = {
    "position": Probe(1, position.measure),
    "distance": Probe(1, attention.distance, NO_WEIGHTS),
    "growth": Probe(2, attention.growth),
    "context": Probe(1, answers.context, "no answer token has more tokens before it than a sequence of length L"),
    "needle": Probe(1, answers.needle, applies=has_needle),
    "excess": Probe(1, answers.excess, applies=lambda run: run.task == Language.name),
}
"""Name → probe of a single run."""
VERSIONS = {name: probe.version for name, probe in PROBES.items()} | {SIMILARITY: 1}
"""Name → version, of all probes."""


def applies(probe: str, run: Run) -> bool:
    """Whether a probe is defined for a run's task."""
    return probe == SIMILARITY or PROBES[probe].applies(run)


def measure_runs(runs: Sequence[Run], out: Path, probes: Collection[str], workers: int | None = None) -> list[ProbeRecord]:
    """The records of all runs, measured where they are missing.

    A run without weights is trained first. Similarity compares all given runs of a task.

    Arguments:
        workers: processes; by default one a core.

    Raises:
        InputError: weights or a record are damaged or of another version.
    """
    torch.set_num_threads(1)  # as in the workers, so that numbers are the same
    own = [name for name in PROBES if name in probes]
    keys = dict.fromkeys((run.suite.name, run.task) for run in runs) if SIMILARITY in probes else {}
    groups = [[run for run in runs if (run.suite.name, run.task) == key] for key in keys]
    to_compare = {run for group in groups if not is_complete(group, out) for run in group}
    todo = [r for r in runs if r in to_compare or not all(stored(r, out, name) for name in own if applies(name, r))]
    if without := sum(not weights_file(run, out).exists() for run in todo):
        say(f"{plural(without, 'finished run')} without stored weights: trained again")
    found = each(partial(measure_run, out=out, probes=own, read=bool(to_compare)), todo, workers or available_cores())
    rows = {}
    for run, (seconds, read) in zip(todo, found, strict=True):
        say(f"{run}: {seconds:.1f} s")
        rows[run] = read
    records = [record for run in runs for name in own if applies(name, run) and (record := stored(run, out, name))]
    for group in groups:
        if group[0] in to_compare:
            compare(group, rows, out)
        records += [record for run in group if (record := stored(run, out, SIMILARITY))]
    return records


def each(function: Callable[[Run], Any], runs: Sequence[Run], workers: int) -> Iterator[Any]:
    """``function`` of each run in turn, in processes with one thread each, or here if one is enough."""
    if min(workers, len(runs)) < 2:
        yield from map(function, runs)
        return
    with ProcessPoolExecutor(min(workers, len(runs)), get_context("spawn"), end_with_parent) as pool:
        yield from pool.map(partial(in_worker, function), map(RunRequest.of, runs))


def in_worker(function: Callable[[Run], Any], request: RunRequest) -> Any:
    torch.set_num_threads(1)
    request.load_encoding()
    return function(request.run())


def measure_run(run: Run, out: Path, probes: Sequence[str], read: bool) -> tuple[float, attention.Rows]:
    """Measure what is missing of the given probes of one run.

    Returns:
        Seconds, and the attention for ``compare`` if it is to be read and the run did not diverge.
    """
    start = time.perf_counter()
    if diverged(run, out):
        for name in probes:
            if applies(name, run):
                store(run, out, name, [], DIVERGED, 0.0)
        return 0.0, {}
    subject = trained_subject(run, out)
    for name in probes:
        if applies(name, run) and not stored(run, out, name):
            begin = time.perf_counter()
            values = PROBES[name].measure(subject)
            store(run, out, name, values, "" if values else PROBES[name].without, time.perf_counter() - begin)
    return time.perf_counter() - start, attention.read_rows(subject) if read else {}


def is_complete(group: Sequence[Run], out: Path) -> bool:
    """Whether the records of similarity of a group compare all its runs, except those with a note, which have no numbers."""
    known = {label(run): stored(run, out, SIMILARITY) for run in group}
    compared = {name for name, record in known.items() if not (record and record.note)}
    return all(r and (r.note or compared <= {name} | {value.at for value in r.values}) for name, r in known.items())


def compare(group: Sequence[Run], rows: dict[Run, attention.Rows], out: Path) -> None:
    """Store the likeness of each run's attention to that of all others; earlier comparisons with other runs are kept."""
    start, names = time.perf_counter(), {label(run) for run in group}
    values: dict[Run, list[Value]] = {}
    for run in group:
        record = stored(run, out, SIMILARITY)
        values[run] = [value for value in record.values if value.at not in names] if record else []
    for one, other in combinations(group, 2):
        found = attention.compare(rows[one], rows[other], label(other))
        values[one] += found
        values[other] += [value._replace(at=label(one)) for value in found]
    seconds = (time.perf_counter() - start) / len(group)  # a run's share of the time
    for run in group:
        note = "" if rows[run] else DIVERGED if diverged(run, out) else NO_WEIGHTS
        store(run, out, SIMILARITY, values[run], note, seconds)


def label(run: Run) -> str:
    """The name of a run in another one's record."""
    return f"{run.encoding} seed {run.seed}"


def stored(run: Run, out: Path, probe: str) -> ProbeRecord | None:
    """The record of a run's probe, if there is one of the present version of the probe, the suite and the encoding.

    Raises:
        InputError: the file is damaged.
    """
    record = read_record(run.folder(out) / file_of(probe))
    current = VERSIONS[probe], run.suite.fingerprint, source_hash(get_encoding(run.encoding))
    return record if record and (record.version, record.fingerprint, record.source_sha256) == current else None


def store(run: Run, out: Path, probe: str, values: Sequence[Value], note: str, seconds: float) -> None:
    """Write the record of a finished run's probe."""
    result = run.result(out)
    record = ProbeRecord(
        probe=probe,
        version=VERSIONS[probe],
        **run.identity,
        encoding=run.encoding,
        source_sha256=source_hash(get_encoding(run.encoding)),
        device=result.device if result else "",
        note=note,
        values=[v if v.value is None else v._replace(value=float(f"{v.value:.{DIGITS}g}")) for v in values],
        seconds=round(seconds, 3),
    )
    write_record(run.folder(out), record)


def diverged(run: Run, out: Path) -> bool:
    result = run.result(out)
    return result is not None and result.status == "diverged"
