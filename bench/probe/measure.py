"""Run probes on trained runs. Every record is a file of its own; records that are missing or out of date are measured."""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import torch

from bench.files import write_atomic
from bench.plugins.source_hash import source_hash
from bench.runs.devices import device_name, resolve_device
from bench.runs.progress import say
from bench.runs.run import Run
from bench.runs.shared_training import weights_file
from tasks import plural

from . import attention, position
from .record import ProbeRecord, Value, file_of, read_record
from .subject import Subject, trained_subject

DIGITS = 5
"""Significant digits of a stored number."""


PROBES: dict[str, tuple[int, Callable[[Subject], list[Value]]]] = {
    "position": (1, position.measure),
    "growth": (2, attention.growth),
    "similarity": (2, attention.similarity),
}
"""Name → version, and what measures it."""


def measure_runs(runs: Sequence[Run], out: Path, probes: Collection[str]) -> list[ProbeRecord]:
    """The records of finished runs, measured where they are missing.

    A run without weights is trained first. One that diverged has no values.

    Raises:
        InputError: weights or a record are damaged or of another version.
    """
    torch.set_num_threads(1)  # as in the workers, so that numbers are the same
    wanted = [name for name in PROBES if name in probes]
    missing = {run: names for run in runs if (names := [name for name in wanted if not stored(run, out, name)])}
    if without := sum(not weights_file(run, out).exists() for run in missing):
        say(f"{plural(without, 'finished run')} without stored weights: trained again")
    for run, names in missing.items():
        begin, result, kept = time.perf_counter(), run.result(out), weights_file(run, out).exists()
        subject = None if result and result.status == "diverged" else trained_subject(run, out)
        device = result.device if result and (kept or not subject) else device_name(resolve_device("auto"))
        for name in names:
            start, (version, measure) = time.perf_counter(), PROBES[name]
            values = measure(subject) if subject else []
            record = ProbeRecord(
                probe=name,
                version=version,
                **run.identity,
                encoding=run.encoding,
                source_sha256=source_hash(run.cls),
                device=device,
                note="" if subject else "the run diverged",
                values=[v if v.value is None else v._replace(value=float(f"{v.value:.{DIGITS}g}")) for v in values],
                seconds=round(time.perf_counter() - start, 3),
            )
            write_atomic(run.folder(out) / file_of(name), record.model_dump_json() + "\n")
        say(f"{run}: {time.perf_counter() - begin:.1f} s")
    return [known for run in runs for name in wanted if (known := stored(run, out, name))]


def stored(run: Run, out: Path, probe: str) -> ProbeRecord | None:
    """The record of a run's probe, if there is one of the present version of the probe, the suite and the encoding.

    Raises:
        InputError: the file is damaged.
    """
    record = read_record(run.folder(out) / file_of(probe))
    current = PROBES[probe][0], run.suite.fingerprint, source_hash(run.cls)
    return record if record and (record.version, record.fingerprint, record.source_sha256) == current else None
