"""What an output may not hang on: the other sequences of a batch, and how they are laid out."""

import torch

import tasks

from ..batches import as_batch
from .subject import Fault, Subject, check, differs, mode, states

PADDING = 5


@check(
    "batches",
    expected="a sequence gives the same output whatever the other rows of the batch hold, however many there are, and in "
    "whatever order and padding",
    advice="compute along T alone, never across B; what is drawn may differ from row to row, and nothing else",
)
def batches(subject: Subject) -> str:
    case, model, draws = subject.main, subject.model(), subject.cls.info.random
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            where = f"{mode(training)}, {width} tokens"
            tokens, others = case.sequences(6, width, seed=0), case.sequences(6, width, seed=100)
            whole = states(model, tokens, training=training)
            others[2] = tokens[2]
            if differs(whole[2], states(model, others, training=training)[2]).any():
                raise Fault(f"{where}: a row's output changes with what stands in the other rows")
            if draws:
                continue
            short = tokens[:, : width - PADDING]
            padded = torch.cat([short, torch.full((6, PADDING), tasks.PAD)], 1)
            alone, behind = (states(model, part, width, training)[:, : width - PADDING] for part in (short, padded))
            if differs(alone, behind).any():
                raise Fault(f"{where}: padding behind a sequence changes its output")
            if differs(whole[:1], states(model, tokens[:1], training=training)).any():
                raise Fault(f"{where}: a row's output changes with the number of rows")
            order = [3, 0, 5, 4, 1, 2]
            if differs(whole[order], states(model, tokens[order], training=training)).any():
                raise Fault(f"{where}: a row's output changes with its place in the batch")
    if not draws:
        rectangles(subject)
    return (
        "the same alone, among others, in another order and with padding" if not draws else "the same among others (it draws)"
    )


def rectangles(subject: Subject) -> None:
    """Training lays sequences of like sizes out in rectangles of their own; evaluation does not."""
    for case in subject.cases:
        model = subject.model(case).eval()
        examples = tasks.train_batch(case.task, case.suite.spec(case.task.name).train_length, 32, 0, 0)
        with torch.inference_mode():
            apart, together = (
                model.read(as_batch(examples, most), case.setup.train_tokens, torch.Generator().manual_seed(0))
                for most in (8, 1)
            )
        if differs(apart, together).any():
            raise Fault(f"{case}: outputs change with the padding of the batch")
