"""Generators as published harnesses write them: a loop over examples, a draw a symbol, dictionary look-ups, padding by lists.

They draw from the laws of ``tasks`` in the variants that suite ``small`` uses, so that the two can be set side by side.
"""

import random
from collections.abc import Callable, Sequence

import numpy as np

from tasks import PAD, Examples, Task, unknown
from tasks.copying import LETTERS
from tasks.key_retrieval import VALUES

Drawn = tuple[list[str], list[str]]
"""Symbols of prompt and answer."""


def copying(task: Task, length: int, rng: random.Random) -> Drawn:
    symbols = [rng.choice(LETTERS) for _ in range(length)]
    return symbols, list(symbols)


def addition(task: Task, length: int, rng: random.Random) -> Drawn:
    widths = [length, rng.randint(1, length)]
    rng.shuffle(widths)
    a, b = (rng.randint(10 ** (w - 1) if w > 1 else 0, 10**w - 1) for w in widths)
    prompt = [*reversed(str(a)), "+", *reversed(str(b))]
    return prompt, list(reversed(str(a + b)))


def parity(task: Task, length: int, rng: random.Random) -> Drawn:
    bits = [rng.choice("01") for _ in range(length)]
    return bits, [str(bits.count("1") % 2)]


def key_retrieval(task: Task, length: int, rng: random.Random) -> Drawn:
    filler = [f"v{rng.randrange(VALUES)}" for _ in range(length)]
    key, value = f"k{rng.randrange(task.key_count)}", f"v{rng.randrange(VALUES)}"  # type: ignore[attr-defined]
    place = rng.randint(0, length)
    return [*filler[:place], "#", key, value, *filler[place:], "?", key], [value]


def sorting(task: Task, length: int, rng: random.Random) -> Drawn:
    numbers = rng.sample(range(task.count), length)  # type: ignore[attr-defined]
    return [str(n) for n in numbers], [str(n) for n in sorted(numbers)]


GENERATORS: dict[tuple[str, str], Callable[[Task, int, random.Random], Drawn]] = {
    ("copying", "repeat"): copying,
    ("addition", "reversed"): addition,
    ("parity", "answer"): parity,
    ("key_retrieval", "needle"): key_retrieval,
    ("sorting", "unique"): sorting,
}


def sample(task: Task, lengths: Sequence[int], rng: random.Random) -> Examples:
    """One example of each length.

    Raises:
        InputError: a task or variant that is not written here.
    """
    make = GENERATORS.get((task.name, task.variant))
    if make is None:
        raise unknown("plain generator", f"{task.name} {task.variant}", [" ".join(key) for key in GENERATORS])
    ids = task.vocabulary.ids
    rows, starts = [], []
    for length in lengths:
        prompt, answer = make(task, length, rng)
        rows.append([ids[symbol] for symbol in ["<bos>", *prompt, "<sep>", *answer, "<eos>"]])
        starts.append(len(prompt) + 2)
    widest = max(len(row) for row in rows)
    padded = [row + [PAD] * (widest - len(row)) for row in rows]
    return Examples(np.array(padded), np.array(starts), np.array([len(row) for row in rows]), np.array(lengths))


def train_batch(task: Task, train_length: int, size: int, rng: random.Random) -> Examples:
    """As ``tasks.train_batch``: lengths uniform in 1 … ``train_length``."""
    return sample(task, [rng.randint(1, train_length) for _ in range(size)], rng)
