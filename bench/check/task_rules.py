"""Tasks: equal streams give equal examples, which are as long as declared, and whose answers follow from their prompts."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks import EOS, Examples, Task, content_hash, train_batch
from tasks.base import stream

from .checks import Fault, check

TRAIN_LENGTH, LENGTHS = 10, (1, 2, 5, 10, 15, 20)
COUNT, SIMULATED = 256, 4096
"""Examples of each length, and of each half of a simulation."""


@dataclass
class TaskSubject:
    """A task to be checked, in all its variants."""

    plugin: type[Task]
    settings: dict[str, Any]

    def made(self) -> list[Task]:
        """A new instance of each variant."""
        return [self.plugin(variant, LENGTHS[-1], **self.settings) for variant in self.plugin.variants]

    def drawn(self) -> Iterator[tuple[Task, int, list[int], list[int]]]:
        """Examples of every variant, for training and tests of every length: task, length, prompt and answer."""
        for task in self.made():
            for examples in (train_batch(task, TRAIN_LENGTH, COUNT, 0, 0), *(task.test_examples(n, COUNT, 0) for n in LENGTHS)):
                for row, start, length in zip(rows(examples), examples.answer_start, examples.lengths, strict=True):
                    yield task, int(length), row[1 : start - 1], row[start:-1]


def rows(examples: Examples) -> list[list[int]]:
    """Tokens without padding."""
    return [row[:size].tolist() for row, size in zip(examples.tokens, examples.sizes, strict=True)]


@check("streams", advice="draw from rng alone, and keep nothing from one draw to the next")
def check_streams(subject: TaskSubject) -> str:
    """Equal seeds give equal examples, in any order, and other seeds give others."""
    for task, again in zip(subject.made(), subject.made(), strict=True):
        first, second = (
            {n: content_hash([made.test_examples(n, COUNT, 0), train_batch(made, n, 32, 0, n)]) for n in lengths}
            for made, lengths in ((task, LENGTHS), (again, LENGTHS[::-1]))
        )
        if first != second:
            raise Fault(f"{task.variant}: the same seed gives other examples")
        if len({content_hash([task.test_examples(LENGTHS[-1], COUNT, seed)]) for seed in (0, 1)}) == 1:
            raise Fault(f"{task.variant}: another seed gives the same examples")
    return "the same from the same seeds, in any order"


@check("answers", advice="widths(length) is the most tokens of prompt and answer; the answer must follow from the prompt")
def check_answers(subject: TaskSubject) -> str:
    """Prompts and answers are of the vocabulary and as wide as declared; equal prompts have equal answers, which
    answer(prompt) finds, if the task has it."""
    recomputed, known = 0, dict[tuple[str, ...], str]()
    for task, length, *parts in subject.drawn():
        where, most, tokens = f"{task.variant}, length {length}", task.widths(length), [*parts[0], *parts[1]]
        if len(parts[0]) > most[0] or len(parts[1]) > most[1]:
            raise Fault(f"{where}: {len(parts[0])} + {len(parts[1])} tokens, and widths says {most[0]} + {most[1]}")
        if not all(EOS < token < len(task.vocabulary) for token in tokens):
            raise Fault(f"{where}: ids {tokens}; those of symbols are {EOS + 1} … {len(task.vocabulary) - 1}")
        prompt, answer = ([task.vocabulary.symbols[token] for token in part] for part in parts)
        own, given = task.answer(prompt), " ".join(answer)
        found = known.setdefault((task.variant, str(length), *prompt), given if own is None else " ".join(own))
        if found != given:
            raise Fault(f"{where}: {' '.join(prompt)} has the answer {given}, and also {found}")
        recomputed += own is not None
    return f"as declared; {recomputed:,} recomputed" if recomputed else "as declared; there is no answer(prompt) to compare"


@check("chance", advice="chance(length) is the share of the most frequent answer of that length; below 100%")
def check_chance(subject: TaskSubject) -> str:
    """The best guess that does not see the prompt is right as often as chance(length) says."""
    for task in subject.made():
        task.token_chance(LENGTHS[0])  # raises, where runs would
        for length in LENGTHS:
            drawn = task.sample(length, 2 * SIMULATED, stream(task, "chance", 0))
            answers = [tuple(row[start:]) for row, start in zip(rows(drawn), drawn.answer_start, strict=True)]
            guess = Counter(answers[:SIMULATED]).most_common(1)[0][0]
            share, said = answers[SIMULATED:].count(guess) / SIMULATED, task.chance(length)
            if not 0 <= said < 1 or abs(share - said) > 0.01 + 5 * math.sqrt(said * (1 - said) / SIMULATED):
                raise Fault(f"{task.variant}, length {length}: a guess is right in {share:.1%}, chance says {said:.1%}")
    return f"as {SIMULATED:,} guesses say, at lengths up to {LENGTHS[-1]}"


@check("new tests", advice="examples past L must be longer, or otherwise differ from those up to L")
def check_new(subject: TaskSubject) -> str:
    """Test examples past the training length do not occur in training."""
    shares = dict.fromkeys(LENGTHS, 0.0)
    for task in subject.made():
        training = {tuple(row) for step in range(16) for row in rows(train_batch(task, TRAIN_LENGTH, COUNT, 0, step))}
        for n in LENGTHS:
            seen = np.mean([tuple(row) in training for row in rows(task.test_examples(n, COUNT, 0))])
            shares[n] = max(shares[n], float(seen))
    listed = ", ".join(f"length {n} {share:.0%}" for n, share in shares.items())
    if any(share > 0.01 for n, share in shares.items() if n > TRAIN_LENGTH):
        raise Fault(f"trained up to length {TRAIN_LENGTH}; share of tests seen in training: {listed}")
    return f"share of tests among {16 * COUNT:,} training examples up to length {TRAIN_LENGTH}: {listed}"
