"""Run probes on trained runs. Every record is a file of its own; records that are missing or out of date are measured."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bench.plugins.registry import get_encoding, is_built_in
from bench.plugins.source_hash import source_hash
from bench.result import check_identity
from bench.runs.devices import available_cores
from bench.runs.progress import say
from bench.runs.run import Run
from bench.runs.shared_training import weights_file
from bench.runs.worker import RunRequest, end_with_parent
from tasks import plural

from . import context, distance, excess, growth, needle, position, similarity
from .record import ProbeRecord, Value, file_of, read_record, rounded, write_record
from .subject import Subject, load_subject, train

SIMILARITY = "similarity"
DIVERGED = "the run diverged"
NO_WEIGHTS = "some attention is not a weighted sum of values, so it has no weights"


class Probe(NamedTuple):
    """A probe of a single run."""

    version: int
    measure: Callable[[Subject], list[Value]]
    applies: Callable[[Run], bool] = lambda run: True
    """Whether it is defined for the run's task."""
    of_weights: str = ""
    """One of its quantities by layer, absent where the attention has no weights; empty if it reads no weights."""


PROBES = {
    "position": Probe(position.VERSION, position.measure),
    "distance": Probe(distance.VERSION, distance.measure, of_weights="peak_distance"),
    "growth": Probe(growth.VERSION, growth.measure, of_weights="entropy"),
    "context": Probe(context.VERSION, context.measure),
    "needle": Probe(needle.VERSION, needle.measure, needle.applies),
    "excess": Probe(excess.VERSION, excess.measure, excess.applies),
}
"""Name → probe of a single run."""
VERSIONS = {name: probe.version for name, probe in PROBES.items()} | {SIMILARITY: similarity.VERSION}
"""Name → version, of all probes."""


def applies(probe: str, run: Run) -> bool:
    """Whether a probe is defined for a run's task."""
    return probe == SIMILARITY or PROBES[probe].applies(run)


def measure_runs(runs: Sequence[Run], out: Path, probes: Iterable[str], workers: int | None = None) -> list[ProbeRecord]:
    """The records of all runs, measured in worker processes where they are missing.

    A run without weights is trained first. Similarity compares all given runs of a task.

    Raises:
        InputError: weights or a record are damaged or of another version.
    """
    torch.set_num_threads(1)  # as in the workers, so that numbers are the same
    own = [name for name in PROBES if name in probes]
    todo = [run for run in runs if not all(stored(run, out, name) for name in own if applies(name, run))]
    if without := sum(not weights_file(run, out).exists() for run in todo):
        say(f"{plural(without, 'finished run')} without stored weights: trained again")
    with runner(runs, min(workers or available_cores(), max(len(todo), 1))) as call:
        jobs = [call(run, measure_run, out, own) for run in todo]
        for run, job in zip(todo, jobs, strict=True):
            say(f"{run}: {sum(record.seconds for record in job()):.1f} s")
        records = [record for run in runs for record in measure_run(run, out, own)]
        if SIMILARITY in probes:
            records += measure_similarity(runs, out, lambda run: call(run, read_rows, out)())
    return records


@contextmanager
def runner(runs: Sequence[Run], count: int) -> Iterator[Callable[..., Callable[[], Any]]]:
    """A function that starts a call ``function(run, *arguments)`` and returns a function that waits for its value.

    Calls run in ``count`` processes with one thread each. A process that has loaded a plugin makes no other call. With one
    process and without plugins, calls run here.
    """
    if count == 1 and all(is_built_in(run.encoding) for run in runs):
        yield lambda run, function, *arguments: lambda: function(run, *arguments)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they import torch
    alone = None if all(is_built_in(run.encoding) for run in runs) else 1
    with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent, max_tasks_per_child=alone) as pool:
        yield lambda run, function, *arguments: pool.submit(in_worker, RunRequest.of(run), function, arguments).result


def in_worker(request: RunRequest, function: Callable[..., Any], arguments: tuple) -> Any:
    torch.set_num_threads(1)
    request.load_encoding()
    return function(request.run(), *arguments)


