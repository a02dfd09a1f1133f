"""The tidy table: files give back the numbers of the runs to the last bit, and are written atomically."""

import json
import tomllib
import typing

import datasets
import pandas as pd
import pytest
import yaml
from pydantic import BaseModel
from support import ROOT
from synthetic_results import GOOD, board, frame, full, record, result, suite

import lprime
from bench.result import LengthScore, Result
from leaderboard.export import FORMATS, plain, refuse_path, tidy, write_results_hub, write_table
from leaderboard.results.columns import BY_LENGTH, RUN, TIDY
from tasks import InputError

HOSTILE = ["nan", "NA", "007", "1e5", 'a"b,c', "line\nbreak", "lone\rreturn", " blanks ", "π|<b>", "None", "\ufeffx", "a\tb"]


def runs() -> list[Result]:
    """Runs with awkward values: hostile names, no short decimal, no loss, no CPU share, different versions."""
    of = suite(seeds=[0, 1])
    first = full(of, {"mine": (1, 0.1 + 0.2, 1 / 3, 5e-324), **dict.fromkeys(HOSTILE, GOOD)})
    quirks = {
        "timings": {"step_ms": 1 / 7, "train_s": 2.5, "evaluate_s": 0.1, "total_s": 1e300, "cpu_share": 0.875},
        "commit": "abc-dirty",
        "versions": {"torch": "2.10", "numpy": "2.4"},
        "fingerprint": "12e4567890123456",
    }
    made = record("unlisted", settings={"π": 1e-9, "a": [1, "x"]}, source="paper only", stage_share=1 / 3)
    other = result(of, "parity", made, 7, GOOD, trained_as="nope", weights="w.safetensors", **quirks)
    graded = [{"nll": 1 / 3, "token_chance": 0.1 + 0.2, "first_wrong": [0] * 10}, {"nll": 5e-324}, {}, {}]
    other = other.model_copy(
        update={"scores": [s.model_copy(update=more) for s, more in zip(other.scores, graded, strict=True)]}
    )
    return [*first, other, result(of, "parity", "another", 0, (0, 0, 0, 0), status="diverged", steps=3, loss=[])]


def read(form, path) -> pd.DataFrame:
    if form == ".parquet":
        return pd.read_parquet(path)
    if form == ".json":
        return pd.DataFrame(json.loads(path.read_text()), dtype=object)
    text = [name for name in pd.read_csv(path, nrows=0).columns if name not in TIDY or TIDY[name].kind is str]
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values="", float_precision="round_trip",
                       lineterminator="\n")  # fmt: skip


def same(found: object, wanted: object) -> bool:
    """Equal to the last bit; a CSV file has an empty cell for null and for an empty text."""
    return bool(pd.isna(found)) or found == "" if wanted in (None, "") else type(wanted)(found) == wanted


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_back_the_results(tmp_path, form):
    written, path = runs(), tmp_path / f"t{form}"
    write_table(tidy(frame(written)), path)
    rows = iter(read(form, path).to_dict("records"))
    for run in written:
        for score in run.scores:
            row = next(rows)
            for name, column in RUN.items():
                wanted: object = run
                for part in column.key.split(".") if column.key else ():
                    wanted = getattr(wanted, part)
                assert not column.key or same(row[name], wanted), name
            for name, column in BY_LENGTH.items():
                assert "." in column.key or name == "first_wrong" or same(row[name], getattr(score, name)), name
            assert pd.isna(row["nll_other"]) and pd.isna(row["needle"]), "of text alone"
            assert json.loads(row["first_wrong"]) == score.first_wrong
            assert json.loads(row["settings"]) == run.encoding.settings
            assert same(row["final_loss"], run.loss[-1][1] if run.loss else None)
            assert row["relative_length"] == score.length / run.train_length
            assert row["in_distribution"] == (score.length <= run.train_length)
            assert same(row["version_numpy"], run.versions.get("numpy"))
    assert next(rows, None) is None


def leaves(model: type[BaseModel], path: str) -> set[str]:
    found = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        found |= leaves(typing.cast(type[BaseModel], kind), f"{path}.{name}") if nested else {f"{path}.{name}"}
    return found


def test_all_fields_of_a_result_are_exported():
    """Except the loss curve (only its end), the version of the file format, what identifies tests, and further tests."""
    read = {f"run.{column.key}" for column in RUN.values() if column.key}
    read |= {f"at.{column.key}" for column in BY_LENGTH.values() if "." not in column.key}
    computed = {"run.encoding.settings", "run.loss", "run.scores", "run.sees_content", "run.versions"}
    assert read | computed | {"run.format", "run.task_sha256", "run.test_seed", "run.further"} == leaves(
        Result, "run"
    ) | leaves(LengthScore, "at")


def test_the_scores_of_the_board_follow_from_the_table():
    of = suite()
    made = full(of, {"nope": (1, 1, 0.4, 0.9), "rope": (1, 1, 0.5, 0.1)}, learning_rate=0.1)
    made += full(of, {"nope": GOOD, "rope": GOOD}, learning_rate=0.2, status="diverged")
    table = tidy(frame(made)).query("chosen")
    assert table.token_score.isna().all()  # guessed tokens are unknown here, so a cell is exact match alone
    scores = (table.weight * table.exact_score).groupby([table.task, table.encoding, table.seed]).sum().clip(lower=0)
    assert (scores == 0).any() and (scores > 0.4).any(), "both cases occur: floored and positive"
    for row in board(made).runs.itertuples():
        assert scores[row.task, row.encoding, row.seed] == pytest.approx(row.score, abs=1e-12)


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_results_give_the_same_bytes_and_files_are_kept_unless_forced(tmp_path, form):
    path, other = tmp_path / f"t{form}", tmp_path / f"new/t{form}"
    for place in (path, other):
        write_table(tidy(frame(runs())), place)
    assert path.read_bytes() == other.read_bytes()
    few = tidy(frame(runs()[:1]))
    with pytest.raises(InputError, match="exists; choose another --to, or replace it with --force"):
        refuse_path(path, force=False)
    refuse_path(path, force=True)
    write_table(few, path)
    assert len(read(form, path)) == 4 and {p.name for p in tmp_path.iterdir()} == {path.name, "new"}


def test_a_parquet_file_explains_itself(tmp_path):
    write_table(tidy(frame(runs())), tmp_path / "t.parquet")
    assert pd.read_parquet(tmp_path / "t.parquet").attrs["relative_length"] == "l / L"


def test_a_hub_folder_gives_back_the_table_and_explains_itself(tmp_path):
    table = tidy(frame(runs()))
    write_results_hub(table, tmp_path / "hub")
    found = datasets.load_dataset(str(tmp_path / "hub"), cache_dir=tmp_path / "cache")["results"]
    assert found.to_list() == plain(table)
    _, header, card = (tmp_path / "hub/README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(header)["configs"][0]["data_files"] == [{"split": "results", "path": "results.parquet"}]
    assert "fingerprint 12e4567890123456" in card and f"version = {{{lprime.__version__}}}" in card
    assert "| `relative_length` | double | l / L |" in card
    with pytest.raises(InputError, match="cannot write"):
        write_results_hub(table, tmp_path / "hub")


def test_the_citation_names_the_release():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert cited == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_a_folder_and_an_unknown_ending_are_refused(tmp_path):
    (tmp_path / "t.csv").mkdir()
    for name, fault in {"t.csv": "is a folder", "t.xlsx": "names no format; expected one of .csv, .json, .parquet"}.items():
        with pytest.raises(InputError, match=fault):
            refuse_path(tmp_path / name, force=True)
