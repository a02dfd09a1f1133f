"""The file of measurements: one JSON line each, appended when it is done, so that nothing is measured twice."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from bench.result import Record, first_fault
from bench.speed.record import Step
from bench.suites.suite import load_suite
from tasks import InputError


class Equality(Record):
    """One encoding on the GPU against the CPU; largest relative differences over the steps."""

    kind: Literal["equality"] = "equality"
    key: str
    """The encoding."""
    loss: float
    gradient: float
    """‖g − g′‖ / ‖g‖ of all parameters together."""
    bf16_loss: float
    bf16_gradient: float
    past_logits: float
    """‖y − y′‖ / ‖y‖ of the logits at the longest test length."""
    past_bf16_logits: float
    graph_loss: float | None
    """Recorded step against the same step without a graph; None if it fell back."""
    graph_gradient: float | None
    fallback: str
    """Why it trains without a CUDA graph; empty if it is recorded."""


class Steps(Record):
    """Step times on one suite and task, of all contestants."""

    kind: Literal["steps"] = "steps"
    key: str
    steps: list[Step]
    left_out: dict[str, str] = {}
    """Library's model that could not be trained → its error."""


class Packed(Record):
    """Several trainings at a time on one GPU."""

    kind: Literal["packed"] = "packed"
    key: str
    suite: str
    at_once: int
    mps: bool
    steps_per_s: float
    """Of all runs together."""
    runs_per_hour: float
    """At that rate, without evaluation and the start of runs."""
    busy: float | None = None
    """Mean share of time in which any kernel runs, by ``nvidia-smi``."""
    memory_mb: float | None = None
    """GPU memory in use by all the processes, those at rest included, MiB."""


class Trial(Record):
    """One candidate of a task of ``standard``, judged by the criteria in ``bench/suites/CALIBRATION.md``."""

    kind: Literal["calibration"] = "calibration"
    key: str
    task: str
    train_length: int
    steps: int
    seeds: int
    """Runs of each encoding; fewer than planned if it was given up."""
    longest: int
    """Greatest L′ up to which it is graded; 0 if there is none."""
    learned: dict[str, float]
    """Encoding → mean exact match at l ≤ L."""
    floor: float
    """Share of the cells up to that L′, or to the least that was looked at, that score under the floor."""
    ceiling: float
    """The same, over the ceiling."""
    met: bool
    """Whether it is learned and graded."""


class Grid(Record):
    """Progress of a whole grid."""

    kind: Literal["grid"] = "grid"
    key: str
    done: int
    """Finished runs, those of earlier calls included."""
    failed: int = 0
    asked: int
    seconds: float
    """Of this call."""


class Failure(Record):
    """A measurement that ended with an error; it is tried again by the next call."""

    kind: Literal["failure"] = "failure"
    key: str
    """Kind and key of the measurement."""
    error: str


class Machine(Record):
    """Where the following lines were measured."""

    kind: Literal["machine"] = "machine"
    key: str
    """The GPU's name."""
    date: str
    cores: int
    versions: dict[str, str]
    quick: bool


Measurement = Annotated[Equality | Steps | Packed | Trial | Grid | Failure | Machine, Field(discriminator="kind")]
ADAPTER: TypeAdapter[Measurement] = TypeAdapter(Measurement)


def label(suite: str) -> str:
    """Name and version of a suite, for keys and titles."""
    found = load_suite(suite)
    return f"{found.name}, version {found.version}"


def error_text(error: Exception) -> str:
    """Type and message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def read_measurements(path: Path) -> list[Measurement]:
    """The lines of a file, none if it does not exist; a last line that was cut off is dropped.

    Raises:
        InputError: another line is no measurement.
    """
    found: list[Measurement] = []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            found.append(ADAPTER.validate_json(line))
        except ValidationError as error:
            if number < len(lines):
                raise InputError(f"{path}, line {number}, is no measurement of bench.gpu ({first_fault(error)})") from error
    return found


def append(path: Path, measurement: Measurement) -> None:
    """Add a line; a last line that was cut off is removed first."""
    with path.open("ab+") as file:
        file.seek(0)
        data = file.read()
        if not data.endswith(b"\n"):  # keep only whole lines
            file.truncate(data.rfind(b"\n") + 1)
        file.write(measurement.model_dump_json().encode() + b"\n")
