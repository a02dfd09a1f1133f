"""All results as one tidy table: a row for each run and test length, every number as it stands in the run's result."""

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.files import folder_atomic, write_atomic
from bench.results import LengthScore, Result
from tasks import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa  # type: ignore[import-untyped]

FORMATS = ("csv", "parquet", "dataset")


class Entry(NamedTuple):
    """What a row is made from: a run, and its score at one length."""

    run: Result
    at: LengthScore


class Column(NamedTuple):
    kind: type
    meaning: str
    value: str | Callable[[Entry], Any]
    """The path of an attribute of ``Entry``, or what is computed from it."""


COLUMNS = {
    "suite": Column(str, "name of the suite", "run.suite"),
    "suite_version": Column(int, "its version", "run.suite_version"),
    "fingerprint": Column(str, "hash of all that can change a number; rows of two never compare", "run.fingerprint"),
    "task": Column(str, "task", "run.task"),
    "variant": Column(str, "its variant", "run.variant"),
    "train_length": Column(int, "L, in the task's units", "run.train_length"),
    "longest_seen": Column(int, "longest length met in training, a later stage included", "run.longest_seen"),
    "encoding": Column(str, "encoding", "run.encoding.name"),
    "family": Column(str, "its family", "run.encoding.family"),
    "ranking": Column(str, "ranking class it declares: standard, longer or task-aware", "run.encoding.ranking"),
    "year": Column(int, "of its paper", "run.encoding.year"),
    "title": Column(str, "of its paper", "run.encoding.title"),
    "link": Column(str, "to its paper", "run.encoding.link"),
    "settings": Column(
        str, "its settings, JSON", lambda e: json.dumps(e.run.encoding.settings, sort_keys=True, ensure_ascii=False)
    ),
    "source_sha256": Column(str, "hash of its source", "run.encoding.source_sha256"),
    "seed": Column(int, "of initialisation and training data", "run.seed"),
    "status": Column(str, "done or diverged; a diverged run scores zero", "run.status"),
    "steps": Column(int, "training steps taken", "run.steps"),
    "final_loss": Column(float, "last recorded training loss", lambda e: e.run.loss[-1][1] if e.run.loss else None),
    "length": Column(int, "test length l, in the task's units", "at.length"),
    "relative_length": Column(float, "l / L", lambda e: e.at.length / e.run.train_length),
    "in_distribution": Column(bool, "l ≤ L", lambda e: e.at.length <= e.run.train_length),
    "exact": Column(float, "share of test examples whose answer and <eos> are all right", "at.exact"),
    "token": Column(float, "share of answer tokens, <eos> included, that are right", "at.token"),
    "count": Column(int, "test examples", "at.count"),
    "tokens": Column(int, "answer tokens", "at.tokens"),
    "chance": Column(float, "exact match of guessing", "at.chance"),
    "score": Column(
        float,
        "(exact − chance) / (1 − chance); a run's score is its mean over l > L, floored at 0 only then",
        lambda e: (e.at.exact - e.at.chance) / (1 - e.at.chance),
    ),
    "parameters": Column(int, "trained numbers of the whole model", "run.parameters.model"),
    "encoding_parameters": Column(int, "of these, the encoding's own", "run.parameters.encoding"),
    "step_ms": Column(float, "median milliseconds of a training step", "run.timings.step_ms"),
    "train_s": Column(float, "seconds of training", "run.timings.train_s"),
    "evaluate_s": Column(float, "seconds of evaluation", "run.timings.evaluate_s"),
    "total_s": Column(float, "seconds of the run, over all of its interruptions", "run.timings.total_s"),
    "cpu_share": Column(
        float, "share of a core that training had; under 0.9 the times tell of other work", "run.timings.cpu_share"
    ),
    "data_hash": Column(str, "hash of all test examples", "run.data_hash"),
    "device": Column(str, "what it ran on", "run.device"),
    "threads": Column(int, "CPU threads", "run.threads"),
    "started": Column(str, "ISO 8601, UTC", "run.started"),
    "finished": Column(str, "ISO 8601, UTC", "run.finished"),
    "commit": Column(str, "of the checkout that ran, -dirty where its code was changed", "run.commit"),
}
"""The columns in order. After them stands ``version_<package>`` for each package that any run names."""
VERSION = "version_"


