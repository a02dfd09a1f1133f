"""Evaluation without answers: the sealed process sees a prompt, predicts, and only then sees the next token of the answer.

The scores are those of the teacher-forced pass of ``bench.training.evaluate`` for every causal encoding, up to rounding.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch.nn import functional as F

import tasks
from bench.result import LengthScore
from bench.training.evaluate import EXAMPLES_PER_DRAW, TOKEN_BUDGET, first_wrong_tenths, length_score
from bench.training.train import derive_seed
from tasks import PAD, Examples

from .judge import SealedModel


def evaluate_sealed(
    model: SealedModel, task: tasks.Task, test_sets: Mapping[int, Examples], test_seed: int
) -> list[LengthScore]:
    """Scores at each length of ``test_sets``; see ``bench.training.evaluate.evaluate``."""
    model.push_weights()
    scores, stage = [], model.encoding.stage
    for length, examples in test_sets.items():
        right, loss, first_wrong = 0, 0.0, np.zeros(10, np.int64)
        per_draw = EXAMPLES_PER_DRAW if model.encoding.info.random else len(examples)
        announced_length = task.tokens(task.longest if stage and stage.longer else length)
        size = max(1, TOKEN_BUDGET["cpu"] // examples.tokens.shape[1])
        for first in range(0, len(examples), per_draw):
            for start in range(first, min(first + per_draw, len(examples)), size):
                batch = examples.rows(slice(start, min(start + size, first + per_draw)))
                seed = derive_seed("test", test_seed, length, start // per_draw)
                hits, batch_loss, example_of = reveal(model, batch, announced_length, seed, len(task.vocabulary))
                first_wrong += first_wrong_tenths(hits, example_of)
                right += int(hits.sum())
                loss += batch_loss
        scores.append(length_score(task, length, examples, right, loss, first_wrong))
    return scores


def reveal(
    model: SealedModel, examples: Examples, announced_length: int, seed: int, symbols: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """Whether each answer token is predicted, the sum of their losses in nats, and the example of each token."""
    order = np.argsort(examples.sizes, kind="stable")  # as the teacher-forced batch, for the same random draws
    tokens, starts, sizes = examples.tokens[order], examples.answer_start[order], examples.sizes[order]
    answer = sizes - starts
    hits, losses = np.zeros((len(tokens), int(answer.max())), bool), 0.0
    column = np.arange(tokens.shape[1])
    for place in range(hits.shape[1]):
        # Rows stay in the batch to its end, so that random draws do not change; a finished one repeats its last prefix.
        known = starts + np.minimum(place, answer - 1)
        shown = np.where(column < known[:, None], tokens, PAD)[:, : int(known.max())]
        logits = model.logits(np.ascontiguousarray(shown), known, announced_length, seed, symbols)
        active = np.flatnonzero(place < answer)
        truth = torch.from_numpy(tokens[active, known[active]])
        hits[active, place] = (logits[active].argmax(-1) == truth).numpy()
        losses += float(F.cross_entropy(logits[active], truth, reduction="none").double().sum())
    example_of, _ = np.nonzero(np.arange(hits.shape[1]) < answer[:, None])
    return hits[np.arange(hits.shape[1]) < answer[:, None]], losses, example_of
