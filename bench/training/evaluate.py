"""Evaluation: exact match, token accuracy, log-likelihood and place of the first wrong token at every test length.

One teacher-forced pass gives the exact match of greedy decoding and its first wrong token: up to that token both see the same
prefix, and it ends the match either way.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.result import TENTHS, LengthScore
from tasks import Examples

from .batches import Batch, as_batch
from .model import Decoder
from .train import seeded_generator, target_logits

TOKEN_BUDGET = {"cpu": 8192, "cuda": 262144}
"""Maximum number of tokens of an evaluation batch, padding included."""
PAIR_BUDGET = 2**25
"""Maximum number of pairs of tokens of an evaluation batch. With 8 heads, attention scores of that many take 1 GB in fp32. On a
CPU it changes nothing: up to 4,096 tokens the other limit is stricter, and beyond them both allow one example."""
EXAMPLES_PER_DRAW = 32
"""Number of examples that share one draw of a random encoding, independent of budget and machine."""


@torch.inference_mode()
def evaluate(
    model: Decoder,
    task: tasks.Task,
    test_sets: Mapping[int, Examples],
    test_seed: int,
    before_batch: Callable[[], None] = lambda: None,
    predict: Callable[[Decoder, Batch, int, torch.Generator], Float[Tensor, "M V"]] = target_logits,
) -> list[LengthScore]:
    """Scores at each length of ``test_sets``.

    Arguments:
        test_seed: seed of random encodings. Independent of the training seed, so that all runs see the same random numbers.
        before_batch: called before each batch; may raise to stop the evaluation.
        predict: computes the logits in place of ``target_logits``.
    """
    model.eval()
    device = model.embedding.weight.device
    scores = []
    for length, examples in test_sets.items():
        right, loss, first_wrong = 0, 0.0, np.zeros(TENTHS, np.int64)
        per_draw = EXAMPLES_PER_DRAW if model.encoding.info.random else len(examples)
        announced = announced_length(model, task, length)
        for start, part in evaluation_batches(examples, TOKEN_BUDGET.get(device.type, TOKEN_BUDGET["cpu"]), per_draw):
            before_batch()
            batch = as_batch(part).to(device)
            generator = seeded_generator("test", test_seed, length, start // per_draw, device=device)
            logits = predict(model, batch, announced, generator)
            losses = F.cross_entropy(logits, batch.targets, reduction="none")
            hits = (logits.argmax(-1) == batch.targets).cpu().numpy()
            first_wrong += first_wrong_tenths(hits, batch.example_of.numpy())
            right += int(hits.sum())
            loss += float(losses.cpu().double().sum())  # mps has no float64
        scores.append(length_score(task, length, examples, right, loss, first_wrong))
    return scores


def announced_length(model: Decoder, task: tasks.Task, length: int) -> int:
    """Announced tokens of test sequences of one length."""
    stage = model.encoding.stage
    # A stage at longer lengths announces L′ for every sequence, so the test after it does the same.
    return task.tokens(task.longest if stage and stage.longer else length)


def length_score(
    task: tasks.Task, length: int, examples: Examples, right: int, loss: float, first_wrong: Int[np.ndarray, " 10"]
) -> LengthScore:
    """The record of one length.

    Arguments:
        right: number of right answer tokens.
        loss: sum of the negative log-likelihoods of all answer tokens.
        first_wrong: see ``first_wrong_tenths``.
    """
    count, tokens = len(examples), int(examples.targets.sum())
    return LengthScore(
        length=length,
        exact=(count - int(first_wrong.sum())) / count,
        token=right / tokens,
        nll=loss / tokens if math.isfinite(loss) else None,
        first_wrong=first_wrong.tolist(),
        token_chance=task.token_chance(length),
        count=count,
        tokens=tokens,
        chance=task.chance(length),
    )


def zero_scores(task: tasks.Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
    """Scores of a diverged run: every token is wrong, so the first is too."""
    return [
        length_score(task, n, examples, 0, math.nan, np.eye(TENTHS, dtype=np.int64)[0] * len(examples))
        for n, examples in test_sets.items()
    ]


def first_wrong_tenths(hits: Bool[np.ndarray, " M"], example_of: Int[np.ndarray, " M"]) -> Int[np.ndarray, " 10"]:
    """How many examples have their first wrong token in each tenth of their answer; all-right ones in none.

    Arguments:
        example_of: the example of each target row, ascending.
    """
    _, starts, sizes = np.unique(example_of, return_index=True, return_counts=True)
    wrong = np.flatnonzero(~hits)
    examples, first = np.unique(example_of[wrong], return_index=True)
    places = wrong[first] - starts[examples]
    return np.bincount(TENTHS * places // sizes[examples], minlength=TENTHS)


def evaluation_batches(examples: Examples, budget: int, per_draw: int) -> Iterator[tuple[int, Examples]]:
    """Yield batches in order, each with the index of its first example.

    A batch has at most ``budget`` tokens and ``PAIR_BUDGET`` pairs of tokens (but at least one example) and does not cross a
    multiple of ``per_draw`` examples.
    """
    width = max(1, examples.tokens.shape[1])
    size = max(1, min(budget // width, PAIR_BUDGET // width**2))
    for first in range(0, len(examples), per_draw):
        for start in range(first, min(first + per_draw, len(examples)), size):
            yield start, examples.rows(slice(start, min(start + size, first + per_draw)))
