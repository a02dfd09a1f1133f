"""Examples are drawn as documented. Seeds are fixed, so the tests are deterministic."""

from collections import Counter
from itertools import combinations, permutations, product, zip_longest

import numpy as np
import pytest

import tasks
from tasks.sampling import distinct
from tasks.splits import stream


def assert_uniform(values, among: int) -> None:
    """Chi-square, with mean ``df`` and standard deviation √(2 df): within 4 of those, so that one cell gone astray shows."""
    counts = np.bincount(values, minlength=among)
    assert len(counts) == among
    expected = len(values) / among
    chi2, df = ((counts - expected) ** 2 / expected).sum(), among - 1
    assert chi2 < df + 4 * np.sqrt(2 * df), counts


def decoded(task: tasks.Task, examples: tasks.Examples) -> list[tuple[str, str]]:
    """Prompt and answer of each row, as text."""
    cuts = zip(examples.tokens, examples.answer_start, examples.sizes, strict=True)
    return [
        (task.vocabulary.decode(row[1 : start - 1]), task.vocabulary.decode(row[start : size - 1])) for row, start, size in cuts
    ]


def test_training_lengths_are_uniform(task):
    lengths = np.concatenate([tasks.train_batch(task, 7, 64, 0, step).lengths for step in range(50)])
    assert_uniform(lengths - 1, 7)


def test_every_token_is_drawn(task):
    seen = np.unique(drawn(task, 10, 1000, 0).tokens)
    assert set(seen) | {tasks.PAD} == set(range(len(task.vocabulary)))


def test_answers_use_the_roles_of_the_prompt(task):
    examples = drawn(task, 10, 1000, 0)
    roles = {task.vocabulary.roles[token] for token in examples.tokens[examples.targets]} - {"special"}
    expected = {
        "addition": {"digit"},
        "copying": {"symbol"},
        "flip_flop": {"bit"},
        "key_retrieval": {"value"},
        "majority": {"letter" if task.variant == "letters" else "bit"},
        "parity": {"bit"},
        "reverse": {"symbol"},
        "sorting": {"number"},
    }
    extra = {"operator", "carry"} if (task.name, task.variant) == ("addition", "scratchpad") else set()
    extra |= {"hint"} if task.variant == "hinted" else set()
    assert roles == expected[task.name] | extra


def drawn(task: tasks.Task, length: int, count: int, seed: int) -> tasks.Examples:
    """Examples as drawn: test sets leave out those that recur."""
    return task.sample(length, count, stream(task, "drawn", seed))


def test_chance_of_addition_is_exact():
    sums: Counter[int] = Counter()
    for width, first in ((1, 0), (2, 10)):
        share = 1 / 2 / (10**width - first) / 90
        for long, short in product(range(10, 100), range(first, 10**width)):
            sums[long + short] += share
    assert tasks.get("addition").chance(2) == pytest.approx(max(sums.values()))
    assert max(sums, key=sums.__getitem__) == 99


def token_chance_of(answers: list[list[str]]) -> float:
    """Exact share of right tokens of the best guess, if these answers are equally likely; ``.`` is the end."""
    places = [Counter(places) for places in zip_longest(*([*answer, "."] for answer in answers))]
    right = sum(max(n for token, n in place.items() if token) for place in places)
    return right / sum(len(answer) + 1 for answer in answers)


@pytest.mark.parametrize(
    ("name", "variant", "longest", "length", "answers"),
    [
        ("copying", "repeat", 8, 2, product("abcdefgh", repeat=2)),
        ("copying", "unique", 3, 2, permutations("abcdef", 2)),
        ("key_retrieval", "multi_query", 8, 3, product("0123456789abcdef", repeat=3)),
        ("parity", "answer", 8, 7, "01"),
        ("parity", "scratchpad", 8, 5, product("01", repeat=5)),
        ("sorting", "unique", 4, 3, combinations("01234567", 3)),
        ("sorting", "repeat", 4, 4, map(sorted, product("0123", repeat=4))),
        ("addition", "reversed", 4, 1, (str(a + b)[::-1] for a, b in product(range(10), repeat=2))),
        ("addition", "padded", 4, 1, (f"{a + b:02}"[::-1] for a, b in product(range(10), repeat=2))),
    ],
)
def test_token_chance_is_that_of_all_answers(name, variant, longest, length, answers):
    task = tasks.get(name, variant, longest)
    exact = token_chance_of(list(map(list, answers)))
    overridden = type(task).token_chance is not tasks.Task.token_chance
    assert task.token_chance(length) == pytest.approx(exact, abs=1e-12 if overridden else 0.01)
    # 4,096 examples: the standard deviation of a place is at most 1/128
    assert tasks.Task.token_chance(task, length) == pytest.approx(exact, abs=0.015)


def test_chance_falls_and_never_breaks(task):
    long = tasks.get(task.name, task.variant, longest=450)
    chances = [long.chance(length) for length in (1, 2, 50, 450)]
    assert chances == sorted(chances, reverse=True)
    assert all(0 <= chance <= 0.5 for chance in chances)


