"""Addition of two non-negative integers, digit by digit.

``reversed``, length 4, least significant digit first in both operands and in the sum, so that carries move in reading order::

    <bos> 5 2 8 4 + 8 5 1 <sep> 3 8 9 4 <eos>

``plain``, length 4, most significant digit first, as usual::

    <bos> 7 5 3 5 + 6 9 2 <sep> 8 2 2 7 <eos>

``scratchpad``, length 4, least significant digit first. For each column of the longer operand, the answer
contains the digit of the sum and then the outgoing carry (``c0`` or ``c1``); after ``=`` follows the whole sum::

    <bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos>

``padded``, length 4, as ``reversed``, but both operands have *length* digits and the sum one more, with zeros in front::

    <bos> 7 2 3 5 + 5 0 0 0 <sep> 2 3 3 5 0 <eos>

``hinted``, length 4, as ``padded``, with a hint before each digit that says its place (Zhou et al. 2024, arXiv 2402.09371,
index hints). The hints are consecutive letters of an alphabet as long as the longest sum, from a random one on::

    <bos> h4 8 h5 9 h6 5 h7 9 + h4 5 h5 0 h6 0 h7 0 <sep> h4 3 h5 0 h6 6 h7 9 h8 0 <eos>

One operand has exactly *length* digits, the other uniformly 1 … length; their order is random. No number has leading zeros
(before padding), but ``0`` itself is a one-digit operand. Numbers are arrays of digits, so no length overflows.
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary


class Addition(Task):
    name = "addition"
    title = "Addition"
    variants = {
        "reversed": "least significant digit first",
        "plain": "most significant digit first",
        "scratchpad": "least significant digit first, carries written out",
        "padded": "least significant digit first, fixed width",
        "hinted": "least significant digit first, fixed width, a hint before each digit",
    }
    length_is = "digits of the longer operand"

    def setup(self) -> None:
        if self.variant == "scratchpad":
            self.vocabulary = Vocabulary.of(digit="0123456789", operator="+=", carry=("c0", "c1"))
        elif self.variant == "hinted":
            hints = [f"h{i}" for i in range(self.longest + 1)]
            self.vocabulary = Vocabulary.of(digit="0123456789", operator="+", hint=hints)
        else:
            self.vocabulary = Vocabulary.of(digit="0123456789", operator="+")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, columns = len(lengths), int(lengths.max(initial=0)) + 1  # one more column, for the last carry
        column = np.arange(columns)
        widths_2N = rng.permuted(np.stack([lengths, rng.integers(1, lengths, endpoint=True)]), axis=0)
        digits_2NC = rng.integers(10, size=(2, count, columns)) * (column < widths_2N[..., None])
        leading = rng.integers((widths_2N > 1).astype(np.int64), 10)
        np.put_along_axis(digits_2NC, widths_2N[..., None] - 1, leading[..., None], axis=2)

        sums_NC = digits_2NC.sum(0)
        # A column with sum 9 passes its incoming carry on; any other column determines its carry by itself. So the carry of a
        # column is that of the last such column up to it: take the running maximum of 2·column + carry, and its lowest bit.
        determined = np.where(sums_NC == 9, 0, 2 * column + (sums_NC > 9))
        carries_NC = np.maximum.accumulate(determined, axis=1) & 1
        sums_NC[:, 1:] += carries_NC[:, :-1]
        sums_NC %= 10

        carries = carries_NC[np.arange(count), lengths - 1]
        if self.variant in ("padded", "hinted"):
            widths_2N, carries = np.broadcast_to(lengths, (2, count)), 1
        if self.variant == "hinted":
            first = rng.integers(0, self.longest - lengths, endpoint=True)
            plus = Ragged.token(self.vocabulary.ids["+"], count)
            operands = [self._hinted(digits, lengths, first) for digits in digits_2NC]
            return Ragged.join(operands[0], plus, operands[1]), self._hinted(sums_NC, lengths + 1, first)
        total = self._number(sums_NC, lengths + carries)
        plus = Ragged.token(self.vocabulary.ids["+"], count)
        prompt = Ragged.join(self._number(digits_2NC[0], widths_2N[0]), plus, self._number(digits_2NC[1], widths_2N[1]))
        if self.variant != "scratchpad":
            return prompt, total
        tokens = np.stack([sums_NC + self.vocabulary.first("digit"), carries_NC + self.vocabulary.first("carry")], axis=2)
        steps = Ragged.of(tokens.reshape(count, 2 * columns), 2 * lengths)
        return prompt, Ragged.join(steps, Ragged.token(self.vocabulary.ids["="], count), total)

    def _number(self, digits: Int[np.ndarray, "N C"], widths: Int[np.ndarray, " N"]) -> Ragged:
        """Convert digits, least significant first, to tokens in the order of this variant."""
        number = Ragged.of(digits + self.vocabulary.first("digit"), widths)
        return Ragged(number.values[:, ::-1], number.mask[:, ::-1], widths) if self.variant == "plain" else number

    def _hinted(self, digits: Int[np.ndarray, "N C"], widths: Int[np.ndarray, " N"], first: Int[np.ndarray, " N"]) -> Ragged:
        """Convert digits to tokens, each after its hint."""
        hints = np.minimum(first[:, None] + np.arange(digits.shape[1]), self.longest) + self.vocabulary.first("hint")
        pairs = np.stack([hints, digits + self.vocabulary.first("digit")], axis=2)
        return Ragged.of(pairs.reshape(len(digits), 2 * digits.shape[1]), 2 * widths)

    def widths(self, length: int) -> tuple[int, int]:
        if self.variant == "hinted":
            return 4 * length + 1, 2 * length + 2
        return 2 * length + 1, (3 * length + 2 if self.variant == "scratchpad" else length + 1)

    def chance(self, length: int) -> float:
        """The exact probability of the most likely sum, 99…9.

        For a shorter operand, exactly one longer operand adds up to 99…9; for one of full width (drawn with probability
        1/length), this is so in 8 of 9 cases, since neither has a leading zero. 99…9 has no carries, so its scratchpad is as
        likely. Hints divide it by the number of their starts.
        """
        starts = self.longest - length + 1 if self.variant == "hinted" else 1
        return self._sum_chance(length) / starts

    def _sum_chance(self, length: int) -> float:
        return 0.1 if length == 1 else (1 - 1 / (9 * length)) * 10.0 ** (1 - length) / 9
