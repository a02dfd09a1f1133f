"""Key retrieval by depth: the accuracy of the value by where in the prompt its marked key is, and by length."""

import torch

from bench.runs.run import Run
from tasks.key_retrieval import VALUES, KeyRetrieval

from .context import score
from .record import Value
from .subject import Subject, as_tokens

VERSION = 1
EXAMPLES, DEPTHS = 256, 8


def applies(run: Run) -> bool:
    return run.task == KeyRetrieval.name and run.suite.spec(run.task).variant == "needle"


def measure(subject: Subject) -> list[Value]:
    """Accuracy at each length by eighths of the prompt: ``at`` is the eighth, from 0, the farthest from the question."""
    values = [Value("chance", 1 / VALUES)]
    for length in subject.lengths:
        examples = subject.examples(length, EXAMPLES)
        tokens, start = as_tokens(examples), torch.from_numpy(examples.answer_start)
        truth = tokens.gather(1, start[:, None])[:, 0]
        mark = subject.task.vocabulary.ids["#"]
        place = (tokens == mark).int().argmax(1) - 1
        depth = (place * DEPTHS // (length + 1)).clamp_max(DEPTHS - 1)
        for eighth in range(DEPTHS):
            own = depth == eighth
            if own.any():
                right, loss = score(subject, tokens[own], start[own], truth[own], length)
                values += [Value("accuracy", right, length, at=str(eighth)), Value("nll", loss, length, at=str(eighth))]
    return values
