"""Records of probes (``bench.probe``), of local runs and published ones, and their numbers as a data frame.

::

    <out>/<suite>/<task>/<encoding>/seed-<n>/probe-<name>.json     of local runs
    <folder>/probes/<suite>/<encoding>.jsonl                       published, one record per line
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.files import write_atomic
from bench.probe.record import ProbeRecord, Value, file_of, read_record
from bench.result import reading
from tasks import InputError

from .frame import skip

if TYPE_CHECKING:
    import pandas as pd

PROBES = "probes"
NO_COLUMNS = ("format", "device", "note", "values", "seconds")
"""Fields of a record that the frame leaves out."""
RunKey = tuple[str, str, str, int, str]
"""Fingerprint, task, encoding, seed and source hash of a run."""


def read_local(folder: Path) -> list[ProbeRecord]:
    """The records of all runs in one suite's folder, by task, encoding, seed and probe. Damaged ones are skipped with a warning
    ``Damaged``."""
    found = []
    for path in sorted(folder.glob(f"*/*/seed-*/{file_of('*')}")):
        try:
            found.append(read_record(path))
        except InputError as fault:
            skip(str(fault))
    return [record for record in found if record]


def read_published(folder: Path, suite: str = "*") -> dict[str, list[ProbeRecord]]:
    """Suite → its published records, by encoding, task, seed and probe; of all suites, or of one.

    Raises:
        InputError: a damaged line.
    """
    places = sorted(path for path in (folder / PROBES).glob(suite) if path.is_dir())
    return {place.name: list(read_lines(place)) for place in places}


def read_lines(place: Path) -> Iterator[ProbeRecord]:
    for path in sorted(place.glob("[!.]*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            with reading(f"{path}, line {number},", "is not a whole probe", "restore it from git"):
                yield ProbeRecord.model_validate_json(line)


def publish_probes(suite: str, records: Iterable[ProbeRecord], folder: Path) -> int:
    """Publish records of a suite; they replace earlier ones of the same runs and probes. Returns how many there are.

    Arguments:
        records: those of published runs alone, see ``of_runs``.
    """
    new, stored = list(records), read_published(folder, suite).get(suite, [])
    for encoding in sorted({record.encoding for record in new}):
        own = {(r.task, r.seed, r.learning_rate or 0.0, r.probe): r for r in [*stored, *new] if r.encoding == encoding}
        path = folder / PROBES / suite / f"{encoding}.jsonl"  # a name that its published runs have shown to be safe
        write_atomic(path, "".join(own[key].model_dump_json() + "\n" for key in sorted(own)))
    return len(new)


def of_runs(records: Iterable[ProbeRecord], runs: Collection[RunKey]) -> list[ProbeRecord]:
    """The records that belong to these runs, each probe in its newest version."""
    found = [r for r in records if (r.fingerprint, r.task, r.encoding, r.seed, r.source_sha256) in runs]
    newest: dict[str, int] = {}
    for record in found:
        newest[record.probe] = max(record.version, newest.get(record.probe, 0))
    return [record for record in found if record.version == newest[record.probe]]


def probe_frame(records: Iterable[ProbeRecord]) -> "pd.DataFrame":
    """One row per number: the fields of its ``ProbeRecord`` and ``Value``, except that layers count from 1 as in figures.

    Of hidden states (probe position), layer 0 is the input and n the end of the n-th layer.
    """
    import pandas as pd

    own = [name for name in ProbeRecord.model_fields if name not in NO_COLUMNS]
    rows = [(*(getattr(record, name) for name in own), *value) for record in records for value in record.values]
    frame = pd.DataFrame(rows, columns=[*own, *Value._fields])
    frame = frame.astype({name: "Int64" for name in ("length", "layer", "head")} | {"value": float, "learning_rate": float})
    frame.loc[frame["probe"] != "position", "layer"] += 1  # stored layers count from 0; of hidden states, 0 is the input
    return frame
