"""The tidy table: files give back the numbers of the runs to the last bit, and are written atomically."""

import csv
import json
import os
import typing
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from synthetic_results import board, frame, full, record, result, store, suite

from bench.result import LengthScore, Result
from leaderboard import export
from leaderboard.results import BY_LENGTH, RUN, TIDY, Damaged, read_local
from tasks import InputError

HOSTILE = [
    "nan",
    "NA",
    "007",
    "1e5",
    'a"b,c',
    "line\nbreak",
    "lone\rreturn",
    "=1+1",
    " blanks ",
    "π|<b>",
    "None",
    "\ufeffx",
    "a\tb",
]


def write_export(results, form, to, force=False):
    return export.write_table(export.tidy(frame(results)), form, to, force)


def runs() -> list[Result]:
    """Runs with awkward values: no short decimal, no loss, no CPU share, different versions."""
    of = suite(seeds=[0, 1])
    first = full(of, {"nope": (1, 0.1 + 0.2, 1 / 3, 5e-324), "rope": (1, 1, 0.5, 0.25)})
    quirks = {
        "timings": {"step_ms": 1 / 7, "train_s": 2.5, "evaluate_s": 0.1, "total_s": 1e300, "cpu_share": 0.875},
        "commit": "abc-dirty",
        "versions": {"torch": "2.10", "numpy": "2.4"},
        "fingerprint": "12e4567890123456",
    }
    told = {"source": "paper only", "lengths": "threshold 512, as published", "stage_share": 1 / 3}
    made = record("fire", settings={"π": 1e-9, "a": [1, "x"]}, **told)
    other = result(of, "parity", made, 7, (1, 1, 1, 1), trained_as="nope", weights="w.safetensors", **quirks)
    graded = [{"nll": 1 / 3, "token_chance": 0.1 + 0.2, "first_wrong": [0] * 10}, {"nll": 5e-324}, {}, {}]
    other = other.model_copy(
        update={"scores": [s.model_copy(update=more) for s, more in zip(other.scores, graded, strict=True)]}
    )
    diverged = result(of, "parity", "alibi", 0, (0, 0, 0, 0), status="diverged", steps=3, loss=[])
    return [*first, other, diverged]


def read_csv(path: Path) -> pd.DataFrame:
    """Read an exported CSV file with the right types and every number to the last bit.

    With default options, pandas would read an encoding ``nan`` as missing and a fingerprint ``12e4567890123456`` as a number,
    and might change the last digit of a number.
    """
    names = list(pd.read_csv(path, nrows=0).columns)
    text = [*names[len(TIDY) :], *(name for name, column in TIDY.items() if column.kind is str)]
    frame = pd.read_csv(
        path,
        dtype=dict.fromkeys(text, str),
        keep_default_na=False,
        na_values={name: [""] for name in names if name not in text},
        float_precision="round_trip",
    )
    for name in ("commit", *names[len(TIDY) :]):  # the text columns that may be null
        frame[name] = frame[name].where(frame[name] != "", None)
    return frame


def read(form: str, path: Path) -> pd.DataFrame:
    if form == "dataset":
        from datasets import load_from_disk

        return load_from_disk(str(path)).to_pandas()
    if form == "json":
        frame = pd.DataFrame(json.loads(path.read_text()))
        floats = [name for name, column in TIDY.items() if column.kind is float]
        return frame.astype(dict.fromkeys(floats, float))  # pandas takes 1.0 for a whole number and None for an object
    return read_csv(path) if form == "csv" else pd.read_parquet(path)


def same(found: object, wanted: object) -> bool:
    """Equal to the last bit; pandas has NaN or None for null."""
    return bool(pd.isna(found)) if wanted is None else type(wanted)(found) == wanted


