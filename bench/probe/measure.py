"""Run probes on trained runs. Every record is a file of its own; those that are missing or out of date are measured."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.run import Run

from . import context, distance, excess, growth, needle, position, similarity
from .record import ProbeRecord, Value, rounded, stored, write_record
from .subject import Subject, load_subject, train, weights_file

SIMILARITY = "similarity"
DIVERGED = "the run diverged"
NO_WEIGHTS = "some attention is not a weighted sum of values, so it has no weights"


class Probe(NamedTuple):
    about: str
    version: int
    measure: Callable[[Subject], list[Value]]
    applies: Callable[[Run], bool] = lambda run: True
    """Whether it is defined for the run's task."""
    weights: bool = False
    """Whether it reads attention weights."""


PROBES = {
    "position": Probe("absolute position read out of each layer", position.VERSION, position.measure),
    "distance": Probe("how far back each head looks", distance.VERSION, distance.measure, weights=True),
    "growth": Probe("what changes in the attention as sequences grow", growth.VERSION, growth.measure, weights=True),
    "context": Probe("what is lost without the tokens before the last L", context.VERSION, context.measure),
    "needle": Probe("key retrieval by depth of the key", needle.VERSION, needle.measure, needle.applies),
    "excess": Probe("language: nats above the optimum", excess.VERSION, excess.measure, excess.applies),
}
"""Name → probe of a single run."""
ABOUT = {name: probe.about for name, probe in PROBES.items()} | {SIMILARITY: "whose attention is like whose"}
"""Name → what it measures, of all probes."""


def make_record(run: Run, probe: str, version: int, values: Iterable[Value], note: str, start: float) -> ProbeRecord:
    return ProbeRecord(
        probe=probe,
        version=version,
        **run.identity,
        encoding=run.encoding,
        source_sha256=source_hash(get_encoding(run.encoding)),
        note=note,
        values=[rounded(value) for value in values],
        seconds=round(time.perf_counter() - start, 3),
    )


def measure_run(run: Run, out: Path, probes: Sequence[str]) -> list[ProbeRecord]:
    """The given probes of one run, measured or as stored. A run without weights is trained first; one without result too.

    Raises:
        InputError: weights or a record are damaged or of another version.
    """
    source, records, subject = source_hash(get_encoding(run.encoding)), [], None
    for name in probes:
        probe = PROBES[name]
        if not probe.applies(run):
            continue
        record = stored(run, out, name, probe.version, source)
        if record is None:
            start, note = time.perf_counter(), ""
            values: list[Value] = []
            if diverged(run, out):
                note = DIVERGED
            else:
                subject = subject or trained_subject(run, out)
                start = time.perf_counter()
                values = probe.measure(subject)
                layers = {value.layer for value in values if value.quantity in ("peak_distance", "entropy")}
                if probe.weights and len(layers) < run.suite.model.layers:
                    note = NO_WEIGHTS
            record = make_record(run, name, probe.version, values, note, start)
            write_record(run.folder(out), record)
        records.append(record)
    return records


def is_measured(run: Run, out: Path, probes: Iterable[str]) -> bool:
    """Whether ``measure_run`` would only read records."""
    source = source_hash(get_encoding(run.encoding))
    return all(stored(run, out, name, p.version, source) for name in probes if (p := PROBES[name]).applies(run))


def trained_subject(run: Run, out: Path) -> Subject:
    if not weights_file(run, out).exists():
        train(run, out)
    return load_subject(run, out)


def diverged(run: Run, out: Path) -> bool:
    result = run.result(out)
    return result is not None and result.status == "diverged"


def read_rows(run: Run, out: Path) -> similarity.Rows:
    """The attention that ``measure_similarity`` compares; empty if the run diverged."""
    return {} if diverged(run, out) else similarity.read_rows(trained_subject(run, out))


def measure_similarity(
    runs: Sequence[Run], out: Path, read: Callable[[Run, Path], similarity.Rows] = read_rows
) -> list[ProbeRecord]:
    """The attention of each run compared with that of all others of its task, which are added to those stored before.

    Arguments:
        read: ``read_rows``, or the same in a process of its own.

    Raises:
        InputError: weights or a record are damaged or of another version.
    """
    records = []
    for task in dict.fromkeys((run.suite.name, run.task) for run in runs):
        group = [run for run in runs if (run.suite.name, run.task) == task]
        known = {}
        for run in group:
            record = stored(run, out, SIMILARITY, similarity.VERSION, source_hash(get_encoding(run.encoding)))
            known[run] = (record, {v.at for v in record.values} if record else set())
        # One that diverged, or has no weights, is in no other's record.
        comparable = {label(run) for run in group if not (record := known[run][0]) or not record.note}
        if all(record and (record.note or comparable - {label(run)} <= have) for run, (record, have) in known.items()):
            records += [record for record, _ in known.values() if record]
            continue
        start = time.perf_counter()
        rows = {run: read(run, out) for run in group}
        values: dict[Run, list[Value]] = {run: [] for run in group}
        for n, one in enumerate(group):
            for other in group[n + 1 :]:
                found = similarity.compare(rows[one], rows[other], label(other))
                values[one] += found
                values[other] += [value._replace(at=label(one)) for value in found]
        start += (time.perf_counter() - start) * (1 - 1 / len(group))  # a run's share of the time
        for run in group:
            others = {label(other) for other in group}
            record = known[run][0]
            kept = [value for value in record.values if value.at not in others] if record else []
            note = "" if rows[run] else DIVERGED if diverged(run, out) else NO_WEIGHTS
            record = make_record(run, SIMILARITY, similarity.VERSION, [*kept, *values[run]], note, start)
            write_record(run.folder(out), record)
            records.append(record)
    return records


def label(run: Run) -> str:
    """The name of a run in another one's record."""
    return f"{run.encoding} seed {run.seed}"
