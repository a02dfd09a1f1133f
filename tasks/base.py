"""The base class of tasks, which generate sequences ``<bos> prompt <sep> answer <eos>`` with an exactly known answer.

A task is one class in one file of this package. It declares its name and variants and implements four methods: ``setup`` (the
vocabulary), ``draw`` (prompts and answers of given lengths), ``widths`` (their maximal numbers of tokens) and ``chance``.
Everything is vectorised in numpy over examples of mixed lengths: rows of different widths are passed as ``Ragged`` (values,
mask, widths), which this module joins into padded token arrays.
"""

import ast
import hashlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from .errors import InputError, unknown

SPECIALS = ("<pad>", "<bos>", "<sep>", "<eos>")
PAD, BOS, SEP, EOS = range(4)
GUESSES, GUESSED = 8, 512
"""Draws, and examples of each, from which ``Task.token_chance`` is estimated."""


@dataclass(frozen=True)
class Vocabulary:
    """Token id ↔ printable symbol, and the role of each token (``special``, ``digit``, ``symbol``, ``key``, …).

    The four special tokens always have ids 0 to 3; the groups given to ``of`` follow in order.
    """

    symbols: tuple[str, ...]
    roles: tuple[str, ...]

    @classmethod
    def of(cls, **groups: Sequence[str]) -> "Vocabulary":
        """Create a vocabulary, as in ``Vocabulary.of(digit="01", operator="+")``: one keyword per role."""
        symbols = SPECIALS + tuple(s for group in groups.values() for s in group)
        roles = ("special",) * len(SPECIALS) + tuple(role for role, group in groups.items() for _ in group)
        if len(set(symbols)) != len(symbols):
            raise InputError(f"vocabulary symbols must differ, got {symbols}")
        return cls(symbols, roles)

    def __len__(self) -> int:
        return len(self.symbols)

    def first(self, role: str) -> int:
        """Return the id of the first token of a role; ids of a role are consecutive."""
        return self.roles.index(role)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols)}

    def decode(self, tokens: Sequence[int]) -> str:
        """Convert token ids to symbols separated by blanks, without padding."""
        return " ".join([self.symbols[t] for t in tokens if t != PAD])


@dataclass(frozen=True)
class Ragged:
    """Rows of different widths: the tokens of row n are ``values[n][mask[n]]``, in order."""

    values: Int[np.ndarray, "N W"]
    mask: Bool[np.ndarray, "N W"]
    widths: Int[np.ndarray, " N"]
    """Tokens per row. Stored, because counting them from the mask would cost as much as drawing them."""

    @classmethod
    def of(cls, values: Int[np.ndarray, "N W"], widths: Int[np.ndarray, " N"] | None = None) -> "Ragged":
        """Take the first ``widths[n]`` values of each row; all of them by default."""
        if widths is None:
            return cls(values, np.ones(values.shape, bool), np.full(len(values), values.shape[1]))
        widths = np.minimum(widths, values.shape[1])
        return cls(values, first_columns(values.shape[1], widths), widths)

    @classmethod
    def token(cls, token: int, count: int) -> "Ragged":
        """Create ``count`` rows that each hold this one token."""
        return cls.of(np.full((count, 1), token))

    @classmethod
    def join(cls, *parts: "Ragged") -> "Ragged":
        """Concatenate the parts row by row."""
        values, masks = (np.concatenate(cells, 1) for cells in ([p.values for p in parts], [p.mask for p in parts]))
        return cls(values, masks, np.sum([p.widths for p in parts], axis=0))

    def padded(self) -> Int[np.ndarray, "N T"]:
        """Return the rows aligned to the left and padded with ``PAD`` to the widest."""
        out = np.full((len(self.widths), int(self.widths.max(initial=0))), PAD, np.int64)
        # Both sides enumerate their selected cells row by row, so each row keeps its tokens in order.
        out[first_columns(out.shape[1], self.widths)] = self.values[self.mask]
        return out


def first_columns(columns: int, ends: Int[np.ndarray, " N"]) -> Bool[np.ndarray, "N {columns}"]:
    """True in the first ``ends[n]`` columns of row n."""
    # int32 halves the memory traffic of this hot spot
    return np.arange(columns, dtype=np.int32) < ends.astype(np.int32)[:, None]


