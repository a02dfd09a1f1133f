"""Probes of answers: use of context, and retrieval by depth.

``context``, at lengths past L: what is lost when everything before the last tokens is replaced by tokens of other examples.
A model is asked for an answer token with the whole sequence, and again with only the last N tokens its own, where N is the
size of a sequence of length L; the tokens before them, but for ``<bos>``, are those of another example at the same places. A
model that gains nothing from more context than it was trained on loses nothing (Press et al. 2022 found this of ALiBi). Up to
eight answer tokens of each example, ``<eos>`` not counted, are asked for, evenly spaced with the last one included; those with
fewer than N tokens between ``<bos>`` and them are left out.

``needle``: the accuracy of key retrieval by where in the prompt the marked key is, and by length. ``at`` is the eighth of the
prompt, from 0, the farthest from the question.
"""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from tasks.base import SPECIALS
from tasks.key_retrieval import VALUES

from .record import Value
from .subject import Subject, as_tokens

ASKED, DEPTHS = 8, 8
TOKENS = 2**14
"""Largest number of tokens of a batch."""


def context(subject: Subject) -> list[Value]:
    """Accuracy and loss with the whole context and, ``_cut``, with the last N tokens of it."""
    values, count, kept = [], 32, subject.task.tokens(subject.train_length)
    for length in (n for n in subject.lengths if n > subject.train_length):
        examples = subject.examples(length, count)
        tokens = as_tokens(examples)
        pairs = []  # row and place of each asked token
        for n in range(count):
            asked = np.unique(np.linspace(examples.answer_start[n], examples.sizes[n] - 2, ASKED).round().astype(int))
            pairs += [(n, int(place)) for place in asked if place > kept]
        if not pairs:
            continue
        row, place = torch.tensor(pairs).T
        column = torch.arange(tokens.shape[1])
        early = (column > 0) & (column < place[:, None] - kept)
        whole, other = tokens[row], tokens[(row + 1) % count]
        cut = torch.where(early & (other != 0), other, whole)  # padding of a shorter example replaces nothing
        for suffix, sequences in (("", whole), ("_cut", cut)):
            right, loss = score(subject, sequences, place, whole[torch.arange(len(row)), place], length)
            values += [Value(f"accuracy{suffix}", right, length), Value(f"nll{suffix}", loss, length)]
    return values


def needle(subject: Subject) -> list[Value]:
    """Accuracy at each length by eighths of the prompt."""
    values = [Value("chance", 1 / VALUES)]
    for length in subject.lengths:
        examples = subject.examples(length, 256)
        tokens, start = as_tokens(examples), torch.from_numpy(examples.answer_start)
        truth = tokens.gather(1, start[:, None])[:, 0]
        place = (tokens == subject.task.vocabulary.ids["#"]).int().argmax(1) - 1
        depth = (place * DEPTHS // (length + 1)).clamp_max(DEPTHS - 1)
        for eighth in depth.unique().tolist():
            own = depth == eighth
            right, _ = score(subject, tokens[own], start[own], truth[own], length)
            values.append(Value("accuracy", right, length, at=str(eighth)))
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
