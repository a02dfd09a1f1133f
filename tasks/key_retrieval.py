"""Key retrieval: find the value that stood by a key.

``needle``, length 4: one marked key (``#``) and its value somewhere among *length* symbols of filler, asked for at the end
(``?``). Filler and values are the same symbols, so that an average over the prompt does not give the answer away::

    <bos> v10 v3 v15 # k4 v8 v14 ? k4 <sep> v8 <eos>

``pairs``, length 4: *length* pairs of key and value, no key twice, and one of the keys asked for::

    <bos> k8 v13 k7 v13 k9 v14 k2 v3 ? k2 <sep> v3 <eos>

``multi_query``, length 4: the same with up to four different keys asked for at once (as in MQAR); values in the order asked::

    <bos> k9 v15 k7 v9 k0 v4 k6 v8 ? k7 k9 k0 k6 <sep> v9 v15 v4 v8 <eos>

There are 16 values, and 16 keys for ``needle``; the other variants have as many keys as their longest length has pairs.
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary
from .sampling import distinct

VALUES = 16
QUERIES = {"needle": 1, "pairs": 1, "multi_query": 4}


class KeyRetrieval(Task):
    name = "key_retrieval"
    title = "Key retrieval"
    variants = {
        "needle": "one marked pair among filler",
        "pairs": "one of many pairs",
        "multi_query": "up to four of many pairs",
    }
    length_is = "filler symbols (needle) or key–value pairs"

    def setup(self) -> None:
        needle = self.variant == "needle"
        self.key_count = 16 if needle else self.longest
        self.vocabulary = Vocabulary.of(
            mark="?#" if needle else "?",
            key=[f"k{i}" for i in range(self.key_count)],
            value=[f"v{i}" for i in range(VALUES)],
        )
        self.key, self.value = self.vocabulary.first("key"), self.vocabulary.first("value")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        return (self._needle if self.variant == "needle" else self._pairs)(lengths, rng)

    def _needle(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        filler = rng.integers(VALUES, size=(count, width)) + self.value
        place = rng.integers(0, lengths, endpoint=True)
        key = Ragged.of(rng.integers(self.key_count, size=(count, 1)) + self.key)
        value = Ragged.of(rng.integers(VALUES, size=(count, 1)) + self.value)
        head, whole = Ragged.of(filler, place), Ragged.of(filler, lengths)
        tail = Ragged(filler, whole.mask & ~head.mask, lengths - place)
        hash_mark, query_mark = (Ragged.token(self.vocabulary.ids[mark], count) for mark in "#?")
        return Ragged.join(head, hash_mark, key, value, tail, query_mark, key), value

    def _pairs(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        keys = distinct(rng, count, width, self.key_count) + self.key
        values = rng.integers(VALUES, size=(count, width)) + self.value
        pairs = Ragged.of(np.stack([keys, values], axis=2).reshape(count, 2 * width), 2 * lengths)
        # Different places in random order, those past the end of a row last; a row never asks for more places than it has.
        order = np.argsort(np.where(np.arange(width) < lengths[:, None], rng.random((count, width)), 1.0), axis=1)
        places = order[:, : QUERIES[self.variant]]
        asked = Ragged.of(np.take_along_axis(keys, places, axis=1), lengths)
        answer = Ragged.of(np.take_along_axis(values, places, axis=1), lengths)
        return Ragged.join(pairs, Ragged.token(self.vocabulary.ids["?"], count), asked), answer

    def widths(self, length: int) -> tuple[int, int]:
        queries = min(QUERIES[self.variant], length)
        return (length + 5 if self.variant == "needle" else 2 * length + 1 + queries), queries

    def chance(self, length: int) -> float:
        return float(VALUES) ** -self.widths(length)[1]
