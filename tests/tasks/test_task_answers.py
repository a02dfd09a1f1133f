"""Every answer is recomputed from the decoded text, by plain Python that shares no code with the generators."""

import inspect
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tasks.splits import stream


def number(digits: list[str], variant: str) -> int:
    """The number that digit symbols represent; it must not have leading zeros."""
    text = "".join(digits if variant == "plain" else digits[::-1])
    value = int(text)
    assert text == str(value)
    return value


def without_padding(digits: list[str]) -> list[str]:
    return list("".join(digits).rstrip("0")) or ["0"]


def check_addition(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    plus = prompt.index("+")
    operands = prompt[:plus], prompt[plus + 1 :]
    assert max(map(len, operands)) == (2 * length if variant == "hinted" else length)
    assert min(map(len, operands)) >= 1
    if variant == "hinted":
        hints = [part[::2] for part in (*operands, answer)]
        first = int(hints[0][0].removeprefix("h"))
        assert hints == [[f"h{first + i}" for i in range(length + extra)] for extra in (0, 0, 1)]
        operands, answer = (operands[0][1::2], operands[1][1::2]), answer[1::2]
    if variant in ("padded", "hinted"):
        assert len(operands[0]) == len(operands[1]) == len(answer) - 1
        operands, answer = tuple(map(without_padding, operands)), without_padding(answer)
    a, b = (number(digits, variant) for digits in operands)
    if variant == "scratchpad":
        assert answer.index("=") == 2 * length
        columns, answer = answer[: 2 * length], answer[2 * length + 1 :]
        carry = 0
        for column, (digit, mark) in enumerate(zip(columns[::2], columns[1::2], strict=True)):
            total = a // 10**column % 10 + b // 10**column % 10 + carry
            carry = total // 10
            assert (digit, mark) == (str(total % 10), f"c{carry}")
    assert number(answer, variant) == a + b


def check_copying(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    assert len(prompt) == length
    assert answer == prompt
    assert variant != "unique" or len(set(prompt)) == length


def check_flip_flop(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    instructions = list(zip(prompt[::2], prompt[1::2], strict=True))
    assert len(instructions) == length and instructions[0][0] == "w" and {name for name, _ in instructions} <= {"w", "i"}
    assert answer == [[bit for name, bit in instructions if name == "w"][-1]]


def check_key_retrieval(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    query = prompt.index("?")
    pairs, queries = prompt[:query], prompt[query + 1 :]
    if variant in ("decoys", "latest"):
        marks = [at for at, symbol in enumerate(pairs) if symbol == "#"]
        marked = {at + step for at in marks for step in range(3)}
        filler = [symbol for at, symbol in enumerate(pairs) if at not in marked]
        assert len(marks) == 4 and len(filler) == length and all(symbol.startswith("v") for symbol in filler)
        pairs = [pairs[at + step] for at in marks for step in (1, 2)]
    elif variant == "needle":
        mark = pairs.index("#")
        filler = pairs[:mark] + pairs[mark + 3 :]
        assert len(filler) == length
        assert all(symbol.startswith("v") for symbol in filler)
        pairs = pairs[mark + 1 : mark + 3]
    else:
        assert len(pairs) == 2 * length
    table = dict(zip(pairs[::2], pairs[1::2], strict=True))
    assert len(table) == (1 if variant == "latest" else len(pairs) // 2), "number of different keys"
    assert all(key.startswith("k") and value.startswith("v") for key, value in table.items())
    assert len(set(queries)) == len(queries) == (min(4, length) if variant == "multi_query" else 1)
    assert answer == [table[key] for key in queries]


def check_majority(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    assert len(prompt) == length and set(prompt) <= set("01" if variant == "binary" else "abcdefghijklmnopqrstuvwxyz")
    first, *others = Counter(prompt).most_common()
    assert answer == [first[0]] and all(count < first[1] for _, count in others)


def check_parity(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    bits = [int(symbol) for symbol in prompt]
    assert len(bits) == length
    assert variant != "few_ones" or (length > 1) <= sum(bits) <= 4
    running = [str(sum(bits[: i + 1]) % 2) for i in range(length)]
    assert answer == (running if variant == "scratchpad" else running[-1:])


def check_reverse(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    check_copying(variant, length, prompt, answer[::-1])


def check_sorting(variant: str, length: int, prompt: list[str], answer: list[str]) -> None:
    assert len(prompt) == length
    assert answer == sorted(prompt, key=int)
    assert variant != "unique" or len(set(prompt)) == length


CHECKS = {
    "addition": check_addition,
    "copying": check_copying,
    "flip_flop": check_flip_flop,
    "key_retrieval": check_key_retrieval,
    "majority": check_majority,
    "parity": check_parity,
    "reverse": check_reverse,
    "sorting": check_sorting,
}


def check(task: tasks.Task, examples: tasks.Examples) -> None:
    """Check structure and answer of every row."""
    for row, start, size, length in zip(examples.tokens, examples.answer_start, examples.sizes, examples.lengths, strict=True):
        assert (row[size:] == tasks.PAD).all()
        row = row[:size]
        assert row.min() > tasks.PAD
        assert row.max() < len(task.vocabulary)
        assert [np.flatnonzero(row == t).tolist() for t in (tasks.BOS, tasks.SEP, tasks.EOS)] == [[0], [start - 1], [size - 1]]
        assert size <= task.tokens(length)
        most_prompt, most_answer = task.widths(length)
        prompt, answer = (task.vocabulary.decode(part).split() for part in (row[1 : start - 1], row[start : size - 1]))
        assert 1 <= len(prompt) <= most_prompt
        assert 1 <= len(answer) <= most_answer
        CHECKS[task.name](task.variant, int(length), prompt, answer)
    assert examples.sizes.max() == examples.tokens.shape[1], "no column is all padding"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(lengths=st.lists(st.integers(1, 10), min_size=1, max_size=8), seed=st.integers(0, 2**32))
def test_answers_are_right(task, lengths, seed):
    examples = task.sample(np.array(lengths), len(lengths), stream(task, "brute force", seed))
    assert examples.lengths.tolist() == lengths
    check(task, examples)


def test_every_task_has_a_check():
    assert set(CHECKS) == set(tasks.catalogue()) - {"text"}


def test_announced_size_is_reached(task):
    for length in (1, 2, 5, 10):
        assert task.test_examples(length, 1000, 0).sizes.max() == task.tokens(length)


def test_long_examples(task):
    # Sums of 450 digits fit no machine word.
    long = tasks.get(task.name, task.variant, longest=450)
    check(long, long.sample(np.array([450, 1, 450, 449]), 4, stream(long, "brute force", 0)))


def test_longest_length_may_be_one(task):
    only = tasks.get(task.name, task.variant, longest=1)
    check(only, only.test_examples(1, 20, 0))


def test_no_examples(task):
    none = task.sample(3, 0, stream(task, "brute force", 0))
    assert len(none) == 0
    assert none.targets.shape == none.tokens.shape


def test_module_docstrings_show_real_examples(task):
    # With this seed, additions have carries, the needle is inside the filler, and symbols recur.
    examples = task.sample(4, 1, stream(task, "docstring", 2503))
    line = f"\n    {task.vocabulary.decode(examples.tokens[0])}\n"
    module = inspect.getmodule(type(task))
    assert line in module.__doc__
    assert f"``{task.variant}``, length 4" in module.__doc__
