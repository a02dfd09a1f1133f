"""Vocabulary, ragged rows, example sets, and error messages."""

import re
import subprocess
import sys

import numpy as np
import pytest

import tasks
from tasks.base import Ragged, Task, Vocabulary
from tasks.errors import InputError


@pytest.fixture
def sorting() -> Task:
    return tasks.get("sorting", "unique", longest=10)


def test_catalogue_leaves_out_tasks_of_others():
    class Foreign(Task):
        name = "aaa"

    assert Foreign in Task.__subclasses__()
    assert "aaa" not in tasks.catalogue.__wrapped__()


def test_tasks_are_documented(task):
    assert task.title
    assert task.length_is
    assert task.variants[task.variant]
    assert tasks.get(task.name).variant == next(iter(task.variants))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("sortin",), "unknown task 'sortin'; did you mean 'sorting'?"),
        (
            ("zzz",),
            f"unknown task 'zzz'; expected one of: {', '.join(tasks.catalogue())}",
        ),
        (("addition", "reverse"), "unknown variant of addition 'reverse'; did you mean 'reversed'?"),
        (("key_retrieval", "needles"), "unknown variant of key_retrieval 'needles'; did you mean 'needle'?"),
        (("parity", "answer", 0), "parity: the longest length must be at least 1, got 0"),
    ],
)
def test_unknown_names_get_the_nearest_match(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        tasks.get(*given)


@pytest.mark.parametrize("length", [-1, 0, 11])
def test_lengths_out_of_range_are_refused(sorting, length):
    message = f"sorting: length must be in 1 … 10, got {length}"
    with pytest.raises(InputError, match=message):
        sorting.test_examples(length, 4, 0)
    with pytest.raises(InputError, match=message):
        tasks.train_batch(sorting, length, 4, 0, 0)
    with pytest.raises(InputError, match=message):
        sorting.sample(np.array([3, length, 5]), 3, np.random.default_rng(0))


def test_vocabulary_starts_with_the_special_tokens(task):
    vocabulary = task.vocabulary
    assert vocabulary.symbols[:4] == ("<pad>", "<bos>", "<sep>", "<eos>")
    assert vocabulary.roles[:4] == ("special",) * 4
    assert "special" not in vocabulary.roles[4:]
    assert len(vocabulary.roles) == len(vocabulary.symbols) == len(vocabulary)
    assert not any(" " in symbol for symbol in vocabulary.symbols)


def test_vocabulary_text_and_back(task):
    examples = task.test_examples(6, 5, 0)
    for row, size in zip(examples.tokens, examples.sizes, strict=True):
        assert [task.vocabulary.ids[symbol] for symbol in task.vocabulary.decode(row).split()] == row[:size].tolist()


def test_vocabulary_refuses_equal_symbols():
    with pytest.raises(InputError, match="symbols must differ"):
        Vocabulary.of(digit="01", bit="1")


def test_ragged_rows_may_have_gaps():
    values = np.array([[10, 11, 12], [20, 21, 22]])
    rows = Ragged(values, np.array([[True, False, True], [False, False, True]]), np.array([2, 1]))
    assert rows.padded().tolist() == [[10, 12], [22, tasks.PAD]]


def test_ragged_join_keeps_the_order_of_each_row():
    joined = Ragged.join(Ragged.of(np.array([[5, 6], [7, 8]]), np.array([2, 0])), Ragged.token(9, 2))
    assert joined.padded().tolist() == [[5, 6, 9], [9, tasks.PAD, tasks.PAD]]


def test_targets_are_answer_and_eos(sorting):
    examples = sorting.sample(np.array([1, 3]), 2, np.random.default_rng(0))
    assert [np.flatnonzero(row).tolist() for row in examples.targets] == [[3, 4], [5, 6, 7, 8]]


def test_rows_are_cut_to_the_widest(sorting):
    examples = sorting.sample(np.array([1, 3, 2]), 3, np.random.default_rng(0))
    some = examples.rows(np.array([2, 0]))
    assert some.tokens.shape == (2, 7)
    assert some.lengths.tolist() == [2, 1]
    assert some.tokens[0].tolist() == examples.tokens[2, :7].tolist()


def test_tasks_alone_import_neither_datasets_nor_torch():
    loaded = "import sys, tasks; tasks.catalogue(); print(sorted({'datasets', 'pyarrow', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"
