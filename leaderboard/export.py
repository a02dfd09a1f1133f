"""All results as one tidy table: one row per run and test length. Equal runs give equal tables."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.files import folder_atomic, write_atomic
from leaderboard.results import BY_LENGTH, RUN, TIDY
from leaderboard.results.columns import VERSION
from leaderboard.stats.scores import length_weights, without_guessing
from tasks import InputError, unknown

FILES = ("csv", "json", "parquet")
"""Formats of files, which are also their endings."""
FORMATS = (*FILES, "dataset")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of a cell that spreadsheets compute."""


def tidy(runs: pd.DataFrame) -> pd.DataFrame:
    """Explode a frame of runs to one row per run and test length.

    Returns:
        The columns ``TIDY``, then ``version_<package>`` for each package that any run lists, then ``origin``.
    """
    sizes = runs["length"].map(len).to_numpy(int)
    of_run = np.repeat(np.arange(len(runs)), sizes)
    columns = {name: runs[name].to_numpy()[of_run] for name in RUN}
    for name, column in BY_LENGTH.items():
        if name == "first_wrong":
            columns[name] = np.array([json.dumps(one) for cell in runs[name] for one in cell], dtype=object)
        else:
            columns[name] = np.concatenate([*runs[name], np.empty(0, column.kind)]).astype(column.kind)
    columns["relative_length"] = columns["length"] / columns["train_length"]
    columns["in_distribution"] = columns["length"] <= columns["train_length"]
    columns["exact_score"] = without_guessing(columns["exact"], columns["chance"])
    columns["token_score"] = without_guessing(columns["token"], columns["token_chance"])
    weights = [length_weights(at, L) for at, L in zip(runs["length"], runs["train_length"], strict=True)]
    columns["weight"] = np.concatenate([*weights, np.empty(0)])
    table = {name: columns[name] for name in TIDY}
    for package in sorted({package for versions in runs["versions"] for package in versions}):
        table[VERSION + package] = np.array([v.get(package) for v in runs["versions"]], dtype=object)[of_run]
    return pd.DataFrame(table | {"origin": runs["origin"].to_numpy()[of_run]})


def write_table(table: pd.DataFrame, form: str, to: Path, force: bool = False, meanings: dict[str, str] | None = None) -> int:
    """Write a tidy table, atomically.

    Arguments:
        form: one of ``FORMATS``: ``csv`` (UTF-8, text in quotation marks), ``json`` (a list of objects), ``parquet``, or
            ``dataset`` (a folder for ``datasets.load_from_disk``). Equal tables give equal bytes.
        to: the file or folder to write; missing parents are created.
        force: replace an earlier export.
        meanings: of columns; by default of those of ``tidy``.

    Returns:
        The number of rows.

    Raises:
        InputError: see ``refuse_occupied``; ``to`` cannot be written or the disk is full, and nothing is left behind.
    """
    refuse_occupied(form, to, force)
    if meanings is None:
        meanings = {name: column.meaning for name, column in TIDY.items()} | {"origin": "published or local"}
        versions = (name for name in table.columns if name.startswith(VERSION))
        meanings |= {name: f"version of {name.removeprefix(VERSION)} at the run; null if it was not there" for name in versions}
    if form == "csv":
        write_atomic(to, as_csv(table))
    elif form == "json":
        rows = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in plain(table))
        write_atomic(to, "[\n" + ",\n".join(rows) + "\n]\n")
    else:
        import pyarrow as pa  # type: ignore[import-untyped]

        try:
            arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
        except (OverflowError, pa.ArrowException) as error:
            raise InputError(f"a column holds a number of more than 64 bits ({error})") from error
        fields = [field.with_metadata({"meaning": meanings.get(field.name, "")}) for field in arrow.schema]
        arrow = arrow.cast(pa.schema(fields))
        if form == "parquet":
            import pyarrow.parquet as pq  # type: ignore[import-untyped]

            buffer = io.BytesIO()
            pq.write_table(arrow, buffer)
            write_atomic(to, buffer.getvalue())
        else:
            write_dataset(arrow, to, force, meanings)
    return len(table)


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain data, with None where a value is unknown."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


def write_dataset(table: Any, to: Path, replace: bool, meanings: dict[str, str]) -> None:
    from datasets import Dataset, DatasetInfo

    from bench.dataset import no_progress_bars

    about = "Results of lprime.\n" + "\n".join(f"{name}: {meaning}" for name, meaning in meanings.items())
    dataset = Dataset(table, info=DatasetInfo(description=about, license="apache-2.0"))
    with folder_atomic(to, replace) as folder, no_progress_bars():
        dataset.save_to_disk(folder)


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


def as_csv(table: pd.DataFrame) -> str:
    """Numbers in their shortest exact form, all text in quotation marks, ``""`` for null.

    A text that a spreadsheet would compute as a formula begins with an apostrophe instead (OWASP, "CSV Injection").
    """
    text = io.StringIO()
    # Minimal quoting would leave a lone carriage return in a name unquoted.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([inert(value) for value in row.values()] for row in plain(table))
    return text.getvalue()


def inert(value: Any) -> Any:
    """A cell that is no formula; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
