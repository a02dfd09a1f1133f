"""All results as one tidy table: one row per run and test length, with the exact numbers of the run's result."""

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.files import folder_atomic, write_atomic
from bench.result import RANKING_CLASSES, SOURCE_KINDS, LengthScore, Result
from leaderboard.stats.scores import length_weights, without_guessing
from tasks import InputError, unknown

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FILES = ("csv", "json", "parquet")
"""Formats of files, which are also their endings."""
FORMATS = (*FILES, "dataset")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of a cell that spreadsheets compute."""


class Entry(NamedTuple):
    """The source of a row: a run and its score at one length."""

    run: Result
    at: LengthScore


class ExportColumn(NamedTuple):
    kind: type
    meaning: str
    value: str | Callable[[Entry], Any]
    """Path of an attribute of ``Entry``, or a function of it."""


def length_weight(entry: Entry) -> float:
    """The weight of a row's length in the score of its run."""
    lengths = [score.length for score in entry.run.scores]
    return float(length_weights(np.array(lengths), entry.run.train_length)[lengths.index(entry.at.length)])


COLUMNS = {
    "suite": ExportColumn(str, "name of the suite", "run.suite"),
    "suite_version": ExportColumn(int, "version of the suite", "run.suite_version"),
    "fingerprint": ExportColumn(
        str, "hash of everything that can change a number; rows with different fingerprints do not compare", "run.fingerprint"
    ),
    "task": ExportColumn(str, "name of the task", "run.task"),
    "variant": ExportColumn(str, "variant of the task", "run.variant"),
    "train_length": ExportColumn(int, "L, in the task's units", "run.train_length"),
    "longest_seen": ExportColumn(int, "longest length seen in training, including any extra stage", "run.longest_seen"),
    "trained_as": ExportColumn(str, "encoding whose training the run shares; empty: its own", "run.trained_as"),
    "weights": ExportColumn(
        str, "file of the tested weights, below the results folder of the run; empty if not kept", "run.weights"
    ),
    "sealed": ExportColumn(
        bool, "whether the code ran in a sandbox, trained and judged by another process, as submissions do", "run.sealed"
    ),
    "encoding": ExportColumn(str, "name of the encoding", "run.encoding.name"),
    "family": ExportColumn(str, "family of the encoding", "run.encoding.family"),
    "ranking": ExportColumn(str, f"declared ranking class: {', '.join(RANKING_CLASSES)}", "run.encoding.ranking"),
    "year": ExportColumn(int, "year of its paper", "run.encoding.year"),
    "title": ExportColumn(str, "title of its paper", "run.encoding.title"),
    "link": ExportColumn(str, "link to its paper", "run.encoding.link"),
    "source": ExportColumn(
        str, f"what it was written from and compared with: {', '.join(SOURCE_KINDS)}; empty if unknown", "run.encoding.source"
    ),
    "lengths": ExportColumn(
        str, "its settings that are lengths in tokens, with the rule of each; empty if it has none", "run.encoding.lengths"
    ),
    "stage_share": ExportColumn(
        float, "steps of an extra training stage as a share of the recipe's steps; null without one", "run.encoding.stage_share"
    ),
    "settings": ExportColumn(
        str,
        "settings of the encoding, as JSON",
        lambda e: json.dumps(e.run.encoding.settings, sort_keys=True, ensure_ascii=False),
    ),
    "source_sha256": ExportColumn(str, "hash of the encoding's source", "run.encoding.source_sha256"),
    "seed": ExportColumn(int, "seed of initialisation and training data", "run.seed"),
    "status": ExportColumn(str, "done or diverged; a diverged run scores zero", "run.status"),
    "steps": ExportColumn(int, "training steps taken", "run.steps"),
    "final_loss": ExportColumn(float, "last logged training loss", lambda e: e.run.loss[-1][1] if e.run.loss else None),
    "length": ExportColumn(int, "test length l, in the task's units", "at.length"),
    "relative_length": ExportColumn(float, "l / L", lambda e: e.at.length / e.run.train_length),
    "in_distribution": ExportColumn(bool, "l ≤ L", lambda e: e.at.length <= e.run.train_length),
    "exact": ExportColumn(float, "exact match: share of test examples with the whole answer and <eos> correct", "at.exact"),
    "token": ExportColumn(float, "share of correct answer tokens, <eos> included", "at.token"),
    "nll": ExportColumn(
        float,
        "mean negative log-likelihood per answer token, in nats; null where not finite and in results of protocol 2",
        "at.nll",
    ),
    "first_wrong": ExportColumn(
        str,
        "examples whose first wrong token is in each tenth of the answer, as a JSON list; [] in results of protocol 2",
        lambda e: json.dumps(e.at.first_wrong),
    ),
    "token_chance": ExportColumn(
        float, "token accuracy of the best guess that knows only the length; null in results of protocol 2", "at.token_chance"
    ),
    "count": ExportColumn(int, "number of test examples", "at.count"),
    "tokens": ExportColumn(int, "number of answer tokens", "at.tokens"),
    "chance": ExportColumn(float, "exact match expected of guessing", "at.chance"),
    "exact_score": ExportColumn(float, "(exact − chance) / (1 − chance)", lambda e: without_guessing(e.at.exact, e.at.chance)),
    "token_score": ExportColumn(
        float,
        "(token − token_chance) / (1 − token_chance); null where unknown",
        lambda e: None if e.at.token_chance is None else without_guessing(e.at.token, e.at.token_chance),
    ),
    "weight": ExportColumn(
        float,
        "weight of the length in the score of a run, the sum over l > L of weight × cell, floored at 0; a cell is the mean of "
        "exact_score and token_score, or exact_score alone, as the board says",
        length_weight,
    ),
    "parameters": ExportColumn(int, "trainable parameters of the model, encoding included", "run.parameters.model"),
    "encoding_parameters": ExportColumn(int, "trainable parameters of the encoding", "run.parameters.encoding"),
    "step_ms": ExportColumn(float, "median time of a training step, in milliseconds", "run.timings.step_ms"),
    "train_s": ExportColumn(float, "training time, in seconds", "run.timings.train_s"),
    "evaluate_s": ExportColumn(float, "evaluation time, in seconds", "run.timings.evaluate_s"),
    "total_s": ExportColumn(float, "time of the whole run, in seconds, interruptions excluded", "run.timings.total_s"),
    "cpu_share": ExportColumn(
        float,
        "CPU time over wall time in training; under 0.9 the machine was busy and times are unreliable",
        "run.timings.cpu_share",
    ),
    "data_hash": ExportColumn(str, "hash of all test examples", "run.data_hash"),
    "device": ExportColumn(str, "device of the run", "run.device"),
    "threads": ExportColumn(int, "number of CPU threads", "run.threads"),
    "started": ExportColumn(str, "start of the run, ISO 8601, UTC", "run.started"),
    "finished": ExportColumn(str, "end of the run, ISO 8601, UTC", "run.finished"),
    "commit": ExportColumn(str, "git commit of the checkout; -dirty if its code was changed", "run.commit"),
}
"""The columns in order. A column ``version_<package>`` follows for each package that any run lists."""
VERSION = "version_"


