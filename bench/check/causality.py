"""Causality: outputs must not depend on later tokens, on where the sequence ends, or on other rows of the batch."""

import torch

from .checks import Fault, check
from .subject import Subject, hidden_states, mode, rows_differ


@check(
    "causality",
    advice="an entry for query i may use keys, values and inputs up to i only (look for the mask of an `attend` of your own, "
    "roll, flip, sums and means over all of T), and the length of a sequence is at.announced_length, never the T of a tensor: "
    "random numbers too are drawn for that length, then cut to T",
)
def check_causality(subject: Subject) -> str:
    """Cutting a sequence short changes no output before the cut, and neither do other rows of the batch."""
    model, train, longest, tried = subject.model(), subject.setup.train_tokens, subject.setup.longest_tokens, 0
    for training in (True, False):
        for announced_length in (train, longest):
            where = f"{mode(training)}, {announced_length} tokens announced (L is {train})"
            tokens = subject.sequences(2, announced_length, seed=0)
            whole = hidden_states(model, tokens, announced_length, training)
            for size in range(1, announced_length, max(1, announced_length // 16)):
                wrong = rows_differ(hidden_states(model, tokens[:, :size], announced_length, training), whole[:, :size])
                if wrong.any():
                    position = int(wrong.any(0).nonzero()[0])
                    raise Fault(f"{where}: cutting after {size} tokens changes the output at position {position}")
                tried += 1
            other = torch.cat([tokens[:1], subject.sequences(1, announced_length, seed=1)])
            if rows_differ(hidden_states(model, other, announced_length, training)[0], whole[0]).any():
                advice = "compute along T only, never across B; only random draws may differ from row to row"
                raise Fault(f"{where}: the output of a row is another one with other rows in the batch", advice)
    return f"the same after each of {tried} cuts, and with other rows"
