"""Text: predict each next character of a window of real text.

``sotu``, length 12, a window of a presidential message::

    <bos> t h e ␣ u n i t e d ␣ s

In training every character of the window is a target. A test counts only the last 32 characters of the window, and the windows
of one test set end at the same places at every length: so only the amount of text in view differs between lengths. There is no
``<sep>`` and no ``<eos>``.

Further test sets of the same last characters tell "does not lose by far text" from "gains by far text":

``other``: everything but the last L characters is replaced by text of another test document.
``needle``: a sentence with a name and a number stands at the beginning of the window; the window ends with the name again, and
the targets are the digits of the number::

    <bos> the code of wexi is 4 0 9 2 . … the code of wexi is 4 0 9 2

Training documents and test documents are different documents: see ``corpus``. Boards do not rank this task with the others.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from jaxtyping import Int

from .base import BOS, PAD, Examples, Ragged, Task, Vocabulary, stream
from .corpus import SYMBOLS, Corpus, Documents, read_corpus
from .errors import InputError

SCORED = 32
"""Characters at the end of a test window that are targets."""
DIGITS = 4
"""Digits of a needle's number."""
CONSONANTS, VOWELS = "bdfgklmnprstvwxz", "aeiou"


class Text(Task):
    name = "text"
    title = "Text"
    variants = {
        "sotu": "annual messages of US presidents, lower case; tested on those from 1960 on",
        "python": "source code of sympy",
        "characters": "your own text, by characters",
        "bytes": "your own text, by bytes",
    }
    length_is = "characters in view"
    ranked = False
    defaults = {"corpus": ""}

    def setup(self) -> None:
        if bool(self.settings["corpus"]) == (self.variant in SYMBOLS):
            needed = "takes no" if self.variant in SYMBOLS else "needs"
            raise InputError(f"variant {self.variant} of text {needed} setting `corpus`, a folder or file of text")
        symbols = SYMBOLS.get(self.variant) or self.corpus.symbols  # a suite can be described without its package
        names = [{" ": "␣", "\n": "⏎"}.get(symbol, symbol) for symbol in symbols]  # blanks separate printed tokens
        self.vocabulary = Vocabulary.of(character=names)
        self.first = self.vocabulary.first("character")

    @cached_property
    def corpus(self) -> Corpus:
        return read_corpus(self.variant, str(self.settings["corpus"]))

    def windows(self, documents: Documents, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> Int[np.ndarray, " N"]:
        """Draw the first index of a window for each length, uniformly over all places inside one document."""
        longest = int(lengths.max(initial=1))
        fits = np.flatnonzero(documents.sizes >= longest)
        if not len(fits):
            raise InputError(
                f"no document of the corpus has {longest} characters, the longest window; the longest "
                f"has {documents.sizes.max()}"
            )
        sizes = documents.sizes[fits]
        chosen = rng.choice(len(fits), len(lengths), p=sizes / sizes.sum())
        places = sizes[chosen] - lengths + 1
        return documents.starts[fits][chosen] + (rng.random(len(lengths)) * places).astype(np.int64)

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        return Ragged.of(np.zeros((len(lengths), 0), np.int64)), self.texts(self.corpus.train, lengths, rng)

    def texts(self, documents: Documents, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> Ragged:
        """Draw windows of the given lengths."""
        starts = self.windows(documents, lengths, rng)
        places = np.minimum(starts[:, None] + np.arange(int(lengths.max(initial=0))), len(documents.ids) - 1)
        return Ragged.of(documents.ids[places] + self.first, lengths)

    def held_out(self, length: int, count: int, rng: np.random.Generator) -> Examples:
        """Draw windows of test documents; every character is a target."""
        return ending(self.texts(self.corpus.test, np.full(count, length), rng).padded(), length)

    def sample(self, length: int | Int[np.ndarray, " N"], count: int, rng: np.random.Generator) -> Examples:
        """Draw training windows; every character is a target."""
        lengths = np.broadcast_to(np.asarray(length, np.int64), (count,))
        if count:
            self.check_lengths(int(lengths.min()), int(lengths.max()))
        _, characters = self.draw(lengths, rng)
        tokens = Ragged.join(Ragged.token(BOS, count), characters).padded()
        return Examples(tokens, np.ones(count, np.int64), lengths + 1, lengths.copy())

    def test_windows(self, count: int, seed: int) -> tuple[Int[np.ndarray, "N W"], Int[np.ndarray, " N"]]:
        """The test windows of the longest length, whose ends are the shorter ones, and the number of each window's document."""
        documents = self.corpus.test
        starts = self.windows(documents, np.full(count, self.longest), stream(self, "test", seed))
        windows = documents.ids[starts[:, None] + np.arange(self.longest)].astype(np.int64) + self.first
        return windows, np.searchsorted(documents.starts, starts, "right") - 1

    def test_examples(self, length: int, count: int, seed: int) -> Examples:
        """Test windows of one length. The targets are the last 32 characters, the same for all lengths."""
        if not SCORED <= length <= self.longest:
            raise InputError(f"text: test lengths are {SCORED} … {self.longest} characters, got {length}")
        return ending(self.test_windows(count, seed)[0][:, -length:], SCORED)

    def further_tests(
        self, lengths: list[int], train_length: int, count: int, seed: int
    ) -> Mapping[str, Mapping[int, Examples]]:
        """Further test sets by name and length: ``other`` and ``needle``, see the module."""
        (windows, documents), past = self.test_windows(count, seed), [n for n in lengths if n > train_length]
        differs = documents[:, None] != documents
        if not differs.any(1).all():
            raise InputError(
                f"all test windows are from one document; expected test documents of {self.longest} characters or more"
            )
        far = windows[(stream(self, "other", seed).random(differs.shape) * differs).argmax(1)]
        other = {n: ending(np.hstack([far[:, : n - train_length], windows[:, -train_length:]]), SCORED) for n in past}
        needle = {n: ending(self.needles(windows[:, -n:], seed), DIGITS) for n in lengths if n >= train_length}
        return {"other": other, "needle": needle}

    def needles(self, windows: Int[np.ndarray, "N W"], seed: int) -> Int[np.ndarray, "N W"]:
        """Windows that begin with a needle and end with its question and answer."""
        rng = stream(self, "needle", seed)
        windows = windows.copy()
        for row in windows:
            letters = [rng.choice(list(part)) for part in (CONSONANTS, VOWELS, CONSONANTS, VOWELS)]
            sentence = f"the code of {''.join(letters)} is {''.join(map(str, rng.integers(10, size=DIGITS)))}"
            tokens = self.corpus.encode(sentence).astype(np.int64) + self.first
            if len(tokens) * 2 > len(row):
                raise InputError(f"text: a needle needs windows of {2 * len(tokens)} characters, got {len(row)}")
            row[: len(tokens)] = tokens
            row[-len(tokens) :] = tokens
        return windows

    def widths(self, length: int) -> tuple[int, int]:
        return 0, length

    def tokens(self, length: int) -> int:
        return length + 1

    def chance(self, length: int) -> float:
        """Practically nothing: no guess repeats 32 characters."""
        return 0.0

    def token_chance(self, length: int) -> float:
        """The share of the most frequent character in the training documents."""
        return float(np.bincount(self.corpus.train.ids).max() / len(self.corpus.train.ids))


def ending(windows: Int[np.ndarray, "N W"], targets: int) -> Examples:
    """Windows as examples whose last characters are the targets."""
    count, width = windows.shape
    tokens = np.hstack([np.full((count, 1), BOS), windows])
    assert PAD not in tokens, "windows have no padding"
    return Examples(tokens, np.full(count, width + 1 - targets), np.full(count, width + 1), np.full(count, width))