@dataclass(frozen=True)
class Examples:
    """N sequences ``<bos> prompt <sep> answer <eos>``, padded on the right with ``PAD``."""

    tokens: Int[np.ndarray, "N T"]
    answer_start: Int[np.ndarray, " N"]
    """Index of the first token after ``<sep>``. Tokens from here to ``<eos>``, included, are targets."""
    sizes: Int[np.ndarray, " N"]
    """Tokens per row, without padding."""
    lengths: Int[np.ndarray, " N"]
    """Length of each example, in the task's unit."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def targets(self) -> Bool[np.ndarray, "N T"]:
        """True at target tokens: the answer and ``<eos>``."""
        column = np.arange(self.tokens.shape[1])
        return (column >= self.answer_start[:, None]) & (column < self.sizes[:, None])

    @classmethod
    def join(cls, parts: Sequence["Examples"]) -> "Examples":
        """Concatenate the rows of all parts, padded to the widest."""
        width = max(part.tokens.shape[1] for part in parts)
        tokens = [np.pad(part.tokens, ((0, 0), (0, width - part.tokens.shape[1])), constant_values=PAD) for part in parts]
        others = ([getattr(part, name) for part in parts] for name in ("answer_start", "sizes", "lengths"))
        return cls(np.concatenate(tokens), *map(np.concatenate, others))

    def rows(self, index: Int[np.ndarray, " M"] | slice) -> "Examples":
        """Select rows, and cut the padding to the widest of them."""
        sizes = self.sizes[index]
        width = int(sizes.max(initial=0))
        return Examples(self.tokens[index][:, :width], self.answer_start[index], sizes, self.lengths[index])


class Task(ABC):
    """One task in one variant. Create it with ``tasks.get(name, variant, longest)``.

    Arguments:
        variant: one of ``variants``; the first is the default.
        longest: the longest length that can be sampled. It sets the vocabulary size of tasks whose symbols must not repeat.
        settings: values in place of ``defaults``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    variants: ClassVar[Mapping[str, str]]
    """Variant → short description; the default first."""
    length_is: ClassVar[str]
    """The unit of length."""
    version: ClassVar[int] = 2
    """Increment it when a change makes the same stream give other examples. Part of a suite's fingerprint."""
    ranked: ClassVar[bool] = True
    """Whether boards rank encodings by it."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings and their defaults."""
    vocabulary: Vocabulary

    def __init__(self, variant: str | None, longest: int, **settings: Any):
        variant = next(iter(self.variants)) if variant is None else variant
        if variant not in self.variants:
            raise unknown(f"variant of {self.name}", variant, self.variants)
        if longest < 1:
            raise InputError(f"{self.name}: the longest length must be at least 1, got {longest}")
        for setting, value in settings.items():
            if setting not in self.defaults:
                raise unknown(f"setting of {self.name}", setting, self.defaults)
            if type(value) is not (kind := type(self.defaults[setting])):
                raise InputError(f"{self.name}: {setting} must be of type {kind.__name__}, got {value!r}")
        self.variant, self.longest, self.settings = variant, longest, {**self.defaults, **settings}
        self.setup()

    @abstractmethod
    def setup(self) -> None:
        """Set ``vocabulary`` and whatever else depends on the variant and the longest length."""

    @abstractmethod
    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        """Draw prompts and answers of the given lengths, without special tokens. Vectorise: no Python loop over examples."""

    @abstractmethod
    def widths(self, length: int) -> tuple[int, int]:
        """Return the maximal numbers of tokens of a prompt and of an answer of this length."""

    @abstractmethod
    def chance(self, length: int) -> float:
        """Return the exact-match accuracy of the best guess that does not see the prompt."""

    def answer(self, prompt: Sequence[str]) -> Sequence[str] | None:
        """Return the answer to a prompt, both as symbols, found without ``draw``; ``lprime check`` compares. None: unknown."""
        return None

    def token_chance(self, length: int) -> float:
        """Return the share of answer tokens, ``<eos>`` included, that the best guess gets right that knows only the length.

        The guess is the most frequent token of each place of the answer. Estimated from 4,096 examples of a fixed stream, and
        cached. Tasks whose answers are uniform override it with the exact share.
        """
        return estimated_token_chance(type(self), self.variant, self.longest, length, repr(self.settings))

    def tokens(self, length: int) -> int:
        """Return the maximal number of tokens of a whole sequence of this length, which models get as ``announced_length``."""
        return sum(self.widths(length)) + 3

    def check_lengths(self, low: int, high: int) -> None:
        """Check that the lengths low … high can be sampled.

        Raises:
            InputError: a length outside 1 … ``longest``.
        """
        invalid = low if low < 1 else high
        if not 1 <= invalid <= self.longest:
            raise InputError(f"{self.name}: length must be in 1 … {self.longest}, got {invalid}")

    def sample(self, length: int | Int[np.ndarray, " N"], count: int, rng: np.random.Generator) -> Examples:
        """Draw ``count`` examples, all of one length or of ``count`` given lengths.

        Raises:
            InputError: a length outside 1 … ``longest``.
        """
        lengths = np.broadcast_to(np.asarray(length, np.int64), (count,))
        if count:
            self.check_lengths(int(lengths.min()), int(lengths.max()))
        prompt, answer = self.draw(lengths, rng)
        bos, sep, eos = (Ragged.token(t, count) for t in (BOS, SEP, EOS))
        start = prompt.widths + 2
        sizes = start + answer.widths + 1
        return Examples(Ragged.join(bos, prompt, sep, answer, eos).padded(), start, sizes, lengths.copy())

    def held_out(self, length: int, count: int, rng: np.random.Generator) -> Examples:
        """Draw examples of one length for probes; from test documents, where the task has documents."""
        return self.sample(length, count, rng)

    def test_examples(self, length: int, count: int, seed: int) -> Examples:
        """Draw the test examples of one length. They depend only on the arguments.

        No example occurs twice, and no answer more often than ``chance`` says: a guess gains nothing from the draw. Where
        there are fewer such examples than ``count``, these are returned.

        Raises:
            InputError: a length outside 1 … ``longest``.
        """
        self.check_lengths(length, length)
        most = max(1, math.ceil(count * self.chance(length)))
        kept, rows, answers = list[Examples](), set[bytes](), Counter[bytes]()
        while not kept or (len(kept[-1]) and len(rows) < count):  # after as many draws without a new one, hardly any is left
            drawn, new = self.sample(length, count, stream(self, f"test_{length}", seed, len(kept))), []
            for n, (row, start, size) in enumerate(zip(drawn.tokens, drawn.answer_start, drawn.sizes, strict=True)):
                whole, answer = row[:size].tobytes(), row[start:size].tobytes()
                if len(rows) < count and whole not in rows and answers[answer] < most:
                    new.append(n)
                    rows.add(whole)
                    answers[answer] += 1
            kept.append(drawn.rows(np.array(new, np.int64)))
        return Examples.join(kept)

    def further_tests(
        self, lengths: list[int], train_length: int, count: int, seed: int
    ) -> Mapping[str, Mapping[int, Examples]]:
        """Return further test sets, by name and length, that are recorded but not scored; by default none."""
        return {}


