"""Examples depend only on names and seeds, not on machine or order."""

import dataclasses
import inspect
import math
from collections import Counter

import numpy as np
import pytest

import tasks
from tasks.splits import stream


def same(a: tasks.Examples, b: tasks.Examples) -> bool:
    fields = [field.name for field in dataclasses.fields(a)]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in fields)


# Content of the test sets of lengths 1, 4 and 10. Published results depend on it: a change requires a new ``version``.
GOLDEN = {
    ("addition", "reversed", 2): "e66298f432775b5a0750d1b3d25a8cc03517567a3663833d71867af2dd044537",
    ("addition", "plain", 2): "f3e1b65efff5681692813a5a7f7bac1d96130eec8ee721ce6265cd4b9149f458",
    ("addition", "scratchpad", 2): "dbd7c42b48bdae0f56f5b6544f582f07f712c1fa63bc000ed973fc95341c05fa",
    ("addition", "padded", 2): "ac80e50bbaebf59f1290cc30598e9a8daccfb3ae645c3ec9f60010efa2e21680",
    ("addition", "hinted", 2): "770e5b9e38d6010621a274fa0bb0e55c45e080ce2850a92fe3349b10c9a9ab30",
    ("copying", "repeat", 2): "8ebf0a0de216143c466b9ddf43929a570253f6bcf4fdaa0734223298b04fd61e",
    ("copying", "unique", 2): "8e3d67c08e4a9ab795c957beae6454e04fc48a05640ba69babcfa307dc0de1fc",
    ("flip_flop", "often", 2): "11a7bda02db25b743a2de5665f0f5309cdc49722dacb4b7907b4c0faa6813dc3",
    ("flip_flop", "rarely", 2): "e9b3fc3a4d6a9f9d1b8685388580da33fca0f24bb0a2ee40065adebc2d578a00",
    ("key_retrieval", "needle", 2): "90750024d72e7a6b352b72e9d025e54b5161597b406841c6fcd839154c95f3e9",
    ("key_retrieval", "pairs", 2): "1e3596060506b1962fdb68b42143a48aea566206ff40d3c471d2f3d4bbf8531e",
    ("key_retrieval", "multi_query", 2): "6e037f9efe3d1969b2c04c269fe8acded80d23901ce7b836c1a76597281987cd",
    ("key_retrieval", "decoys", 2): "6baa6e543e1f1db8c88957f31f3b8f58af552e9995b6a1ccbc9fc4b432ff6479",
    ("key_retrieval", "latest", 2): "2b574eb980babbe3d24f3edd76a1164ec1ce36717ac621b415f5829a28a0dbb0",
    ("majority", "binary", 2): "a02d0568bf983662f60ee64ea33cacae8eb92990612a0b2dbba636c92167ad62",
    ("majority", "letters", 2): "819f1443fbac227c57965b3b9eacd703fc952865603cc28834454735200af956",
    ("parity", "answer", 2): "5d421af2d5d87792bd89ebca532e238846787e9759927a028f26bb0858a1cce0",
    ("parity", "scratchpad", 2): "d81ec5958a5cf9b6eb0cc813f76dd53149b507f68f895f37f308477e5d525575",
    ("parity", "few_ones", 2): "bdd554c15d7fbb07e1e955ef35dbf776f56b7235ca844dd8d1dca0c279904cbe",
    ("reverse", "repeat", 2): "188777d77930fc6858d06dfd76fc766a12889ec87e992940cf6b2b535968faa9",
    ("reverse", "unique", 2): "64a01ae98b83f926eda8f1994c21dc46cb8ad14d5b134e166fc548e05fda14b2",
    ("sorting", "unique", 2): "a26879dff458762f762b30d956291dff753b886d0c34abf1d41118436d65c94e",
    ("sorting", "repeat", 2): "7f51a1d62422fe60df67db0affeb1b21c451dacb0363e6cf2918022359850d67",
}


def golden(task: tasks.Task) -> str:
    return tasks.content_hash(task.test_examples(length, 8, 0) for length in (1, 4, 10))


def test_golden_content(task):
    key = (task.name, task.variant, task.version)
    assert GOLDEN.get(key) == golden(task), f"{key} makes other examples than before; raise its version and pin the new hash"


