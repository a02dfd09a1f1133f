"""Causality: outputs must not depend on later tokens, on where the sequence ends, or on other rows of the batch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

import tasks
from bench.training.batches import as_batch
from bench.training.model import Decoder

from .checks import Fault, encoding_check
from .subject import Case, Subject, hidden_states, mode, rows_differ

BATCH = 64
"""Sequences per forward pass."""
PADDING = 5
"""Number of padding tokens appended to each row."""


@dataclass(frozen=True)
class ChangedSequences:
    """Sequences in which all tokens after some position change, each position in turn."""

    case: Case
    width: int
    """Tokens of the sequences."""
    announced_length: int
    positions: Sequence[int]
    """Last unchanged position of each sequence."""
    training: bool
    autocast: bool = False
    """Under bf16 autocast, as on a GPU."""

    def __str__(self) -> str:
        announced = "" if self.width == self.announced_length else f" announced as {self.announced_length}"
        return f"{mode(self.training)}, {self.width} tokens{announced} (L is {self.case.setup.train_tokens}), {self.case}"


def spread(count: int, width: int) -> list[int]:
    """Evenly spaced positions from the first to the second to last."""
    return sorted({round(n * (width - 2) / (count - 1)) for n in range(count)})


def changed_sequences(subject: Subject) -> Iterable[ChangedSequences]:
    """Every position at L on one task; some at L′, at many lengths up to L′, on other tasks and in other suites."""
    main = subject.main
    train, longest = main.setup.train_tokens, main.setup.longest_tokens
    for training in (True, False):
        yield ChangedSequences(main, train, train, range(train - 1), training)
        yield ChangedSequences(main, longest, longest, spread(16, longest), training)
        yield ChangedSequences(main, train, longest, spread(8, train), training)
        yield ChangedSequences(main, longest, longest, spread(8, longest), training, autocast=True)
        for case in subject.cases[1:]:
            for width in (case.setup.train_tokens, case.setup.longest_tokens):
                yield ChangedSequences(case, width, width, spread(8, width), training)
        for case in subject.other_cases:
            for width in (case.setup.train_tokens, min(2 * case.setup.train_tokens, case.setup.longest_tokens)):
                yield ChangedSequences(case, width, width, spread(3, width), training)
    for width in range(2, longest, max(1, longest // 24)):
        yield ChangedSequences(main, width, width, Random(width).sample(range(width - 1), min(3, width - 1)), training=False)


def replace_later(
    tokens: Int[Tensor, "N T"], donors: Int[Tensor, "N T"], positions: Sequence[int], symbols: int
) -> Int[Tensor, "N T"]:
    """Replace the tokens of row n after ``positions[n]`` with the donor's; the first replacement always differs."""
    later = torch.arange(tokens.shape[1]) > torch.tensor(positions)[:, None]
    mixed = torch.where(later, donors, tokens)
    rows, first = torch.arange(len(positions)), torch.tensor(positions) + 1
    same = mixed[rows, first] == tokens[rows, first]
    mixed[rows, first] = (mixed[rows, first] + same.long()) % symbols
    return mixed


def find_leaks(model: Decoder, changed: ChangedSequences) -> list[tuple[int, int, int]]:
    """Outputs that depend on later tokens: last unchanged position, position of the output, and layer, from 0."""
    leaks = []
    bases = changed.case.sequences(2, changed.width, seed=changed.width)
    pairs = [(base, position) for base in range(len(bases)) for position in changed.positions]
    for start in range(0, len(pairs), BATCH):
        base_rows, positions = (list(part) for part in zip(*pairs[start : start + BATCH], strict=True))
        before = bases[base_rows]
        donors = changed.case.sequences(len(positions), changed.width, seed=1000 + start)
        after = replace_later(before, donors, positions, len(changed.case.setup.symbols))
        # Both batches have the same shape and seed, so random draws and rounding are the same too.
        with torch.autocast("cpu", torch.bfloat16, enabled=changed.autocast):
            outputs = [layer_outputs(model, tokens, changed) for tokens in (before, after)]
        for layer, (a, b) in enumerate(zip(*outputs, strict=True)):
            wrong = rows_differ(a, b) & (torch.arange(changed.width) <= torch.tensor(positions)[:, None])
            leaks += [(positions[n], int(position), layer) for n, position in wrong.nonzero().tolist()]
    return sorted(leaks, key=lambda leak: (leak[2], leak[1]))


def layer_outputs(model: Decoder, tokens: Int[Tensor, "B T"], changed: ChangedSequences) -> list[Tensor]:
    outputs: list[Tensor] = []
    handles = [
        block.register_forward_hook(lambda _, __, x: outputs.append(x.detach().float().view(*tokens.shape, -1)))
        for block in model.blocks
    ]
    try:
        hidden_states(model, tokens, changed.announced_length, changed.training)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


