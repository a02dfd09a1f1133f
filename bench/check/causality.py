"""Causality: outputs must not depend on later tokens, on where the sequence ends, or on other rows of the batch."""

import torch
from torch import Tensor

from bench.training.model import Decoder

from .checks import Fault, encoding_check
from .subject import Case, Subject, hidden_states, mode, rows_differ


def spread(count: int, width: int) -> list[int]:
    """Evenly spaced positions from the first to the second to last."""
    return sorted({round(n * (width - 2) / (count - 1)) for n in range(count)})


@encoding_check(
    "causality",
    advice="find the hook that mixes positions: an entry for query i may use keys, values and inputs up to i only "
    "(check the mask of an `attend` of your own, roll, flip, sums and means over all of T)",
)
def check_causality(subject: Subject) -> str:
    """No output depends on a later token: in training and evaluation, at every position, up to L′."""
    tried = 0
    for case in subject.cases:
        model, train, longest = subject.model(case), case.setup.train_tokens, case.setup.longest_tokens
        widths = {train: train - 1, train + 3: 8, longest: 16}
        settings = [(width, width, count, False) for width, count in widths.items()]
        settings += [(train, longest, 8, False), (longest, longest, 8, True)]
        for training in (True, False):
            for width, announced_length, count, bf16 in settings:
                positions = torch.tensor(spread(count, width))
                with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                    leaks = changed_outputs(model, case, width, announced_length, positions, training)
                if leaks.any():
                    row, position = leaks.nonzero()[0].tolist()
                    where = f"{case}, {mode(training)}, {width} tokens announced as {announced_length} (L is {train})"
                    raise Fault(f"{where}: the output at position {position} changes with tokens after {positions[row]}")
                tried += len(positions)
    return f"none of {tried:,} changes of later tokens affected an earlier output"


def changed_outputs(
    model: Decoder, case: Case, width: int, announced_length: int, positions: Tensor, training: bool
) -> Tensor:
    """Which outputs up to the row's position change if all of its tokens after that position do."""
    symbols = len(case.setup.symbols)
    tokens, others = (case.sequences(len(positions), width, seed) for seed in (0, 1))
    later = torch.arange(width) > positions[:, None]
    changed = torch.where(later, (tokens + 1 + others % (symbols - 1)) % symbols, tokens)
    # Both batches have the same shape and seed, so random draws and rounding are the same too.
    before, after = (hidden_states(model, batch, announced_length, training).float() for batch in (tokens, changed))
    return rows_differ(before, after) & ~later


@encoding_check("cutting", advice="use at.announced_length as the length of a sequence, never the T of a tensor")
def check_cutting(subject: Subject) -> str:
    """Cutting a sequence short does not change the outputs before the cut, whatever length was announced."""
    case, model, tried = subject.main, subject.model(), 0
    for training in (True, False):
        for announced_length in (case.setup.train_tokens, case.setup.longest_tokens):
            tokens = case.sequences(2, announced_length, seed=0)
            whole = hidden_states(model, tokens, announced_length, training)
            for size in spread(12, announced_length)[1:]:
                cut = hidden_states(model, tokens[:, :size], announced_length, training)
                wrong = rows_differ(cut, whole[:, :size])
                if wrong.any():
                    raise Fault(
                        f"{mode(training)}, {announced_length} tokens announced: the output at position "
                        f"{int(wrong.any(0).nonzero()[0])} changes when the sequence is cut after {size} tokens"
                    )
                tried += 1
    return f"the same after each of {tried} cuts"


@encoding_check("batches", advice="compute along T only, never across B; only random draws may differ from row to row")
def check_batches(subject: Subject) -> str:
    """The output of a sequence does not depend on the other rows of the batch, their number and order."""
    case, model = subject.main, subject.model()
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            tokens, others = case.sequences(6, width, seed=0), case.sequences(6, width, seed=100)
            others[2] = tokens[2]
            order = [3, 0, 5, 4, 1, 2]
            variants = {"with other rows": (others, [2], [2])}
            if not subject.cls.info.random:
                variants |= {"alone": (tokens[:1], [0], [0]), "in another order": (tokens[order], [*range(6)], order)}
            output = hidden_states(model, tokens, training=training)
            for what, (batch, rows, originals) in variants.items():
                found = hidden_states(model, batch, training=training)
                if rows_differ(found[rows], output[originals]).any():
                    raise Fault(f"{mode(training)}, {width} tokens: the output of a row is another one {what}")
    return "the same alone, with other rows and in another order"
