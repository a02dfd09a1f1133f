"""Use of context: what is lost when everything before the last tokens is replaced by tokens of other examples.

At lengths past L: a model is asked for an answer token with the whole sequence, and again with only the last N tokens its
own, where N is the size of a sequence of length L; the tokens before them, but for ``<bos>``, are those of another example at
the same places. A model that gains nothing from more context than it was trained on loses nothing (Press et al. 2022 found that
of ALiBi). Up to eight answer tokens of each example, ``<eos>`` not counted, are asked for, evenly spaced with the last one
included; those with fewer than N tokens between ``<bos>`` and them are left out. With exactly N, nothing is replaced.
"""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from tasks.base import SPECIALS

from .record import Value
from .subject import Subject, as_tokens

VERSION = 1
EXAMPLES, ASKED = 32, 8
TOKENS = 2**14
"""Largest number of tokens of a batch."""


def measure(subject: Subject) -> list[Value]:
    values = []
    kept = subject.task.tokens(subject.train_length)
    for length in (n for n in subject.lengths if n > subject.train_length):
        examples = subject.examples(length, EXAMPLES)
        tokens, sizes, starts = as_tokens(examples), examples.sizes, examples.answer_start
        rows, places = [], []  # of each asked token
        for n in range(EXAMPLES):
            asked = np.unique(np.linspace(starts[n], sizes[n] - 2, ASKED).round().astype(int))
            asked = asked[asked > kept]
            rows += [n] * len(asked)
            places += asked.tolist()
        if not rows:
            continue
        row, place = torch.tensor(rows), torch.tensor(places)
        column = torch.arange(tokens.shape[1])
        early = (column > 0) & (column < place[:, None] - kept)
        whole, other = tokens[row], tokens[(row + 1) % EXAMPLES]
        cut = torch.where(early & (other != 0), other, whole)  # padding of a shorter example replaces nothing
        truth = whole[torch.arange(len(row)), place]
        for quantity, sequences in (("", whole), ("_cut", cut)):
            right, loss = score(subject, sequences, place, truth, length)
            values += [Value(f"accuracy{quantity}", right, length), Value(f"nll{quantity}", loss, length)]
    return values


@torch.inference_mode()
def score(
    subject: Subject, tokens: Int[Tensor, "N T"], place: Int[Tensor, " N"], truth: Int[Tensor, " N"], length: int
) -> tuple[float, float]:
    """Accuracy and mean loss in nats of the token at one place of each sequence, given that the answer goes on there.

    The model chooses among all tokens but the special ones: one that was trained up to L may rightly expect ``<eos>`` past L.
    """
    announced, generator = subject.context(length)
    logits = []
    for part, at in zip(*(x.split(max(1, TOKENS // tokens.shape[1])) for x in (tokens, place)), strict=True):
        states = subject.model(part, announced, generator)
        logits.append(subject.model.logits(states[torch.arange(len(part)), at - 1]))
    joined, truth = torch.cat(logits)[:, len(SPECIALS) :], truth - len(SPECIALS)
    return float((joined.argmax(-1) == truth).float().mean()), float(F.cross_entropy(joined, truth))