def test_golden_guesses():
    """They are subtracted from token accuracy on the board, so a change requires a new ``PROTOCOL``."""
    found = [
        tasks.get("addition").token_chance(3),
        tasks.get("sorting").token_chance(4),
        tasks.get("sorting", "repeat").token_chance(4),
    ]
    assert found == [0.30723030723030725, 0.220458984375, 0.24404296875]


def test_batches_depend_on_seed_step_and_nothing_else(task):
    batch = tasks.train_batch(task, 8, 16, seed=3, step=1000)
    others = [tasks.train_batch(task, 8, 16, seed, step) for seed, step in [(3, 999), (3, 1001), (4, 1000)]]
    assert not any(same(batch, other) for other in others)
    again = tasks.get(task.name, task.variant, longest=task.longest)
    assert same(batch, tasks.train_batch(again, 8, 16, seed=3, step=1000))


def test_a_test_set_holds_no_example_twice_and_no_answer_more_often_than_a_guess_gets_right(task):
    for length in (1, 2, 9):
        examples = task.test_examples(length, 64, 0)
        rows = [tuple(row[:size]) for row, size in zip(examples.tokens, examples.sizes, strict=True)]
        answers = Counter(row[start:] for row, start in zip(rows, examples.answer_start, strict=True))
        assert len(set(rows)) == len(rows)
        assert max(answers.values()) <= max(1, math.ceil(64 * task.chance(length)))


@pytest.mark.parametrize(
    ("name", "variant", "length", "exist"),
    [("parity", "answer", 3, 8), ("parity", "few_ones", 4, 15), ("majority", "binary", 4, 10), ("copying", "repeat", 2, 64)],
)
def test_where_few_examples_exist_a_test_set_holds_them_all(name, variant, length, exist):
    assert len(tasks.get(name, variant).test_examples(length, 256, 0)) == exist


def test_streams_differ_by_every_part_of_their_name(task):
    wider = tasks.get(task.name, task.variant, longest=task.longest + 1)
    draws = [
        stream(of, split, seed, index).random()
        for of in (task, wider)
        for split in ("train", "test_5", "test_6")
        for seed in (0, 1)
        for index in (0, 1)
    ]
    assert len(set(draws)) == len(draws)


def test_streams_differ_between_tasks_and_variants():
    made = [tasks.get(name, variant) for name, cls in tasks.catalogue().items() for variant in cls.variants if name != "text"]
    assert len({stream(task, "train", 0).random() for task in made}) == len(made)


def test_test_sets_know_nothing_of_training(task):
    assert list(inspect.signature(task.test_examples).parameters) == ["length", "count", "seed"]
    before = task.test_examples(5, 20, 0)
    tasks.train_batch(task, 8, 16, seed=9, step=0)
    assert same(before, task.test_examples(5, 20, 0))
    assert not same(before, task.test_examples(5, 20, 1))


def test_content_hash_sees_every_change():
    task = tasks.get("copying", longest=10)
    examples = task.test_examples(5, 20, 0)
    first = tasks.content_hash([examples])
    assert first == tasks.content_hash(iter([task.test_examples(5, 20, 0)]))
    tokens, start = examples.tokens.copy(), examples.answer_start.copy()
    tokens[7, 3] += 1
    start[2] += 1
    changed = [
        [dataclasses.replace(examples, tokens=tokens)],
        [dataclasses.replace(examples, answer_start=start)],
        [examples.rows(slice(19))],
        [examples, examples],
        [],
    ]
    assert len({first, *map(tasks.content_hash, changed)}) == len(changed) + 1


@pytest.mark.parametrize("dtype", [np.int32, ">i8"])
def test_content_hash_is_of_numbers_not_of_memory(dtype):
    examples = tasks.get("sorting").test_examples(5, 20, 0)
    other = dataclasses.replace(examples, tokens=np.asfortranarray(examples.tokens.astype(dtype)))
    assert tasks.content_hash([examples]) == tasks.content_hash([other])


def test_a_batch_written_into_leaves_the_next_drawing_alone():
    task = tasks.get("copying", longest=6)
    first = tasks.train_batch(task, 6, 4, seed=0, step=2)
    kept = dataclasses.replace(first, **{f.name: getattr(first, f.name).copy() for f in dataclasses.fields(first)})
    for field in dataclasses.fields(first):
        getattr(first, field.name)[:] = 0
    assert same(tasks.train_batch(task, 6, 4, seed=0, step=2), kept)