def table(results: Sequence[Result]) -> "pa.Table":
    """The tidy table; null where a run does not know: a loss, its share of a core, its commit, a package.

    Arguments:
        results: in the order in which their rows are to stand; the lengths of a run ascend.

    Raises:
        InputError: a seed, or another whole number, past 64 bits.
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
            raise InputError(f"column {name} holds a number past 64 bits, which a table cannot") from error
        fields.append(pa.field(name, arrow[column.kind], metadata={"meaning": column.meaning}))
    for package in sorted({package for run in results for package in run.versions}):
        columns.append(pa.array([entry.run.versions.get(package) for entry in entries], pa.string()))
        fields.append(pa.field(VERSION + package, pa.string(), metadata={"meaning": f"version of {package}"}))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def write(results: Sequence[Result], form: str, to: Path, force: bool = False) -> int:
    """Write the tidy table of some results: all of it, or nothing.

    Arguments:
        form: ``csv`` (UTF-8, text in quotation marks), ``parquet``, or ``dataset`` (a folder for
            ``datasets.load_from_disk``). The same results give the same bytes.
        to: the file or folder to write; missing parents are made.
        force: replace what ``export`` wrote there before.

    Returns:
        The number of rows.

    Raises:
        InputError: see ``check_place``; a place that cannot be written or a full disk, with nothing left behind.
    """
    check_place(form, to, force)
    made = table(results)
    if form == "csv":
        write_atomic(to, as_csv(made))
    elif form == "parquet":
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        buffer = io.BytesIO()
        pq.write_table(made, buffer)
        write_atomic(to, buffer.getvalue())
    else:
        write_dataset(made, to, force)
    return made.num_rows


def read_csv(path: Path) -> "pd.DataFrame":
    """A table that ``write`` wrote as CSV, with its types and every number to the last bit, which pandas alone would not give.

    Read without being told, an encoding ``nan`` is missing, a fingerprint ``12e4567890123456`` a number, and the last digit of
    a number may differ.
    """
    import pandas as pd

    names = list(pd.read_csv(path, nrows=0).columns)
    text = [*names[len(COLUMNS) :], *(name for name, column in COLUMNS.items() if column.kind is str)]
    read = pd.read_csv(
        path,
        dtype=dict.fromkeys(text, str),
        keep_default_na=False,
        na_values={name: [""] for name in names if name not in text},
        float_precision="round_trip",
    )
    for name in ("commit", *names[len(COLUMNS) :]):  # text that may be null; all other text is what it is
        read[name] = read[name].where(read[name] != "", None)
    return read


def check_place(form: str, to: Path, force: bool = False) -> None:
    """Refuse an unknown format, and a place with something that is not to be lost.

    Raises:
        InputError: an unknown format; something stands at ``to`` and ``force`` is not given, or it is not of the kind that
            this format replaces: a file, or a folder that ``datasets`` saved.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if not os.path.lexists(to):
        return
    if not force:
        raise InputError(f"{to} exists; choose another --to, or replace it with --force")
    if form != "dataset" and to.is_dir():
        raise InputError(f"{to} is a folder, and --format {form} writes a file; choose another --to")
    if form == "dataset" and not (to / "dataset_info.json").is_file():
        raise InputError(f"{to} is not a saved dataset, and --force replaces nothing else; choose another --to")


def as_csv(made: "pa.Table") -> str:
    """Numbers in their shortest exact form, text in quotation marks whatever it holds, nothing where there is no value."""
    text = io.StringIO()
    # Quoting only where the line ending asks for it would leave a lone carriage return in a name bare.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(made.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in made.columns), strict=True))
    return text.getvalue()


def write_dataset(made: "pa.Table", to: Path, replace: bool) -> None:
    from datasets import Dataset, DatasetInfo

    from tasks.export import no_progress_bars

    meanings = [f"{field.name}: {field.metadata[b'meaning'].decode()}" for field in made.schema]
    about = "lprime results, a row for each run and test length.\n" + "\n".join(meanings)
    dataset = Dataset(made, info=DatasetInfo(description=about, license="apache-2.0"))
    with folder_atomic(to, replace) as folder, no_progress_bars():
        dataset.save_to_disk(folder)