def results_table(results: Sequence[Result]) -> "pa.Table":
    """The tidy table; null where a run has no value.

    Arguments:
        results: in the order of their rows; each run has its lengths in ascending order.

    Raises:
        InputError: a seed or another integer exceeds 64 bits.
    """
    import pyarrow as pa

    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    entries = [Entry(run, score) for run in results for score in run.scores]
    columns, fields = [], []
    for name, column in COLUMNS.items():
        value = attrgetter(column.value) if isinstance(column.value, str) else column.value
        try:
            columns.append(pa.array([value(entry) for entry in entries], arrow[column.kind]))
        except OverflowError as error:
            raise InputError(f"column {name} holds a number of more than 64 bits") from error
        fields.append(pa.field(name, arrow[column.kind], metadata={"meaning": column.meaning}))
    for package in sorted({package for run in results for package in run.versions}):
        columns.append(pa.array([entry.run.versions.get(package) for entry in entries], pa.string()))
        fields.append(pa.field(VERSION + package, pa.string(), metadata={"meaning": f"version of {package}"}))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def write_table(table: "pa.Table", form: str, to: Path, force: bool = False) -> int:
    """Write a tidy table, atomically.

    Arguments:
        form: one of ``FORMATS``: ``csv`` (UTF-8, text in quotation marks), ``json`` (a list of objects), ``parquet``, or
            ``dataset`` (a folder for ``datasets.load_from_disk``). Equal tables give equal bytes.
        to: the file or folder to write; missing parents are created.
        force: replace an earlier export.

    Returns:
        The number of rows.

    Raises:
        InputError: see ``refuse_occupied``; ``to`` cannot be written or the disk is full, and nothing is left behind.
    """
    refuse_occupied(form, to, force)
    if form == "csv":
        write_atomic(to, as_csv(table))
    elif form == "json":
        rows = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in table.to_pylist())
        write_atomic(to, "[\n" + ",\n".join(rows) + "\n]\n")
    elif form == "parquet":
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        write_atomic(to, buffer.getvalue())
    else:
        write_dataset(table, to, force)
    return table.num_rows


