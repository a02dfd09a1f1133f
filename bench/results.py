"""What a run leaves behind: one ``result.json``, complete enough to recompute every number of the board from it alone."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks import InputError

from .files import write_atomic

RESULT = "result.json"
QUIET = 0.9
"""A run that had this share of a core to itself was timed on a quiet machine."""

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Record(BaseModel):
    """A part of a result: strict, so that a field nobody knows is refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LengthScore(Record):
    """Accuracy at one test length."""

    length: Positive
    exact: Share
    """Share of the examples whose answer and ``<eos>`` are all right."""
    token: Share
    """Share of the answer tokens (``<eos>`` included) that are right."""
    count: Positive
    """Examples."""
    tokens: Positive
    """Answer tokens."""
    chance: Annotated[float, Field(ge=0, lt=1)]
    """Exact match of guessing."""


class EncodingRecord(Record):
    """Which encoding ran, with what settings and from what source."""

    name: str
    family: str
    ranking: str
    """Ranking class: ``standard``, ``longer`` (saw lengths past L) or ``task-aware`` (knows the task's digits)."""
    year: int
    title: str
    link: str
    settings: dict[str, Any]
    source_sha256: str
    """Of all source that makes it: see ``bench.encodings.source_hash``."""


class Timings(Record):
    """Seconds, but for the step in milliseconds. The only numbers here, beside dates, that differ between two equal runs."""

    step_ms: float
    """Median wall time of a training step."""
    train_s: float
    evaluate_s: float
    total_s: float
    """Everything from the start of the run, over all of its interruptions."""
    cpu_share: float | None = None
    """CPU seconds of the process by wall seconds, while it trained (since the last interruption): under ``QUIET`` the machine
    was busy with something else, and the times tell of that too. None where it says nothing: on a GPU, with several threads."""

    @property
    def busy(self) -> bool:
        """Whether the machine is known to have been busy with something else."""
        return self.cpu_share is not None and self.cpu_share < QUIET


class Parameters(Record):
    """Trained numbers."""

    model: Positive
    """Of the whole model, encoding included."""
    encoding: Annotated[int, Field(ge=0)]


class Result(Record):
    """One finished run: one task, one encoding, one seed."""

    format: Literal[1] = 1
    suite: str
    suite_version: int
    fingerprint: str
    """Of the suite: results of different fingerprints never share a table."""
    task: str
    variant: str
    train_length: int
    longest_seen: int
    """The longest length met in training; above ``train_length`` only for encodings with a declared extra stage."""
    encoding: EncodingRecord
    seed: int
    status: Literal["done", "diverged"]
    """``diverged``: the loss stopped being finite; that is a result, and all its scores are zero."""
    steps: int
    """Training steps taken."""
    loss: list[tuple[int, float]]
    """Step and mean training loss since the entry before."""
    scores: Annotated[list[LengthScore], Field(min_length=1)]
    """By length, ascending."""
    parameters: Parameters
    timings: Timings
    data_hash: str
    """Hash of all test examples (``tasks.content_hash``)."""
    versions: dict[str, str]
    device: str
    threads: int
    started: str
    """ISO 8601, UTC."""
    finished: str
    commit: str | None = None
    """Of the checkout that ran, with ``-dirty`` behind it where its code was changed; None outside of a checkout."""

    @model_validator(mode="after")
    def ascending(self) -> "Result":
        lengths = [s.length for s in self.scores]
        if lengths != sorted(set(lengths)):
            raise ValueError(f"scores must stand by length, ascending and each once, got {lengths}")
        return self

    @property
    def in_distribution(self) -> list[LengthScore]:
        return [s for s in self.scores if s.length <= self.train_length]

    @property
    def out_of_distribution(self) -> list[LengthScore]:
        return [s for s in self.scores if s.length > self.train_length]


def write_result(folder: Path, result: Result) -> None:
    write_atomic(folder / RESULT, result.model_dump_json(indent=1) + "\n")


def read_result(path: Path) -> Result:
    """Read one ``result.json``.

    Raises:
        InputError: the file cannot be read, is cut short or does not hold a result; the message names file and fault.
    """
    try:
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise InputError(f"{path} is not a whole result ({first_fault(error)}); delete it to run it again") from error


def first_fault(error: ValidationError) -> str:
    """The first thing pydantic found wrong, on one line: where, and what."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(map(str, fault["loc"]))
    return f"{where}: {fault['msg']}" if where else str(fault["msg"]).splitlines()[0]
