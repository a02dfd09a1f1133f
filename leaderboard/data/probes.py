"""Records of probes (``bench.probe``): those next to local runs, the published ones, and both as one tidy table.

::

    <out>/<suite>/<task>/<encoding>/seed-<n>/probe-<name>.json     of local runs
    <folder>/probes/<suite>/<encoding>.jsonl                       published, one record per line
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.probe.record import ProbeRecord, Value, file_of, read_record
from bench.result import Result, reading
from bench.suites.suite import Suite

from .collect import run_files
from .file_names import file_name
from .grid import Grid
from .record_files import read_each, stored_lines, write_if_changed
from .store import RESULTS, read_runs

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

PROBES = "probes"
HIDDEN_STATES = "position"
"""The probe of hidden states, of which layer 0 is the input."""
HEADER = {
    "suite": "name of the suite",
    "suite_version": "version of the suite",
    "fingerprint": "hash of everything that can change a number of a run; rows with different fingerprints do not compare",
    "task": "name of the task",
    "variant": "variant of the task",
    "train_length": "L, in the task's units",
    "encoding": "name of the encoding",
    "seed": "seed of the run",
    "source_sha256": "hash of the encoding's source",
    "probe": "name of the probe: see bench/probe",
    "version": "version of the probe; rows with different versions do not compare",
}
VALUE = {
    "quantity": "what was measured",
    "value": "the number; null where it does not exist",
    "length": "length of the examples, in the task's units; null if it is of several",
    "layer": "layer, from 1, as in figures; of hidden states (probe position), 0 is the input and n the end of the n-th layer",
    "head": "head, from 0; null for a mean over heads",
    "at": "further coordinate: eighth of the prompt, position, or the other run of a comparison",
}


def read_local(folder: Path) -> list[ProbeRecord]:
    """The records of all runs in one suite's folder, by task, encoding, seed and probe.

    Raises:
        InputError: a damaged file.
    """
    found = read_each(((path,) for path, _ in run_files(folder, file_of("*"))), read_record)
    return [record for record in found if record]


def read_published(folder: Path, suite: str = "*") -> dict[str, list[ProbeRecord]]:
    """Suite → its published records, by encoding, task, seed and probe; of all suites, or of one.

    Raises:
        InputError: a damaged line.
    """
    places = sorted(path for path in (folder / PROBES).glob(suite) if path.is_dir())
    return {place.name: read_each(stored_lines(place), read_line) for place in places}


def read_line(line_place: str, line: bytes, file: str) -> ProbeRecord:
    with reading(f"{line_place},", "is not a whole probe", "restore it from git"):
        return ProbeRecord.model_validate_json(line)


def publish_probes(suite: Suite, out: Path, folder: Path, encodings: Sequence[str] | None = None) -> int:
    """Publish the records of a suite's present version; they replace earlier ones of the same runs and probes.

    Only those of ranked runs are published: publish the runs before.

    Returns:
        The number of records published now.
    """
    new = of_runs(read_local(out / suite.name), suite.fingerprint, read_runs(folder / RESULTS / suite.name))
    new = [r for r in new if not encodings or r.encoding in encodings]
    stored = read_published(folder, suite.name).get(suite.name, [])
    for encoding in sorted({record.encoding for record in new}):
        records = {(r.task, r.seed, r.probe): r for r in [*stored, *new] if r.encoding == encoding}
        path = folder / PROBES / suite.name / file_name(encoding)
        write_if_changed(path, "".join(records[key].model_dump_json() + "\n" for key in sorted(records)))
    return len(new)


def of_runs(records: Iterable[ProbeRecord], fingerprint: str, runs: Iterable[Result]) -> list[ProbeRecord]:
    """The records that belong to runs of one version of a suite, each probe in its newest version."""
    known = {(r.task, r.encoding.name, r.seed, r.encoding.source_sha256) for r in runs if r.fingerprint == fingerprint}
    found = [r for r in records if r.fingerprint == fingerprint and (r.task, r.encoding, r.seed, r.source_sha256) in known]
    newest: dict[str, int] = {}
    for record in found:
        newest[record.probe] = max(record.version, newest.get(record.probe, 0))
    return [record for record in found if record.version == newest[record.probe]]


def with_probes(suites: Mapping[str, Sequence[Grid]], folder: Path) -> dict[str, list[Grid]]:
    """Add the published probes to the newest grid of each suite.

    Raises:
        InputError: a damaged line.
    """

    def own(name: str, grid: Grid) -> list[ProbeRecord]:
        return of_runs(read_published(folder, name).get(name, ()), grid.fingerprint, grid.all_runs)

    return {name: [replace(grid, probes=own(name, grid)), *older] for name, (grid, *older) in suites.items()}


def as_shown(record: ProbeRecord) -> list[Value]:
    """The values of a record with its layers counted as in figures: stored ones count from 0, also those of attention."""
    if record.probe == HIDDEN_STATES:
        return record.values
    return [value if value.layer is None else value._replace(layer=value.layer + 1) for value in record.values]


def probe_table(records: Iterable[ProbeRecord]) -> "pa.Table":
    """One row per number, with what it is of."""
    import pyarrow as pa

    records = list(records)
    integers = {"suite_version", "train_length", "seed", "version", "length", "layer", "head"}
    columns, fields = [], []
    for name, meaning in (HEADER | VALUE).items():
        kind = pa.int64() if name in integers else pa.float64() if name == "value" else pa.string()
        if name in HEADER:
            cells = [getattr(record, name) for record in records for _ in record.values]
        else:
            cells = [getattr(value, name) for record in records for value in as_shown(record)]
        columns.append(pa.array(cells, kind))
        fields.append(pa.field(name, kind, metadata={"meaning": meaning}))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