def format_of(to: Path, form: str | None) -> str:
    """The format of an export: as given, otherwise by the ending of its file.

    Raises:
        InputError: an unknown format or ending, or two that contradict each other.
    """
    ending = to.suffix.lower().removeprefix(".")
    if form is not None and form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if form is None and ending not in FILES:
        endings = ", ".join(f".{name}" for name in FILES)
        raise InputError(f"the ending of {to} names no format; expected one of {endings}, or --format")
    if form and ending in FILES and form != ending:
        raise InputError(f"{to} ends in .{ending}, but --format is {form}; expected one of the two")
    return form or ending


def refuse_occupied(form: str, to: Path, force: bool = False) -> None:
    """Refuse a path whose content must not be lost.

    Raises:
        InputError: ``to`` exists without ``force``, or is not what this format may replace: a file, or a folder saved by
            ``datasets``.
    """
    if not os.path.lexists(to):
        return
    if not force:
        raise InputError(f"{to} exists; choose another --to, or replace it with --force")
    if form != "dataset" and to.is_dir():
        raise InputError(f"{to} is a folder, and --format {form} writes a file; choose another --to")
    if form == "dataset" and not (to / "dataset_info.json").is_file():
        raise InputError(f"{to} is not a saved dataset, and --force replaces nothing else; choose another --to")


def as_csv(table: "pa.Table") -> str:
    """Numbers in their shortest exact form, all text in quotation marks, ``""`` for null.

    A text that a spreadsheet would compute as a formula begins with an apostrophe instead (OWASP, "CSV Injection").
    """
    text = io.StringIO()
    # Minimal quoting would leave a lone carriage return in a name unquoted.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(map(inert, column.to_pylist()) for column in table.columns), strict=True))
    return text.getvalue()


def inert(value: Any) -> Any:
    """A cell that is no formula; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def write_dataset(table: "pa.Table", to: Path, replace: bool) -> None:
    from datasets import Dataset, DatasetInfo

    from bench.dataset import no_progress_bars

    meanings = [f"{field.name}: {field.metadata[b'meaning'].decode()}" for field in table.schema]
    about = "Results of lprime, one row per number or per run and test length.\n" + "\n".join(meanings)
    dataset = Dataset(table, info=DatasetInfo(description=about, license="apache-2.0"))
    with folder_atomic(to, replace) as folder, no_progress_bars():
        dataset.save_to_disk(folder)
