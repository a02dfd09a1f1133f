"""Examples depend only on names and seeds, not on machine or order."""

import dataclasses
import inspect

import numpy as np
import pytest

import tasks
from tasks.splits import stream


def same(a: tasks.Examples, b: tasks.Examples) -> bool:
    fields = [field.name for field in dataclasses.fields(a)]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in fields)


# Content of the test sets of lengths 1, 4 and 10. Published results depend on it: a change requires a new ``version``.
GOLDEN = {
    ("addition", "reversed", 1): "60f8af06f3619f9aa92ff26eac6edac6822a1d9b54be3a19b73baf8fb7b2ac96",
    ("addition", "plain", 1): "6022187bb5371ad14c39233872a960e872ecacf4b9dc26289103351769978189",
    ("addition", "scratchpad", 1): "b534a0fcdfce4390d0dfa3f085adae45cf371bf54058279ec15e426507fa8c59",
    ("addition", "padded", 1): "43cca458bc5403efb92b1203d572c80c6bf19aab8d0d2a201b5879bfb70a8519",
    ("addition", "hinted", 1): "770e5b9e38d6010621a274fa0bb0e55c45e080ce2850a92fe3349b10c9a9ab30",
    ("copying", "repeat", 1): "979464350fb46764ba6e8e9a61a1572bdc1cf31a13fe90cd74a9988683a66037",
    ("copying", "unique", 1): "8e3d67c08e4a9ab795c957beae6454e04fc48a05640ba69babcfa307dc0de1fc",
    ("key_retrieval", "needle", 1): "f09d0a0c33d2dbc1ea0c91a151f7e39e5dd5dc5c9e3c956937cd88104522e7fb",
    ("key_retrieval", "pairs", 1): "f479315f09a20fd0a14e533513deda409a9cdfd974e7f79b7a84a58dcc5b960d",
    ("key_retrieval", "multi_query", 1): "039116e5e4bc5ef0d8c8e1160d0b1e954c88c39aea81d269874742cb3aaa8ebe",
    ("key_retrieval", "decoys", 1): "4cc2301fbedc9499999dcfddea0fb051eb36076c282955d894eeb41a6dcfb603",
    ("language", "topics", 1): "f0b0270031333c900f760cfc34a0966cdf2be9c008075be03300faadbcbabc84",
    ("majority", "binary", 1): "063f4a57dddb16355e7abac07489a34b070bd70114fb80688ea637d5f962b876",
    ("parity", "answer", 1): "16919fd328711883e9a021cd6b0522afb8b64de9d571c1f57779dd39c92fda04",
    ("parity", "scratchpad", 1): "f725aa88ce9f985fe833582b82b0378d824331c3980a7b12f801cb90b8fbe96f",
    ("parity", "sparse", 1): "21f864989ca521bb5af4000692bee4bc4adc183ea42f2d0cf2be15d45c889cd4",
    ("sorting", "unique", 1): "a26879dff458762f762b30d956291dff753b886d0c34abf1d41118436d65c94e",
    ("sorting", "repeat", 1): "e1193530f140a699835f4ab4fb60a5be99a6fd05d5215dec8b7ab386494e2c34",
}


def golden(task: tasks.Task) -> str:
    return tasks.content_hash(tasks.test_set(task, length, 8, 0) for length in (1, 4, 10))


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
    assert list(inspect.signature(tasks.test_set).parameters) == ["task", "length", "count", "test_seed"]
    before = tasks.test_set(task, 5, 20, 0)
    tasks.train_batch(task, 8, 16, seed=9, step=0)
    assert same(before, tasks.test_set(task, 5, 20, 0))
    assert not same(before, tasks.test_set(task, 5, 20, 1))


def test_content_hash_sees_every_change():
    task = tasks.get("copying", longest=10)
    examples = tasks.test_set(task, 5, 20, 0)
    first = tasks.content_hash([examples])
    assert first == tasks.content_hash(iter([tasks.test_set(task, 5, 20, 0)]))
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
    examples = tasks.test_set(tasks.get("sorting"), 5, 20, 0)
    other = dataclasses.replace(examples, tokens=np.asfortranarray(examples.tokens.astype(dtype)))
    assert tasks.content_hash([examples]) == tasks.content_hash([other])


def test_a_batch_written_into_leaves_the_next_drawing_alone():
    task = tasks.get("copying", longest=6)
    first = tasks.train_batch(task, 6, 4, seed=0, step=2)
    kept = dataclasses.replace(first, **{f.name: getattr(first, f.name).copy() for f in dataclasses.fields(first)})
    for field in dataclasses.fields(first):
        getattr(first, field.name)[:] = 0
    assert same(tasks.train_batch(task, 6, 4, seed=0, step=2), kept)
