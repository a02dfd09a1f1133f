"""An export contains exactly the examples of the harness, or nothing is written."""

import re
import resource
import subprocess
import sys

import numpy as np
import pytest

import tasks
from tasks.errors import InputError
from tasks.export import export

HOW = {
    "train_length": 6,
    "test_lengths": [6, 10],
    "test_count": 12,
    "test_seed": 5,
    "seed": 3,
    "batch": 16,
    "train_examples": 40,
}


@pytest.fixture
def sorting() -> tasks.Task:
    return tasks.get("sorting", longest=10)


def rows(task: tasks.Task, *sets: tasks.Examples) -> list[dict]:
    """Expected rows of a split."""
    expected = []
    for examples in sets:
        for row, start, size, length in zip(
            examples.tokens, examples.answer_start, examples.sizes, examples.lengths, strict=True
        ):
            text, answer = (task.vocabulary.decode(part) for part in (row[:size], row[start : size - 1]))
            expected.append({"ids": row[:size].tolist(), "text": text, "answer": answer, "length": length})
    return expected


def test_splits_are_those_of_the_harness(task, tmp_path):
    import datasets

    assert export(task, tmp_path / "out", **HOW) == tmp_path / "out"
    found = datasets.load_from_disk(str(tmp_path / "out"))
    assert list(found) == ["train", "test_6", "test_10"]
    # 40 examples are two batches of 16 and half of a third.
    batches = [tasks.train_batch(task, 6, 16, seed=3, step=step) for step in range(3)]
    assert found["train"].to_list() == rows(task, *batches)[:40]
    for length in (6, 10):
        assert found[f"test_{length}"].to_list() == rows(task, tasks.test_set(task, length, 12, 5))
    assert set(found["train"].column_names) == {"ids", "text", "answer", "length"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_card(sorting, tmp_path):
    card = (export(sorting, tmp_path / "out", **HOW, title='Sorting: "a" title') / "README.md").read_text(encoding="utf-8")
    assert card.startswith('---\nlicense: apache-2.0\npretty_name: "Sorting: \\"a\\" title"\n')
    cut = tasks.train_batch(sorting, 6, 16, 3, 2).rows(slice(8))
    train = tasks.content_hash([tasks.train_batch(sorting, 6, 16, 3, 0), tasks.train_batch(sorting, 6, 16, 3, 1), cut])
    test = tasks.content_hash([tasks.test_set(sorting, 6, 12, 5)])
    expected = [
        f"| `train` | 40 | `{train}` |",
        f"| `test_6` | 12 | `{test}` |",
        "- variant: unique",
        "- seed: 3",
        "- test_seed: 5",
        "- longest: 10",
        " ".join(sorting.vocabulary.symbols),
        "Apache-2.0",
        "numbers to sort",
        "write the numbers of the prompt in ascending order",
    ]
    assert [text for text in expected if text not in card] == []


def test_same_recipe_same_bytes(sorting, tmp_path):
    one, two = (export(sorting, tmp_path / name, **HOW) for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) > 6
    assert all((one / file).read_bytes() == (two / file).read_bytes() for file in files)


@pytest.mark.parametrize("count", [1, 16, 17])
def test_train_split_is_cut(sorting, tmp_path, count):
    import datasets

    export(sorting, tmp_path / "out", **HOW | {"train_examples": count})
    assert len(datasets.load_from_disk(str(tmp_path / "out"))["train"]) == count


def test_empty_directory_is_taken_and_parents_are_made(sorting, tmp_path):
    (tmp_path / "empty").mkdir()
    export(sorting, tmp_path / "empty", **HOW)
    assert (tmp_path / "empty" / "README.md").exists()
    made = export(sorting, tmp_path / "a" / "b", **HOW)
    # Others may read it, as they may any directory made here.
    assert made.stat().st_mode == (tmp_path / "a").stat().st_mode


def test_full_directory_and_file_are_rejected(sorting, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    for target in (tmp_path / "full", tmp_path / "full" / "thesis.tex"):
        with pytest.raises(InputError, match=re.escape(f"{target} exists and is not an empty directory; choose another")):
            export(sorting, target, **HOW)
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "thesis.tex"]
    assert (tmp_path / "full" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_examples": 0}, "train_examples must be at least 1, got 0"),
        ({"batch": -1}, "batch must be at least 1, got -1"),
        ({"test_count": 0}, "test_count must be at least 1, got 0"),
        ({"train_length": 11}, "sorting: length must be in 1 … 10, got 11"),
        ({"test_lengths": [5, 0]}, "sorting: length must be in 1 … 10, got 0"),
    ],
)
def test_invalid_numbers_are_rejected(sorting, tmp_path, changed, message):
    with pytest.raises(InputError, match=re.escape(message)):
        export(sorting, tmp_path / "out", **HOW | changed)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_full_disk(sorting, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on file sizes fails the write half-way, as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(InputError, match=re.escape(f"cannot write to {tmp_path}/a/b: ")) as refused:
            export(sorting, tmp_path / "a" / "b", **HOW | {"train_examples": 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place(sorting, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=re.escape(f"cannot write to {tmp_path}/file/out: ")):
        export(sorting, tmp_path / "file" / "out", **HOW)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_progress_bars_are_silent_and_left_as_they_were(sorting, tmp_path, capfd):
    import datasets

    datasets.enable_progress_bars()
    export(sorting, tmp_path / "out", **HOW)
    assert capfd.readouterr() == ("", "")
    assert not datasets.are_progress_bars_disabled()


def test_tasks_alone_import_neither_datasets_nor_torch():
    loaded = "import sys, tasks; tasks.catalogue(); print(sorted({'datasets', 'pyarrow', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_ids_are_small_integers(sorting, tmp_path):
    import datasets

    export(sorting, tmp_path / "out", **HOW)
    train = datasets.load_from_disk(str(tmp_path / "out"))["train"]
    assert train.features["ids"].feature.dtype == train.features["length"].dtype == "int32"
    assert np.concatenate(train["ids"]).max() < len(sorting.vocabulary)
