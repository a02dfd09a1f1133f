"""Language: nats a token above the known optimum, by position in the text and by length.

The task's next-token distribution is known exactly (``tasks/language.py``), so the least possible loss is too. The excess
is the mean of KL(true‖model), given that the text goes on: the model's distribution over words, without ``<eos>`` and the
other special tokens, because a model trained up to L rightly expects the end there. ``loss`` is the model's own
cross-entropy of the drawn words, and ``optimum`` that of the true distribution.
"""

import numpy as np
import torch

from bench.runs.run import Run
from tasks.language import Language

from .record import Value
from .subject import Subject, as_tokens

VERSION = 1
EXAMPLES = 128
BINS = 16
"""Most bins of positions at one length."""


def applies(run: Run) -> bool:
    return run.task == Language.name


@torch.inference_mode()
def measure(subject: Subject) -> list[Value]:
    assert isinstance(subject.task, Language)
    values = []
    for length in subject.run.recipe_suite.test_lengths(subject.task.name):
        examples = subject.examples(length, EXAMPLES)
        words = np.delete(examples.tokens[:, 1 : length + 3], 1, 1)  # without <bos>, <sep> and <eos>
        first = subject.task.first_word
        true = torch.from_numpy(subject.task.next_word(words - first))
        announced, generator = subject.context(length)
        parts = as_tokens(examples).split(32)
        states = torch.cat([subject.model(part, announced, generator)[:, 2 : length + 2] for part in parts])
        model = subject.model.logits(states)[..., first:].double().log_softmax(-1)
        drawn = torch.from_numpy(words[:, 1:] - first)[..., None]
        by_position = {
            "excess": (torch.special.xlogy(true, true) - true * model).sum(-1).mean(0),
            "loss": -model.gather(-1, drawn)[..., 0].mean(0),
            "optimum": -true.log().gather(-1, drawn)[..., 0].mean(0),
        }
        for quantity, numbers in by_position.items():
            values.append(Value(quantity, numbers.mean().item(), length))
        if length in (subject.train_length, subject.task.longest):
            for places in np.array_split(np.arange(length), min(length, BINS)):
                at = str(int(places[-1]) + 1)  # the last position of the bin
                values += [Value(f"{q} at", x[places].mean().item(), length, at=at) for q, x in by_position.items()]
    return values