def measure_run(run: Run, out: Path, probes: Sequence[str]) -> list[ProbeRecord]:
    """The given probes of one run, measured or as stored; probes that its task does not allow are left out."""
    records, subject = [], None
    for name in probes:
        probe = PROBES[name]
        if not probe.applies(run):
            continue
        record = stored(run, out, name)
        if record is None and diverged(run, out):
            record = store(run, out, name, [], DIVERGED, 0.0)
        if record is None:
            subject = subject or trained_subject(run, out)
            start = time.perf_counter()
            values = probe.measure(subject)
            layers = {value.layer for value in values if value.quantity == probe.of_weights}
            note = NO_WEIGHTS if probe.of_weights and len(layers) < run.suite.model.layers else ""
            record = store(run, out, name, values, note, time.perf_counter() - start)
        records.append(record)
    return records


def measure_similarity(runs: Sequence[Run], out: Path, read: Callable[[Run], similarity.Rows]) -> list[ProbeRecord]:
    """The attention of each run compared with all others of its task; earlier comparisons with other runs are kept."""
    records = []
    for task in dict.fromkeys((run.suite.name, run.task) for run in runs):
        group = [run for run in runs if (run.suite.name, run.task) == task]
        known = {run: stored(run, out, SIMILARITY) for run in group}
        compared = {label(run) for run, record in known.items() if not (record and record.note)}
        complete = [r for run, r in known.items() if r and (r.note or compared <= {label(run)} | {v.at for v in r.values})]
        if len(complete) == len(group):
            records += complete
            continue
        start = time.perf_counter()
        rows = {run: read(run) for run in group}
        values: dict[Run, list[Value]] = {run: [] for run in group}
        for one, other in combinations(group, 2):
            found = similarity.compare(rows[one], rows[other], label(other))
            values[one] += found
            values[other] += [value._replace(at=label(one)) for value in found]
        seconds = (time.perf_counter() - start) / len(group)  # a run's share of the time
        others = {label(run) for run in group}
        for run, record in known.items():
            kept = [value for value in record.values if value.at not in others] if record else []
            note = "" if rows[run] else DIVERGED if diverged(run, out) else NO_WEIGHTS
            records.append(store(run, out, SIMILARITY, [*kept, *values[run]], note, seconds))
    return records


def read_rows(run: Run, out: Path) -> similarity.Rows:
    """The attention that similarity compares; empty if the run diverged."""
    return {} if diverged(run, out) else similarity.read_rows(trained_subject(run, out))


def label(run: Run) -> str:
    """The name of a run in another one's record."""
    return f"{run.encoding} seed {run.seed}"


def stored(run: Run, out: Path, probe: str) -> ProbeRecord | None:
    """The record of a run's probe, if there is one of the present version of the probe, the suite and the encoding.

    Raises:
        InputError: the file is damaged, or of another run.
    """
    path = run.folder(out) / file_of(probe)
    record = read_record(path)
    if record is None:
        return None
    check_identity(path, f"{record.path} {record.probe}", f"{run.path} {probe}")
    found = record.version, record.fingerprint, record.source_sha256
    current = VERSIONS[probe], run.suite.fingerprint, source_hash(get_encoding(run.encoding))
    return record if found == current else None


def store(run: Run, out: Path, probe: str, values: Iterable[Value], note: str, seconds: float) -> ProbeRecord:
    """Write the record of a finished run's probe, and return it."""
    result = run.result(out)
    record = ProbeRecord(
        probe=probe,
        version=VERSIONS[probe],
        **run.identity,
        encoding=run.encoding,
        source_sha256=source_hash(get_encoding(run.encoding)),
        device=result.device if result else "",
        note=note,
        values=[rounded(value) for value in values],
        seconds=round(seconds, 3),
    )
    write_record(run.folder(out), record)
    return record


def trained_subject(run: Run, out: Path) -> Subject:
    if not weights_file(run, out).exists():
        train(run, out)
    return load_subject(run, out)


def diverged(run: Run, out: Path) -> bool:
    result = run.result(out)
    return result is not None and result.status == "diverged"
