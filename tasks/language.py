"""Language: text of a fixed hidden Markov model, whose next-token distribution is known exactly.

``topics``, length 4: the prompt is the first word, the answer the *length* words after it::

    <bos> b3 <sep> c3 b5 b4 c0 <eos>

A hidden state is a topic (8) and a class of words (``a``, ``b``, ``c``). The class changes at every word, mostly to the
next one, so the last word helps to predict the next one; the topic seldom changes, and each topic prefers other words, so
distant words help too. The first state is uniform, which is also the stationary distribution. A text ends at its length, which
cannot be predicted from its words.

It is a task of perplexity, not of exact answers: boards do not rank by it (``ranked``). ``lprime probe excess`` compares a
model's loss with the least possible one.
"""

from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from .base import Examples, Ragged, Task, Vocabulary, stream

TOPICS, CLASSES, WORDS = 8, "abc", 8
STAY = 0.99
"""Probability that the topic does not change."""
FALL = 0.6
"""Ratio of the probabilities of a topic's words, from each to the next less likely one."""
NEXT_CLASS = (0.05, 0.75, 0.2)
"""Probabilities that a word is followed by one of its own class, of the next one, and of the one after that."""
BEAM = 256


class Language(Task):
    name = "language"
    version = 1
    title = "Language"
    variants = {"topics": "a hidden Markov model of topics and word classes"}
    length_is = "words"
    ranked = False

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of(word=[f"{c}{i}" for c in CLASSES for i in range(WORDS)])
        self.first_word = self.vocabulary.first("word")

    @cached_property
    def transition(self) -> Float[np.ndarray, "S S"]:
        """Probability of the next state for each state; state = topic · 3 + class."""
        topics = np.full((TOPICS, TOPICS), (1 - STAY) / (TOPICS - 1))
        np.fill_diagonal(topics, STAY)
        classes = np.array([np.roll(NEXT_CLASS, c) for c in range(len(CLASSES))])
        return np.kron(topics, classes)

    @cached_property
    def emission(self) -> Float[np.ndarray, "S V"]:
        """Probability of each word in each state: ∝ 0.6^rank over the words of its class, in an order that differs by topic."""
        table = np.zeros((TOPICS, len(CLASSES), len(CLASSES), WORDS))
        for topic in range(TOPICS):
            for c in range(len(CLASSES)):
                rank = ((2 * topic + 1) * np.arange(WORDS) + 3 * topic + c) % WORDS  # an odd factor permutes
                table[topic, c, c] = FALL**rank / (FALL ** np.arange(WORDS)).sum()
        return table.reshape(TOPICS * len(CLASSES), -1)

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0)) + 1
        # By inversion: the first outcome whose cumulative probability exceeds a uniform number.
        next_state, next_word = (table.cumsum(1)[:, :-1] for table in (self.transition, self.emission))
        chance = rng.random((2, width, count, 1))
        state = rng.integers(len(next_state), size=count)
        words = np.empty((count, width), np.int64)
        for t in range(width):
            words[:, t] = (chance[0, t] >= next_word[state]).sum(1)
            state = (chance[1, t] >= next_state[state]).sum(1)
        words += self.first_word
        return Ragged.of(words[:, :1]), Ragged.of(words[:, 1:], lengths)

    def next_word(self, words: Int[np.ndarray, "N W"]) -> Float[np.ndarray, "N W-1 V"]:
        """Exact distribution of every word but the first, given those before it, by the forward algorithm.

        Arguments:
            words: from 0, in the order of the vocabulary.
        """
        belief = np.full((len(words), len(self.emission)), 1 / len(self.emission))  # over states, given the words before
        known = []
        for t in range(words.shape[1] - 1):
            belief = belief * self.emission[:, words[:, t]].T
            belief = belief / belief.sum(1, keepdims=True) @ self.transition
            known.append(belief @ self.emission)
        return np.stack(known, 1)

    def widths(self, length: int) -> tuple[int, int]:
        return 1, length

    def test_examples(self, length: int, count: int, seed: int) -> Examples:
        """As drawn, so that the loss is of the language's own texts: short ones recur."""
        return self.sample(length, count, stream(self, f"test_{length}", seed))

    def chance(self, length: int) -> float:
        """Probability of the most likely text, found by a beam search (exact for short texts)."""
        paths = np.full((1, len(self.emission)), 1 / len(self.emission)) @ self.transition
        for t in range(length):
            after = paths[:, None, :] * self.emission.T  # probability of each beam and word, and the state that emits it
            likely = after.sum(2).ravel().argsort()[::-1][:BEAM]
            paths = after.reshape(-1, len(self.emission))[likely]
            if t < length - 1:
                paths = paths @ self.transition
        return float(paths.sum(1).max())
