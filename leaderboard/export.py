"""All results as one tidy table: one row per run and test length. Equal runs give equal tables. Numbers of probes likewise."""

import csv
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.files import write_atomic
from bench.probe.record import ProbeRecord, Value, file_of, read_record
from bench.result import unless_damaged
from leaderboard.results.columns import BY_LENGTH, TIDY, VERSION
from leaderboard.stats.rates import with_choice
from leaderboard.stats.scores import length_weights, scored, without_guessing
from tasks import InputError, unknown

FORMATS = (".csv", ".json", ".parquet")
"""Endings of files, which say the format."""
NO_COLUMNS = ("format", "device", "note", "values", "seconds")
"""Fields of a record of a probe that its table leaves out."""


def tidy(runs: pd.DataFrame) -> pd.DataFrame:
    """Explode a frame of runs to one row per run and test length.

    Returns:
        The columns ``TIDY``, then ``version_<package>`` for each package that any run lists, then ``origin``. The meaning of
        each is in ``attrs``, which parquet files keep.
    """
    packages = sorted({package for versions in runs["versions"] for package in versions})
    added = {VERSION + package: [versions.get(package) for versions in runs["versions"]] for package in packages}
    groups = runs.groupby(["suite", "fingerprint", "origin"])
    added["chosen"] = pd.concat([with_choice(scored(own))["chosen"] for _, own in groups])
    added["weight"] = list(map(length_weights, runs["length"], runs["train_length"]))
    added["first_wrong"] = [[json.dumps(one) for one in cell] for cell in runs["first_wrong"]]
    wide = runs.assign(**{name: pd.Series(values, runs.index, object) for name, values in added.items()})
    numbers = {name: column.kind for name, column in BY_LENGTH.items() if column.kind is not str}
    table = wide.explode([*BY_LENGTH, "weight"], ignore_index=True).astype(numbers | {"weight": float, "chosen": bool})
    table["relative_length"] = table["length"] / table["train_length"]
    table["in_distribution"] = table["length"] <= table["train_length"]
    table["exact_score"] = without_guessing(table["exact"], table["chance"])
    table["token_score"] = without_guessing(table["token"], table["token_chance"])
    table = table[[*TIDY, *(VERSION + package for package in packages), "origin"]]
    table.attrs = {name: column.meaning for name, column in TIDY.items()}
    return table


def write_table(table: pd.DataFrame, to: Path) -> None:
    """Write a table, atomically. Equal tables give equal bytes.

    Arguments:
        to: the file to write, see ``refuse_path``: ``csv`` (UTF-8, text in quotation marks), ``json`` (a list of objects) or
            ``parquet``. Missing parents are created.

    Raises:
        InputError: ``to`` cannot be written or the disk is full, and nothing is left behind.
    """
    form = to.suffix.lower()
    if form == ".csv":
        write_atomic(to, table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n"))
    elif form == ".json":
        rows = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in plain(table))
        write_atomic(to, "[\n" + ",\n".join(rows) + "\n]\n")
    else:
        write_atomic(to, table.to_parquet(index=False))


def write_results_hub(table: pd.DataFrame, folder: Path) -> None:
    """Write the tidy table as a Hugging Face dataset with the split ``results``: see ``write_hub``."""
    from datasets import Dataset

    from bench.dataset import write_hub

    suites = table[["suite", "suite_version", "fingerprint"]].drop_duplicates().to_numpy()
    results = Dataset.from_pandas(table, preserve_index=False)
    write_hub(folder, {"results": results}, table.attrs, "templates/results.md.j2", suites=suites)


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain data, with None where a value is unknown or infinite."""
    return table.astype(object).where(table.notna() & ~table.isin([np.inf, -np.inf]), None).to_dict("records")


def refuse_path(to: Path, force: bool) -> None:
    """Refuse a file that cannot be exported to.

    Raises:
        InputError: its ending names no format, or it must not be replaced: it is a folder, or exists without ``force``.
    """
    if to.suffix.lower() not in FORMATS:
        raise InputError(f"the ending of {to} names no format; expected one of {', '.join(FORMATS)}")
    if to.is_dir():
        raise InputError(f"{to} is a folder; choose another --to")
    if os.path.lexists(to) and not force:
        raise InputError(f"{to} exists; choose another --to, or replace it with --force")


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