@encoding_check(
    "causality",
    expected="no output depends on a later token: in training and evaluation, in every layer, at every position, up to L and "
    "beyond it up to L′",
    advice="find the hook that mixes positions: an entry for query i may use keys, values and inputs up to i only "
    "(check the mask of an `attend` of your own, roll, flip, sums and means over all of T, and tokens in `positions`)",
)
def check_causality(subject: Subject) -> str:
    faults: list[str] = []
    models: dict[str, Decoder] = {}
    tried = 0
    for changed in changed_sequences(subject):
        key = str(changed.case)
        models[key] = models.get(key) or subject.model(changed.case)
        tried += 2 * len(changed.positions)
        if leaks := find_leaks(models[key], changed):
            last, position, layer = leaks[0]
            where = f"first in layer {layer} of 0 … {changed.case.setup.layers - 1}"
            faults.append(f"{changed}: the output at position {position} changes with tokens after {last}, {where}")
        if len(faults) == 3:
            break
    if faults:
        raise Fault("; ".join(faults))
    return f"none of {tried:,} changes of later tokens affected an earlier output"


@encoding_check(
    "cutting",
    expected="cutting a sequence short does not change the outputs before the cut, whatever length was announced",
    advice="use at.announced_length as the length of a sequence, never the T of a tensor",
)
def check_cutting(subject: Subject) -> str:
    tried = 0
    for case in subject.cases:
        model, setup = subject.model(case), case.setup
        for training in (True, False):
            for announced_length in (setup.train_tokens, setup.longest_tokens):
                tokens = case.sequences(2, announced_length, seed=0)
                whole = hidden_states(model, tokens, announced_length, training)
                for size in spread(12 if case is subject.main else 4, announced_length):
                    size = max(1, size)
                    cut = hidden_states(model, tokens[:, :size], announced_length, training)
                    tried += 1
                    wrong = rows_differ(cut, whole[:, :size])
                    if wrong.any():
                        raise Fault(
                            f"{mode(training)}, {announced_length} tokens announced, {case}: the output at position "
                            f"{int(wrong.any(0).nonzero()[0])} changes when the sequence is cut after {size} tokens"
                        )
    return f"the same after each of {tried} cuts"


@encoding_check(
    "batches",
    expected="the output of a sequence depends neither on the other rows of the batch, their number and order, nor on padding",
    advice="compute along T only, never across B; only random draws may differ from row to row",
)
def check_batches(subject: Subject) -> str:
    case, model, random = subject.main, subject.model(), subject.cls.info.random
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            where = f"{mode(training)}, {width} tokens"
            tokens, others = case.sequences(6, width, seed=0), case.sequences(6, width, seed=100)
            output = hidden_states(model, tokens, training=training)
            others[2] = tokens[2]
            if rows_differ(output[2], hidden_states(model, others, training=training)[2]).any():
                raise Fault(f"{where}: the output of a row changes with the content of other rows")
            if random:
                continue
            short = tokens[:, : width - PADDING]
            padded = torch.cat([short, torch.full((6, PADDING), tasks.PAD)], 1)
            without, with_padding = (
                hidden_states(model, part, width, training)[:, : width - PADDING] for part in (short, padded)
            )
            if rows_differ(without, with_padding).any():
                raise Fault(f"{where}: padding after a sequence changes its output")
            if rows_differ(output[:1], hidden_states(model, tokens[:1], training=training)).any():
                raise Fault(f"{where}: the output of a row changes with the number of rows")
            order = [3, 0, 5, 4, 1, 2]
            if rows_differ(output[order], hidden_states(model, tokens[order], training=training)).any():
                raise Fault(f"{where}: the output of a row changes with its place in the batch")
    if random:
        return "the same with other rows (the encoding draws random numbers)"
    compare_padding(subject)
    return "the same alone, with other rows, in another order and with padding"


def compare_padding(subject: Subject) -> None:
    """The shorter half of a training batch has less padding when it is alone."""
    for case in subject.cases:
        model = subject.model(case).eval()
        examples = tasks.train_batch(case.task, case.suite.spec(case.task.name).train_length, 32, 0, 0)
        whole = as_batch(examples)
        shorter = np.sort(np.argsort(examples.sizes, kind="stable")[: len(examples) // 2])
        chosen = torch.from_numpy(np.isin(whole.example_of, shorter))
        with torch.inference_mode():
            alone, among = (
                model.target_states(batch, case.setup.train_tokens, torch.Generator().manual_seed(0))
                for batch in (as_batch(examples.rows(shorter)), whole)
            )
        if rows_differ(alone, among[chosen]).any():
            raise Fault(f"{case}: outputs change with the padding of the batch")
