"""The result of a run, ``result.json``: everything needed to compute any number on the leaderboard."""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from tasks import InputError

from .files import render, write_atomic

T = TypeVar("T")
RESULT = "result.json"
RUN_FOLDER = re.compile(r"seed-(0|[1-9][0-9]*)(?:-rate-([0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?))?")
"""The last part of ``run_path``, with the seed and the learning rate as its groups."""
TENTHS = 10
"""Parts of an answer by which ``LengthScore.first_wrong`` counts."""

RankingClass = Literal["standard", "longer", "task-aware"]
"""``longer``: trains on lengths past L. ``task-aware``: uses what the tokens mean. Each class has its own table."""
RANKING_CLASSES: tuple[RankingClass, ...] = get_args(RankingClass)
"""In this order: a composition has the last of its parts' classes."""

SourceKind = Literal["official code", "port", "paper only", "second-hand", "own variant"]
"""What an encoding was written from and compared with, the surest first: the authors' code, a widely used port of it, the
complete paper, what others say of it (it may differ from the published method); or a variant that no paper describes."""
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)

Positive = Annotated[int, Field(ge=1, le=2**53)]  # exact as a float
Whole = Annotated[int, Field(ge=0, le=2**53)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")]


class Record(BaseModel):
    """Base of all records: unknown fields are errors, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LengthScore(Record):
    """Scores at one test length, all from one teacher-forced pass."""

    length: Positive
    exact: Share
    """Share of the examples whose whole answer, ``<eos>`` included, is right."""
    token: Share
    """Share of the answer tokens (``<eos>`` included) that are right."""
    nll: Annotated[float, Field(ge=0)] | None = None
    """Mean negative log-likelihood per answer token, in nats. None where it is not finite, as in a diverged run."""
    first_wrong: list[Annotated[int, Field(ge=0)]] = []
    """How many examples have their first wrong token in each tenth of their answer: place p = 0, 1, … of an answer of n tokens,
    ``<eos>`` included, is in tenth ⌊10 p/n⌋. In a diverged run every first token is wrong."""
    token_chance: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Token accuracy of the best guess that knows only the length. None where it is unknown, as on text."""
    count: Positive
    """Number of examples."""
    tokens: Positive
    """Number of answer tokens."""
    chance: Annotated[float, Field(ge=0, lt=1)]
    """Exact match of the best guess that does not see the prompt."""


class EncodingRecord(Record):
    """The encoding of a run: metadata, settings and source hash."""

    name: str
    family: str
    ranking: str
    """See ``RankingClass``."""
    year: Whole
    title: str
    link: str
    source: str = ""
    """See ``SourceKind``. Empty in results from before this field."""
    lengths: str = ""
    """Settings that are lengths in tokens, with the rule of each: see ``bench.encodings.Info``."""
    stage_share: float | None = None
    """Steps of an extra training stage as a share of the recipe's steps; None without one."""
    settings: dict[str, JsonValue]
    source_sha256: str
    """Hash of all source files of the encoding: see ``bench.plugins.source_hash``."""


class Timings(Record):
    """Wall times. Apart from dates and ``Result.weights``, only these values differ between two identical runs."""

    step_ms: NotNegative
    """Median wall time of a training step, in milliseconds."""
    train_s: NotNegative
    evaluate_s: NotNegative
    total_s: NotNegative
    """Seconds from start to end, summed over all sessions of an interrupted run."""
    cpu_share: float | None = None
    """CPU seconds per wall second of training, since the last interruption. Below .9 other processes slowed the run
    down. None on a GPU or with several threads, where it says nothing about the machine."""


class Parameters(Record):
    """Numbers of trainable parameters."""

    model: Whole
    """Whole model, encoding included."""
    encoding: Whole


class Result(Record):
    """One finished run: one task, one encoding, one seed."""

    format: Literal[1] = 1
    suite: str
    suite_version: Positive
    fingerprint: str
    """Fingerprint of the suite: results with different fingerprints are never ranked together."""
    score_is: str = "exact"
    """See ``bench.suites.suite.Suite.score``."""
    task: str
    variant: str
    task_sha256: str = ""
    """Hash of the task's source. Empty in results from before this field."""
    train_length: Positive
    """L of this run: that of the suite, times the factor of its block."""
    longest_seen: Positive
    """Longest length seen in training; above ``train_length`` only for encodings with a declared extra stage."""
    trained_as: str = ""
    """Encoding whose training this run shares up to the recipe's last step; empty: its own. The loss, ``step_ms`` and
    ``train_s`` include the shared training; ``total_s`` is this run's own time."""
    weights: str = ""
    """File of the weights that were tested, below the results folder; empty if they were not kept when the run ended. They are
    the end of the training of ``trained_as`` with this seed, or of the encoding's own; see ``bench.runs.checkpoint``."""
    sealed: bool = False
    """Whether the code ran in a sandbox, trained and judged by another process: see ``bench.sealed``. Only such results of
    code that is not built in are ranked."""
    sees_content: bool | None = None
    """Whether the code of a sealed run saw hidden states: see ``bench.sealed.tables``. None: the run was not sealed."""
    step_ratio: NotNegative | None = None
    """Time of a training step at L in its sealed process, relative to NoPE there; None: it saw no content."""
    flops_ratio: NotNegative | None = None
    """Matrix products of a forward pass there, as the process counted them, relative to NoPE."""
    encoding: EncodingRecord
    seed: Whole
    learning_rate: float | None = None
    """The learning rate, in suites that sweep it; None: the suite has only one."""
    status: Literal["done", "diverged"]
    """``diverged``: loss or gradient became infinite or NaN; all scores are zero."""
    steps: Whole
    """Number of training steps."""
    loss: list[tuple[int, float]]
    """Loss curve: step, and mean training loss since the previous entry."""
    scores: Annotated[list[LengthScore], Field(min_length=1)]
    """One per test length, ascending."""
    further: dict[str, list[LengthScore]] = {}
    """Scores on the task's further test sets, by their name: see ``tasks.Task.further_tests``."""
    symbols: Whole = 0
    """Size of the vocabulary. 0 in results from before this field."""
    parameters: Parameters
    timings: Timings
    data_hash: str
    """Hash of all test examples (``tasks.content_hash``)."""
    test_seed: int | None = None
    """Seed of the test examples and initial weights of a sealed run, drawn when it began; None: the suite's."""
    versions: dict[str, str]
    device: str
    threads: Whole
    started: Time
    """ISO 8601, UTC."""
    finished: Time
    commit: str | None = None
    """Git commit of the code, with suffix ``-dirty`` if it was modified; None if it did not run from a checkout."""

    @property
    def path(self) -> str:
        return run_path(self.suite, self.task, self.encoding.name, self.seed, self.learning_rate)


def run_path(suite: str, task: str, encoding: str, seed: int | str, learning_rate: float | None = None) -> str:
    """The identity of a run, which is also its folder below the results folder."""
    rate = "" if learning_rate is None else f"-rate-{learning_rate:g}"
    return f"{suite}/{task}/{encoding}/seed-{seed}{rate}"


def write_result(folder: Path, result: Result) -> None:
    """Write the result of a run into its folder and, if the folder has its weights, their model card."""
    if result.weights.startswith(f"{result.path}/"):
        write_atomic(folder / "README.md", render("templates/weights.md.j2", result=result))
    write_atomic(folder / RESULT, result.model_dump_json(indent=1) + "\n")


def read_result(path: Path, expected: str = "") -> Result:
    """Read one ``result.json``.

    Arguments:
        expected: expected run, as ``run_path`` returns it; by default any.

    Raises:
        InputError: the file cannot be read, is not a complete result, or is the result of another run.
    """
    advice = "delete it to run it again"
    with reading(path, "", advice):
        return parse_result(path, path.read_bytes(), expected, advice)


def parse_result(place: Path | str, data: bytes, expected: str, advice: str = "") -> Result:
    """The result in a text.

    Arguments:
        place: its file, or the line in it.
        expected: path of the run, as ``run_path`` returns it, or the first parts of that path.
        advice: what to do if it is not a whole result.

    Raises:
        InputError: it is not a whole result, or the result of another run.
    """
    with reading(place, "is not a whole result", advice):
        result = Result.model_validate_json(data)
    if expected and not f"{result.path}/".startswith(f"{expected}/"):
        raise InputError(
            f"{place} holds the result of {result.path}, expected {expected}; move it to its own place or delete it"
        )
    return result


class Damaged(InputError, UserWarning):
    """A file, or a line of one, that is skipped because it cannot be read."""


def unless_damaged(read: Callable[..., T], *arguments: Any) -> T | None:
    """What ``read`` returns; None and a warning ``Damaged`` if it raises ``InputError``."""
    try:
        return read(*arguments)
    except InputError as fault:
        warnings.warn(str(fault), Damaged, stacklevel=2)
        return None


@contextmanager
def reading(place: Path | str, fault: str, advice: str = "") -> Iterator[None]:
    """Raise an ``InputError`` if the block cannot read a file, or the file does not hold the record that is read.

    Arguments:
        place: the file, or the line in it.
        fault: the message about a place without such a record, as in ``is not a whole result``; the first error of its
            validation follows in brackets.
        advice: what to do then.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}") from error
    except ValidationError as error:
        if any(one["type"] == "extra_forbidden" or one["loc"] == ("format",) for one in error.errors()):  # it may be valid
            fault, advice = "was written by another version of lprime", "keep it, and read it with that version"
        raise InputError(f"{place} {fault} ({first_fault(error)}){advice and f'; {advice}'}") from error


def read_json(path: Path | str, kind: Any, fault: str, advice: str) -> Any:
    """The content of a JSON file, of a type that pydantic knows; None without the file.

    Raises:
        InputError: a broken file, see ``reading``.
    """
    with reading(path, fault, advice), suppress(FileNotFoundError, NotADirectoryError), open(path, "rb") as file:
        return TypeAdapter(kind).validate_json(file.read())
    return None


def read_records(path: Path, kind: Any) -> dict[str, Any]:
    """Name → record, as ``write_records`` stores them; empty without the file."""
    fault, advice = f"does not hold {kind.__name__.lower()}s", "restore it from git, or delete it to measure them again"
    return read_json(path, dict[str, kind], fault, advice) or {}


def write_records(path: Path, records: Mapping[str, Record]) -> None:
    """Write records, one name a line, sorted.

    Raises:
        InputError: the file cannot be written.
    """
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {records[name].model_dump_json()}" for name in sorted(records)]
    write_atomic(path, "{\n" + ",\n".join(rows) + "\n}\n")


def first_fault(error: ValidationError) -> str:
    """The first error of a pydantic validation on one line: field and message."""
    fault = error.errors(include_url=False)[0]
    where, message = ".".join(map(str, fault["loc"])), str(fault["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message.splitlines()[0]