@pytest.mark.parametrize(("width", "among"), [(1, 5), (2, 4), (3, 3), (3, 4)])
def test_distinct_is_uniform_over_ordered_choices(width, among):
    drawn = distinct(np.random.default_rng(0), 24_000, width, among)
    choices = [choice for choice in product(range(among), repeat=width) if len(set(choice)) == width]
    index = {choice: i for i, choice in enumerate(choices)}
    assert_uniform([index[tuple(row)] for row in drawn.tolist()], len(choices))


def test_distinct_of_nothing():
    assert distinct(np.random.default_rng(0), 3, 0, 5).shape == (3, 0)
    assert distinct(np.random.default_rng(0), 0, 2, 5).shape == (0, 2)


@pytest.mark.parametrize("variant", ["reversed", "plain", "scratchpad"])
def test_operands_of_addition(variant):
    task = tasks.get("addition", variant, longest=10)
    operands = [
        [number.split()[:: 1 if variant == "plain" else -1] for number in prompt.split("+")]
        for prompt, _ in decoded(task, drawn(task, 5, 6000, 0))
    ]
    assert_uniform([min(len(a), len(b)) - 1 for a, b in operands], 5)
    assert_uniform([int(len(a) < len(b)) for a, b in operands if len(a) != len(b)], 2)
    for side in (0, 1):
        numbers = [pair[side] for pair in operands]
        assert_uniform([int(digits[0]) for digits in numbers if len(digits) == 1], 10)
        assert_uniform([int(digits[0]) - 1 for digits in numbers if len(digits) > 1], 9)
        assert_uniform([int(digit) for digits in numbers for digit in digits[1:]], 10)


def test_needle():
    task = tasks.get("key_retrieval", "needle", longest=10)
    # Mixed lengths, since there the place must follow each row's own length.
    examples = task.sample(np.tile([6, 3, 10], 4000), 12_000, stream(task, "needle", 0))
    prompts = [prompt.split() for prompt, _ in decoded(task, examples)]
    places = np.array([prompt.index("#") for prompt in prompts])
    for first, length in enumerate((6, 3, 10)):
        assert_uniform(places[first::3], length + 1)
    keys, values = ([prompt[place + i] for prompt, place in zip(prompts, places, strict=True)] for i in (1, 2))
    filler = [
        symbol for prompt, place in zip(prompts, places, strict=True) for symbol in prompt[:place] + prompt[place + 3 : -2]
    ]
    for symbols in (keys, values, filler):
        assert_uniform([int(symbol[1:]) for symbol in symbols], 16)


@pytest.mark.parametrize(("variant", "asked"), [("pairs", 1), ("multi_query", 4)])
def test_asked_pairs(variant, asked):
    task = tasks.get("key_retrieval", variant, longest=10)
    examples = task.sample(np.tile([6, 2, 10], 4000), 12_000, stream(task, "pairs", 0))
    prompts = [prompt.split() for prompt, _ in decoded(task, examples)]
    for first, length in enumerate((6, 2, 10)):
        rows = prompts[first::3]
        queries = [row[row.index("?") + 1 :] for row in rows]
        assert {len(query) for query in queries} == {min(asked, length)}
        for nth in range(min(asked, length)):
            places = [row.index(query[nth]) // 2 for row, query in zip(rows, queries, strict=True)]
            assert_uniform(places, length)
        assert_uniform([int(key[1:]) for row in rows for key in row[: 2 * length : 2]], 10)
        assert_uniform([int(value[1:]) for row in rows for value in row[1 : 2 * length : 2]], 16)


def test_parity_bits_are_fair():
    task = tasks.get("parity", longest=10)
    assert_uniform([int(bit) for prompt, _ in decoded(task, drawn(task, 7, 2000, 0)) for bit in prompt.split()], 2)


@pytest.mark.parametrize(("length", "even", "odd"), [(4, [2, 4], [1, 3]), (9, [2, 4], [1, 3])])
def test_few_ones_draws_even_or_odd_then_how_many_ones_then_where(length, even, odd):
    task = tasks.get("parity", "few_ones", longest=10)
    # Mixed lengths, since there the places must follow each row's own length.
    examples = task.sample(np.tile([length, 10], 6000), 12_000, stream(task, "few_ones", 0))
    rows = [[int(bit) for bit in prompt.split()] for prompt, _ in decoded(task, examples)][::2]
    assert_uniform([sum(row) % 2 for row in rows], 2)
    for group in (even, odd):
        assert_uniform([group.index(sum(row)) for row in rows if sum(row) in group], len(group))
    assert_uniform([row.index(1) for row in rows if sum(row) == 1], length)


def test_repeated_numbers_do_repeat():
    task = tasks.get("sorting", "repeat", longest=10)
    rows = [prompt.split() for prompt, _ in decoded(task, drawn(task, 10, 500, 0))]
    assert sum(len(set(row)) < 10 for row in rows) > 490
    assert_uniform([int(symbol) for row in rows for symbol in row], 10)
