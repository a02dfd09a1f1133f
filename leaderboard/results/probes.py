"""Records of probes (``bench.probe``) in the folders of runs, and their numbers as a data frame."""

from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd

from bench.probe.record import ProbeRecord, Value, file_of, read_record
from bench.result import unless_damaged
from tasks import InputError, unknown

NO_COLUMNS = ("format", "device", "note", "values", "seconds")
"""Fields of a record that the frame leaves out."""


def read_probes(out: Path, suites: Collection[str] | None = None) -> list[ProbeRecord]:
    """The records of all runs, or of these suites' runs, by suite, task, encoding and seed. Damaged ones are skipped with a
    warning ``Damaged``.

    Raises:
        InputError: there are none, or none of one of the suites.
    """
    paths = sorted(out.glob(f"*/*/*/seed-*/{file_of('*')}"))
    records = [record for path in paths if (record := unless_damaged(read_record, path))]
    if not records:
        raise InputError(f"no probes under {out}; `lprime probe SUITE` measures them")
    known = {record.suite for record in records}
    for name in suites or ():
        if name not in known:
            raise unknown("suite with probes", name, known)
    return [record for record in records if not suites or record.suite in suites]


def probe_frame(records: Iterable[ProbeRecord]) -> pd.DataFrame:
    """One row per number: the fields of its ``ProbeRecord`` and ``Value``, except that layers count from 1 as in figures.

    Of hidden states (probe position), layer 0 is the input and n the end of the n-th layer.
    """
    own = [name for name in ProbeRecord.model_fields if name not in NO_COLUMNS]
    rows = [(*(getattr(record, name) for name in own), *value) for record in records for value in record.values]
    frame = pd.DataFrame(rows, columns=[*own, *Value._fields])
    frame = frame.astype({name: "Int64" for name in ("length", "layer", "head")} | {"value": float, "learning_rate": float})
    frame.loc[frame["probe"] != "position", "layer"] += 1  # stored layers count from 0; of hidden states, 0 is the input
    return frame
