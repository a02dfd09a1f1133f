"""Key retrieval by depth: the accuracy of the value by where in the prompt its marked key is, and by length."""

import numpy as np
import torch

from bench.runs.run import Run
from tasks.key_retrieval import VALUES

from .context import score
from .record import Value
from .subject import Subject, as_tokens

VERSION = 1
EXAMPLES, DEPTHS = 256, 8


def applies(run: Run) -> bool:
    return run.task == "key_retrieval" and run.suite.spec(run.task).variant == "needle"


def measure(subject: Subject) -> list[Value]:
    """Accuracy at each length by eighths of the prompt: ``at`` is the eighth, from 0, the farthest from the question."""
    values = [Value("chance", 1 / VALUES)]
    for length in subject.lengths:
        examples = subject.examples(length, EXAMPLES)
        tokens, start = as_tokens(examples), torch.from_numpy(examples.answer_start)
        mark = subject.task.vocabulary.ids["#"]
        place = (tokens == mark).int().argmax(1).numpy() - 1
        depth = np.minimum(place * DEPTHS // (length + 1), DEPTHS - 1)
        for eighth in range(DEPTHS):
            row = torch.from_numpy(np.flatnonzero(depth == eighth))
            if len(row):
                truth = tokens[row, start[row]]
                right, loss = score(subject, tokens[row], start[row], truth, length)
                values += [Value("accuracy", right, length, at=str(eighth)), Value("nll", loss, length, at=str(eighth))]
    return values