@pytest.mark.parametrize("form", export.FORMATS)
def test_every_format_gives_back_the_results(tmp_path, form):
    written = runs()
    assert write_export(written, form, tmp_path / "t", False) == 4 * len(written)
    frame = read(form, tmp_path / "t")
    rows = iter(frame.to_dict("records"))
    for run in written:
        for score in run.scores:
            row = next(rows)
            for name in ("suite", "suite_version", "fingerprint", "task", "variant", "train_length", "longest_seen",
                         "trained_as", "weights", "sealed", "seed", "status", "steps", "data_hash", "device", "threads",
                         "started", "finished", "commit"):  # fmt: skip
                assert same(row[name], getattr(run, name)), name
            for name in ("family", "ranking", "year", "title", "link", "source", "lengths", "stage_share", "source_sha256"):
                assert same(row[name], getattr(run.encoding, name)), name
            for name in ("step_ms", "train_s", "evaluate_s", "total_s", "cpu_share"):
                assert same(row[name], getattr(run.timings, name)), name
            for name in ("length", "exact", "token", "nll", "token_chance", "count", "tokens", "chance"):
                assert same(row[name], getattr(score, name)), name
            assert row["encoding"] == run.encoding.name
            assert json.loads(row["first_wrong"]) == score.first_wrong
            assert json.loads(row["settings"]) == run.encoding.settings
            assert same(row["final_loss"], run.loss[-1][1] if run.loss else None)
            assert (row["parameters"], row["encoding_parameters"]) == (run.parameters.model, run.parameters.encoding)
            assert row["relative_length"] == score.length / run.train_length
            assert row["in_distribution"] is (score.length <= run.train_length)
            assert {n: row[f"version_{n}"] for n in ("numpy", "torch")} == {"numpy": None, "torch": None} | run.versions
    assert next(rows, None) is None
    kinds = {str: "O", int: "i", float: "f", bool: "b"}
    for name, column in TIDY.items():
        assert frame[name].dtype.kind == kinds[column.kind], name


def leaves(model: type[BaseModel], path: str) -> set[str]:
    found = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        found |= leaves(typing.cast(type[BaseModel], kind), f"{path}.{name}") if nested else {f"{path}.{name}"}
    return found


def test_all_fields_of_a_result_are_exported():
    """Except the loss curve (only its end), ``format`` (the version of the file format), and further tests."""
    read = {f"run.{column.key}" for column in RUN.values() if column.key} | {f"at.{name}" for name in BY_LENGTH}
    computed = {"run.encoding.settings", "run.loss", "run.scores", "run.versions"}
    assert read | computed | {"run.format", "run.task_sha256", "run.further"} == leaves(Result, "run") | leaves(
        LengthScore, "at"
    )


def test_the_scores_of_the_board_follow_from_the_table():
    of = suite()
    made = full(of, {"nope": (1, 1, 0.4, 0.9)}) + full(of, {"rope": (1, 1, 0.5, 0.1)})
    table = export.tidy(frame(made))
    assert table.token_score.isna().all()  # guessed tokens are unknown here, so a cell is exact match alone
    scores = (table.weight * table.exact_score).groupby([table.task, table.encoding, table.seed]).sum().clip(lower=0)
    assert (scores == 0).any() and (scores > 0.4).any(), "both cases occur: floored and positive"
    for row in board(made).runs.itertuples():
        assert scores[row.task, row.encoding, row.seed] == pytest.approx(row.score, abs=1e-12)


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


def inert(text: str) -> str:
    """As in a CSV file: what a spreadsheet would compute begins with an apostrophe."""
    return f"'{text}" if text[0] in "=+-@\t\r" else text