def uniform_token_chance(places: int, symbols: int) -> float:
    """Return ``Task.token_chance`` of answers with so many tokens, each uniform over the symbols, and ``<eos>``."""
    return (places / symbols + 1) / (places + 1)


@cache
def estimated_token_chance(cls: type[Task], variant: str, longest: int, length: int, settings: str = "{}") -> float:
    """See ``Task.token_chance``. Each half of the examples is guessed from the other, which avoids bias."""
    task = cls(variant, longest, **ast.literal_eval(settings))
    places, symbols = task.widths(length)[1] + 1, len(task.vocabulary)
    counts = np.zeros((2, places, symbols), np.int64)
    for draw in range(GUESSES):
        _, answers = task.draw(np.full(GUESSED, length), stream(task, f"guess_{length}", 0, draw))
        tokens = Ragged.join(answers, Ragged.token(EOS, GUESSED)).padded()
        cells = tokens + symbols * np.arange(tokens.shape[1])
        counts[draw % 2] += np.bincount(cells.ravel(), minlength=places * symbols).reshape(places, symbols)
    counts[:, :, PAD] = 0
    right = np.take_along_axis(counts, counts[::-1].argmax(2)[..., None], axis=2).sum()
    return float(right / counts.sum())


def stream(task: Task, split: str, seed: int, index: int = 0) -> np.random.Generator:
    """Return the random generator of one draw of one split; ``index`` counts draws."""
    name = "/".join(map(str, (task.name, task.variant, task.longest, split, seed)))
    key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], "<u8")
    # Philox counts blocks in the low words of its 256-bit counter; the index is the highest word, so draws never overlap.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index]))
