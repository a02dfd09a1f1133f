"""Outputs must not depend on the other sequences of a batch, nor on padding."""

import numpy as np
import torch

import tasks
from bench.training.batches import as_batch

from .checks import Fault, encoding_check
from .subject import Subject, hidden_states, mode, rows_differ

PADDING = 5
"""Number of padding tokens appended to each row."""


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
        shorter = np.argsort(examples.sizes, kind="stable")[: len(examples) // 2]
        shorter.sort()
        chosen = torch.from_numpy(np.isin(whole.example_of, shorter))
        with torch.inference_mode():
            alone, among = (
                model.target_states(batch, case.setup.train_tokens, torch.Generator().manual_seed(0))
                for batch in (as_batch(examples.rows(shorter)), whole)
            )
        if rows_differ(alone, among[chosen]).any():
            raise Fault(f"{case}: outputs change with the padding of the batch")