@given(st.one_of(st.sampled_from(HOSTILE), text), text, st.floats(0, 1), st.floats(0, 1e308))
def test_hostile_names_and_all_numbers_survive_csv(tmp_path_factory, name, title, exact, time):
    of = suite()
    timings = {"step_ms": time, "train_s": 1, "evaluate_s": 1, "total_s": 1}
    made = result(of, encoding=record(name, title=title, settings={name: title}), exact=(exact, 1, 1, 1), timings=timings)
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    write_export([made], "csv", path)
    frame = read_csv(path)
    assert list(frame.encoding) == [inert(name)] * 4
    assert list(frame.title) == [inert(title)] * 4
    assert json.loads(frame.settings[0]) == {name: title}
    assert (frame.exact[0], frame.step_ms[0]) == (exact, time)
    with path.open(newline="", encoding="utf-8") as file:  # without pandas
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert (rows[0]["encoding"], rows[0]["title"], float(rows[0]["exact"])) == (inert(name), inert(title), exact)


def test_hostile_names_from_the_folder_of_results(tmp_path):
    of = suite(seeds=[0])
    store(tmp_path, [run for name in HOSTILE for run in full(of, {name: (1, 1, 0.5, 0)})])
    export.write_table(export.tidy(read_local(tmp_path)), "csv", tmp_path / "t.csv")
    assert sorted(set(read_csv(tmp_path / "t.csv").encoding)) == sorted(map(inert, HOSTILE))


@pytest.mark.parametrize("form", export.FORMATS)
def test_the_same_results_give_the_same_bytes(tmp_path, form):
    for name in "ab":
        write_export(runs(), form, tmp_path / name / "t")
    files = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (tmp_path / "a", tmp_path / "b")]
    assert files[0] == files[1] and files[0]


def test_the_table_explains_itself(tmp_path):
    import pyarrow.parquet as pq
    from datasets import load_from_disk

    write_export(runs(), "parquet", tmp_path / "t.parquet")
    schema = pq.read_schema(tmp_path / "t.parquet")
    assert schema.field("relative_length").metadata[b"meaning"] == b"l / L"
    assert all(field.metadata[b"meaning"] for field in schema)
    write_export(runs(), "dataset", tmp_path / "d")
    about = load_from_disk(str(tmp_path / "d")).info.description
    assert all(f"\n{name}: " in about for name in schema.names)


@pytest.mark.parametrize("form", export.FORMATS)
def test_existing_files_are_kept_unless_forced(tmp_path, form):
    place = tmp_path / "t"
    write_export(runs()[:1], form, place)
    before = len(read(form, place))
    with pytest.raises(InputError, match="t exists; choose another --to, or replace it with --force"):
        write_export(runs(), form, place)
    assert len(read(form, place)) == before
    write_export(runs(), form, place, force=True)
    assert len(read(form, place)) == 4 * len(runs()) > before
    assert [p.name for p in tmp_path.iterdir()] == ["t"], "nothing temporary is left"


@pytest.mark.parametrize("form", export.FORMATS)
def test_force_replaces_only_exports(tmp_path, form):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "main.tex").write_text("mine")
    with pytest.raises(InputError, match=r"thesis is (a folder|not a saved dataset)"):
        write_export(runs(), form, folder, force=True)
    if form == "dataset":
        with pytest.raises(InputError, match="not a saved dataset"):
            write_export(runs(), form, folder / "main.tex", force=True)
    assert (folder / "main.tex").read_text() == "mine"
    assert [p.name for p in tmp_path.rglob("*")] == ["thesis", "main.tex"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("form", export.FORMATS)
def test_a_full_disk_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch, form, there):
    place = tmp_path / "t"
    if there:
        write_export(runs()[:1], form, place)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def full_disk(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InputError, match=r"cannot write .*t: No space left on device"):
        write_export(runs(), form, place, force=there)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_writing_a_dataset_prints_nothing(tmp_path, capfd):
    import datasets

    datasets.enable_progress_bars()
    write_export(runs(), "dataset", tmp_path / "d")
    assert capfd.readouterr() == ("", "")
    assert not datasets.are_progress_bars_disabled(), "as it was"


def test_a_result_with_a_number_of_more_than_64_bits_is_skipped():
    with pytest.warns(Damaged, match="has more than 64 bits"):
        assert len(frame([result(suite(), seed=2**70), result(suite())])) == 1
