"""Key retrieval: return the value of a key.

``needle``, length 4: one marked key (``#``) and its value somewhere among *length* filler symbols; the query at the end (``?``)
names the key. Filler and values are the same symbols, so that an average over the prompt does not reveal the answer::

    <bos> v10 v3 v15 # k4 v8 v14 ? k4 <sep> v8 <eos>

``pairs``, length 4: *length* pairs of key and value, no key twice; the query is one of the keys::

    <bos> k8 v13 k7 v13 k9 v14 k2 v3 ? k2 <sep> v3 <eos>

``multi_query``, length 4: the same with up to four different queries (as in MQAR); the answer has the values in their order::

    <bos> k9 v15 k7 v9 k0 v4 k6 v8 ? k7 k9 k0 k6 <sep> v9 v15 v4 v8 <eos>

``decoys``, length 4, as ``needle`` with four marked keys (setting ``marked``), of which the query names one::

    <bos> v0 # k13 v5 v15 # k7 v2 v5 # k15 v0 # k10 v6 v8 ? k15 <sep> v0 <eos>

``latest``, length 4, as ``decoys`` with the same key at every mark: the query asks for its last value::

    <bos> v14 # k13 v8 v0 # k13 v12 v9 # k13 v12 v12 # k13 v11 ? k13 <sep> v11 <eos>

There are 16 values. ``needle``, ``latest`` and ``decoys`` have 16 keys; the other variants have as many keys as the longest
length has pairs.
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance
from .errors import InputError
from .sampling import distinct

VALUES = 16
QUERIES = {"needle": 1, "pairs": 1, "multi_query": 4, "decoys": 1, "latest": 1}


class KeyRetrieval(Task):
    name = "key_retrieval"
    title = "Key retrieval"
    variants = {
        "needle": "one marked pair among filler",
        "pairs": "one of many pairs",
        "multi_query": "up to four of many pairs",
        "decoys": "one of four marked pairs among filler",
        "latest": "the last of four marked pairs of one key among filler",
    }
    length_is = "filler symbols (needle, decoys, latest) or key–value pairs"
    defaults = {"marked": 4}

    def setup(self) -> None:
        self.marked = self.settings["marked"]
        if not 1 <= self.marked <= 16:
            raise InputError(f"{self.name}: marked must be from 1 to 16, got {self.marked}")
        needle = self.variant not in ("pairs", "multi_query")
        self.key_count = 16 if needle else self.longest
        self.vocabulary = Vocabulary.of(
            mark="?#" if needle else "?",
            key=[f"k{i}" for i in range(self.key_count)],
            value=[f"v{i}" for i in range(VALUES)],
        )
        self.key, self.value = self.vocabulary.first("key"), self.vocabulary.first("value")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        draw = {"needle": self._needle, "decoys": self._decoys, "latest": self._decoys}.get(self.variant, self._pairs)
        return draw(lengths, rng)

    def _needle(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        filler = rng.integers(VALUES, size=(count, width)) + self.value
        place = rng.integers(0, lengths, endpoint=True)
        key = Ragged.of(rng.integers(self.key_count, size=(count, 1)) + self.key)
        value = Ragged.of(rng.integers(VALUES, size=(count, 1)) + self.value)
        head, all_filler = Ragged.of(filler, place), Ragged.of(filler, lengths)
        tail = Ragged(filler, all_filler.mask & ~head.mask, lengths - place)
        hash_mark, query_mark = (Ragged.token(self.vocabulary.ids[mark], count) for mark in "#?")
        return Ragged.join(head, hash_mark, key, value, tail, query_mark, key), value

    def _decoys(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0)) + 3 * self.marked
        symbols = rng.integers(VALUES, size=(count, width)) + self.value
        keys = distinct(rng, count, self.marked, self.key_count) + self.key
        if self.variant == "latest":
            keys[:] = keys[:, :1]
        values = rng.integers(VALUES, size=(count, self.marked)) + self.value
        among = rng.integers(0, lengths[:, None], size=(count, self.marked), endpoint=True)
        places = np.sort(among, axis=1) + 3 * np.arange(self.marked)
        marks = np.full_like(keys, self.vocabulary.ids["#"])
        for offset, tokens in enumerate((marks, keys, values)):
            np.put_along_axis(symbols, places + offset, tokens, axis=1)
        asked = np.full((count, 1), self.marked - 1) if self.variant == "latest" else rng.integers(self.marked, size=(count, 1))
        key, value = (Ragged.of(np.take_along_axis(tokens, asked, axis=1)) for tokens in (keys, values))
        query_mark = Ragged.token(self.vocabulary.ids["?"], count)
        return Ragged.join(Ragged.of(symbols, lengths + 3 * self.marked), query_mark, key), value

    def _pairs(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        keys = distinct(rng, count, width, self.key_count) + self.key
        values = rng.integers(VALUES, size=(count, width)) + self.value
        pairs = Ragged.of(np.stack([keys, values], axis=2).reshape(count, 2 * width), 2 * lengths)
        # Distinct pairs in random order; columns past the end of a row sort last and are never used.
        order = np.argsort(np.where(np.arange(width) < lengths[:, None], rng.random((count, width)), 1.0), axis=1)
        places = order[:, : QUERIES[self.variant]]
        queries = Ragged.of(np.take_along_axis(keys, places, axis=1), lengths)
        answer = Ragged.of(np.take_along_axis(values, places, axis=1), lengths)
        return Ragged.join(pairs, Ragged.token(self.vocabulary.ids["?"], count), queries), answer

    def widths(self, length: int) -> tuple[int, int]:
        queries = min(QUERIES[self.variant], length)
        if self.variant not in ("pairs", "multi_query"):
            return length + (5 if self.variant == "needle" else 2 + 3 * self.marked), 1
        return 2 * length + 1 + queries, queries

    def chance(self, length: int) -> float:
        return float(VALUES) ** -self.widths(length)[1]

    def token_chance(self, length: int) -> float:
        return uniform_token_chance(self.widths(length)[1], VALUES)
