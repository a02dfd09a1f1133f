"""Evaluation without answers: the sealed process sees a prompt, predicts, and only then sees the next token of the answer.

The scores are those of the teacher-forced pass of ``bench.training.evaluate`` for every causal encoding, up to rounding.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.result import TENTHS, LengthScore
from bench.training.evaluate import (
    EXAMPLES_PER_DRAW,
    TOKEN_BUDGET,
    announced_length,
    evaluation_batches,
    first_wrong_tenths,
    length_score,
)
from bench.training.train import derive_seed
from tasks import PAD, Examples

from .judge import SealedModel

LOOK_AHEAD = 0.05
"""Most that a logit may change when the answer comes into view. Rounding changes those of honest encodings by up to 0.001."""


def evaluate_sealed(
    model: SealedModel,
    task: tasks.Task,
    test_sets: Mapping[int, Examples],
    test_seed: int,
    before_batch: Callable[[], None] = lambda: None,
) -> tuple[list[LengthScore], list[str]]:
    """Scores at each length of ``test_sets``; see ``bench.training.evaluate.evaluate``.

    Returns:
        The scores, and one line for each length at which predictions change when the answers are in view. Random encodings
        are not compared: they may draw other numbers for sequences of other lengths.
    """
    model.push_weights()
    scores, faults = [], []
    random, symbols = model.encoding.info.random, len(task.vocabulary)
    for length, examples in test_sets.items():
        right, loss, first_wrong, change = 0, 0.0, np.zeros(TENTHS, np.int64), 0.0
        per_draw = EXAMPLES_PER_DRAW if random else len(examples)
        announced = announced_length(model, task, length)  # type: ignore[arg-type]
        for start, batch in evaluation_batches(examples, TOKEN_BUDGET["cpu"], per_draw):
            before_batch()
            seed = derive_seed("test", test_seed, length, start // per_draw)
            logits, truth, example_of = reveal(model, batch, announced, seed, symbols)
            hits = (logits.argmax(-1) == truth).numpy()
            first_wrong += first_wrong_tenths(hits, example_of)
            right += int(hits.sum())
            loss += float(F.cross_entropy(logits, truth, reduction="none").double().sum())
            if not random:
                change = max(change, largest_difference(logits, model.teacher_forced(batch, announced, seed, symbols)))
        scores.append(length_score(task, length, examples, right, loss, first_wrong))
        if change > LOOK_AHEAD:
            faults.append(f"length {length}: logits change by {change:.3g} when the answer comes into view")
    return scores, faults


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Largest absolute difference; infinite where a number is not finite."""
    return float((one - other).abs().nan_to_num(torch.inf).max())


def reveal(
    model: SealedModel, examples: Examples, announced_length: int, seed: int, symbols: int
) -> tuple[Float[Tensor, "M V"], Int[Tensor, " M"], Int[np.ndarray, " M"]]:
    """Logits of each answer token before it is known, the token, and its example, in the order of a ``Batch``."""
    order = np.argsort(examples.sizes, kind="stable")  # as the teacher-forced batch, for the same random draws
    tokens, starts, sizes = examples.tokens[order], examples.answer_start[order], examples.sizes[order]
    answer = sizes - starts
    is_answer = np.arange(int(answer.max())) < answer[:, None]
    found = torch.zeros(*is_answer.shape, symbols)
    column = np.arange(tokens.shape[1])
    for place in range(is_answer.shape[1]):
        # Rows stay in the batch to its end, so that random draws do not change; a finished one repeats its last prefix.
        known = starts + np.minimum(place, answer - 1)
        shown = np.where(column < known[:, None], tokens, PAD)[:, : int(known.max())]
        found[:, place] = model.logits(np.ascontiguousarray(shown), known, announced_length, seed, symbols)
    example_of, place_of = np.nonzero(is_answer)
    truth = tokens[example_of, starts[example_of] + place_of]
    return found[torch.from_numpy(is_answer)], torch.from_numpy(truth), example_of
