"""An export contains exactly the examples of the harness, or nothing is written."""

import re
import resource
from pathlib import Path

import datasets
import pytest
from support import suite_dict

import tasks
from bench.dataset import export
from bench.suites.suite import Suite, validated
from tasks import InputError

CASES = [(name, variant) for name, cls in tasks.catalogue().items() for variant in cls.variants if name != "text"]


def suite_of(task: str = "sorting", variant: str = "unique", **recipe: object) -> Suite:
    """Training in batches of 16 of lengths up to 6; 12 test examples of the lengths 6 and 10."""
    spec = {"task": task, "variant": variant, "train_length": 6, "recipe": {"batch": 16} | recipe}
    return validated(Suite, suite_dict(tasks=[spec], test_at=[1, 1.6], test_examples=12, test_seed=5), "suite")


def write(to: Path, suite: Suite | None = None, train_examples: int = 40) -> Path:
    suite = suite or suite_of()
    return export(suite, suite.tasks[0].task, to, train_examples, seed=3)


def rows(task: tasks.Task, *sets: tasks.Examples) -> list[dict]:
    """Expected rows of a split."""
    expected = []
    for examples in sets:
        for row, start, size, length in zip(
            examples.tokens, examples.answer_start, examples.sizes, examples.lengths, strict=True
        ):
            text, answer = (task.vocabulary.decode(part) for part in (row[:size], row[start : size - 1]))
            expected.append(
                {"ids": row[:size].tolist(), "text": text, "answer": answer, "length": length, "answer_start": start}
            )
    return expected


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_splits_are_those_of_the_harness(name, variant, tmp_path, capfd):
    task = tasks.get(name, variant, longest=10)
    assert write(tmp_path / "a" / "out", suite_of(name, variant)) == tmp_path / "a" / "out"
    assert capfd.readouterr() == ("", ""), "no progress bars"
    found = datasets.load_dataset(str(tmp_path / "a" / "out"), cache_dir=tmp_path / "cache")
    assert list(found) == ["train", "test_6", "test_10"]
    # 40 examples are two batches of 16 and half of a third.
    batches = [tasks.train_batch(task, 6, 16, seed=3, step=step) for step in range(3)]
    assert found["train"].to_list() == rows(task, *batches)[:40]
    for length in (6, 10):
        assert found[f"test_{length}"].to_list() == rows(task, task.test_examples(length, 12, 5))
    assert set(found["train"].column_names) == {"ids", "text", "answer", "length", "answer_start"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_a_recipe_of_one_length(tmp_path):
    out = write(tmp_path / "out", suite_of(lengths="L"))
    assert set(datasets.load_dataset(str(out), cache_dir=tmp_path / "cache")["train"]["length"]) == {6}


def test_same_recipe_same_bytes(tmp_path):
    one, two = (write(tmp_path / name) for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert {file.name for file in files} == {"README.md", "train.parquet", "test_6.parquet", "test_10.parquet"}
    assert all((one / file).read_bytes() == (two / file).read_bytes() for file in files)


def test_only_an_empty_directory_is_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    for target in (tmp_path / "full", tmp_path / "full" / "thesis.tex"):
        with pytest.raises(InputError, match=re.escape(f"cannot write {target}: ")):
            write(target)
    assert (tmp_path / "full" / "thesis.tex").read_text() == "mine"


def test_no_examples_and_unknown_tasks_are_rejected(tmp_path):
    with pytest.raises(InputError, match="train_examples must be at least 1 and at most 10,000,000, got 0"):
        write(tmp_path / "out", train_examples=0)
    with pytest.raises(InputError, match="unknown task of suite tiny 'sortin'; did you mean 'sorting'"):
        export(suite_of(), "sortin", tmp_path / "a" / "out", 1, 0)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_full_disk(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on file sizes fails the write half-way, as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(InputError, match=re.escape(f"cannot write {tmp_path}/a/b: ")) as refused:
            write(tmp_path / "a" / "b", train_examples=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(refused.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
