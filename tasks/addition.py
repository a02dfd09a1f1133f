"""Addition of two whole numbers, digit by digit.

``reversed``, length 4, least significant digit first in both operands and in the sum, so that carries run with the text::

    <bos> 5 2 8 4 + 8 5 1 <sep> 3 8 9 4 <eos>

``plain``, length 4, most significant digit first, as people write::

    <bos> 7 5 3 5 + 6 9 2 <sep> 8 2 2 7 <eos>

``scratchpad``, length 4, least significant digit first. The answer goes through the columns of the longer operand and writes
each one's digit and then the carry that leaves it (``c0`` or ``c1``); after ``=`` comes the whole sum, last carry included::

    <bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos>

The longer operand has exactly *length* digits, the other one uniformly 1 … length; which comes first is random. No number
starts with a zero, but ``0`` itself is a one-digit operand. Digits stay digits, so no length overflows.
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
    }
    length_is = "digits of the longer operand"

    def setup(self) -> None:
        if self.variant == "scratchpad":
            self.vocabulary = Vocabulary.of(digit="0123456789", operator="+=", carry=("c0", "c1"))
        else:
            self.vocabulary = Vocabulary.of(digit="0123456789", operator="+")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, columns = len(lengths), int(lengths.max(initial=0)) + 1  # one column more, for the last carry
        at = np.arange(columns)
        widths_2N = rng.permuted(np.stack([lengths, rng.integers(1, lengths, endpoint=True)]), axis=0)
        digits_2NC = rng.integers(10, size=(2, count, columns)) * (at < widths_2N[..., None])
        leading = rng.integers((widths_2N > 1).astype(np.int64), 10)
        np.put_along_axis(digits_2NC, widths_2N[..., None] - 1, leading[..., None], axis=2)

        sums_NC = digits_2NC.sum(0)
        # A column of 9 passes on the carry that enters it; any other settles its carry by itself. So a column's carry is that
        # of the last settled one up to it: the maximum of numbers that grow with the column and hold the carry as lowest bit.
        settled = np.where(sums_NC == 9, 0, 2 * at + (sums_NC > 9))
        carries_NC = np.maximum.accumulate(settled, axis=1) & 1
        sums_NC[:, 1:] += carries_NC[:, :-1]
        sums_NC %= 10

        total = self._number(sums_NC, lengths + carries_NC[np.arange(count), lengths - 1])
        plus = Ragged.token(self.vocabulary.ids["+"], count)
        prompt = Ragged.join(self._number(digits_2NC[0], widths_2N[0]), plus, self._number(digits_2NC[1], widths_2N[1]))
        if self.variant != "scratchpad":
            return prompt, total
        tokens = np.stack([sums_NC + self.vocabulary.first("digit"), carries_NC + self.vocabulary.first("carry")], axis=2)
        pad = Ragged.of(tokens.reshape(count, 2 * columns), 2 * lengths)
        return prompt, Ragged.join(pad, Ragged.token(self.vocabulary.ids["="], count), total)

    def _number(self, digits: Int[np.ndarray, "N C"], widths: Int[np.ndarray, " N"]) -> Ragged:
        """Digits, given least significant first, as tokens in the order of this variant."""
        number = Ragged.of(digits + self.vocabulary.first("digit"), widths)
        return Ragged(number.values[:, ::-1], number.mask[:, ::-1], widths) if self.variant == "plain" else number

    def widths(self, length: int) -> tuple[int, int]:
        return 2 * length + 1, (3 * length + 2 if self.variant == "scratchpad" else length + 1)

    def chance(self, length: int) -> float:
        """The probability of the likeliest sum, 99…9: exact, not an approximation.

        To a shorter operand there is always one longer operand that completes it to 99…9; to one of full width (drawn one time
        in *length*) in 8 of 9 cases, since neither may start with a zero. No carry leads to 99…9: its scratchpad is as likely.
        """
        return 0.1 if length == 1 else (1 - 1 / (9 * length)) * 10.0 ** (1 - length) / 9
