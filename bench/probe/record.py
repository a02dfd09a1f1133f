"""The numbers of one probe of one run, ``probe-<name>.json`` in the run's folder."""

from pathlib import Path
from typing import Literal, NamedTuple

from bench.result import Record, read_json


class Value(NamedTuple):
    """One number."""

    quantity: str
    value: float | None
    """None where it does not exist, such as a slope of zeros."""
    length: int | None = None
    """Test length, in the task's unit."""
    layer: int | None = None
    """From 0. Of hidden states, 0 is the input of the first layer, and the number of layers the end of the last. Figures and
    ``lprime export`` count other layers from 1."""
    head: int | None = None
    at: str = ""
    """What else it is of: depth of a needle, or the other run of a comparison."""


class ProbeRecord(Record):
    """One probe of one run."""

    format: Literal[1] = 1
    probe: str
    version: int
    """Of the probe: results of different versions do not compare."""
    suite: str
    suite_version: int
    fingerprint: str
    task: str
    variant: str
    train_length: int
    encoding: str
    seed: int
    learning_rate: float | None = None
    """None in records of suites without a sweep."""
    source_sha256: str
    """Hash of the encoding's source, as in ``Result``."""
    device: str = ""
    """Where the model was trained, as in ``Result``; empty in older records. On another kind of processor rounding differs, and
    with it the model."""
    note: str = ""
    """Why there are no values."""
    values: list[Value]
    seconds: float
    """Time of the measurement."""


def file_of(probe: str) -> str:
    return f"probe-{probe}.json"


def read_record(path: Path) -> ProbeRecord | None:
    """One record; None if there is none.

    Raises:
        InputError: the file is damaged.
    """
    return read_json(path, ProbeRecord, "is not a whole probe", "delete it to measure it again")
