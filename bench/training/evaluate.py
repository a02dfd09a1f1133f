"""Evaluation: exact match and token accuracy at every test length.

One teacher-forced pass gives the exact match of greedy decoding: up to the first wrong token both see the same prefix, and the
first wrong token ends the match either way.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

import tasks
from bench.result import LengthScore
from tasks import Examples

from .batches import Batch, as_batch
from .model import Decoder
from .train import autocast, seeded_generator

TOKEN_BUDGET = {"cpu": 8192, "cuda": 262144}
"""Maximum number of tokens of an evaluation batch, padding included, which bounds memory at any length."""
EXAMPLES_PER_DRAW = 32
"""Number of examples that share one draw of a random encoding, independent of budget and machine."""


@torch.inference_mode()
def evaluate(
    model: Decoder,
    task: tasks.Task,
    test_sets: Mapping[int, Examples],
    test_seed: int,
    before_batch: Callable[[], None] = lambda: None,
) -> list[LengthScore]:
    """Scores at each length of ``test_sets``.

    Arguments:
        test_seed: seed of random encodings. Independent of the training seed, so that all runs see the same random numbers.
        before_batch: called before each batch; may raise to stop the evaluation.
    """
    model.eval()
    device = model.embedding.weight.device
    stage, scores = model.encoding.stage, []
    for length, examples in test_sets.items():
        exact, right, total = 0, 0, 0
        per_draw = EXAMPLES_PER_DRAW if model.encoding.info.random else len(examples)
        # A stage at longer lengths announces L′ for every sequence, so the test after it does the same.
        announced_length = task.tokens(task.longest if stage and stage.longer else length)
        for start, batch in evaluation_batches(examples, TOKEN_BUDGET[device.type], per_draw):
            before_batch()
            generator = seeded_generator("test", test_seed, length, start // per_draw, device=device)
            hits = correct_targets(model, batch.to(device), announced_length, generator)
            wrong = torch.bincount(batch.example_of[~hits], minlength=batch.count) > 0
            exact += batch.count - int(wrong.sum())
            right += int(hits.sum())
            total += len(hits)
        count = len(examples)
        scores.append(
            LengthScore(
                length=length, exact=exact / count, token=right / total, count=count, tokens=total, chance=task.chance(length)
            )
        )
    return scores


def correct_targets(model: Decoder, batch: Batch, announced_length: int, generator: torch.Generator | None) -> Tensor:
    """Whether the most likely next token is right, for every target row of the batch; on the CPU."""
    with autocast(batch.targets.device):
        hidden = model.target_states(batch, announced_length, generator)
    logits = model.logits(hidden.float())
    return (logits.argmax(-1) == batch.targets).cpu()


def evaluation_batches(examples: Examples, budget: int, per_draw: int) -> Iterator[tuple[int, Batch]]:
    """Yield batches in order, each with the index of its first example.

    A batch has at most ``budget`` tokens (but at least one example) and does not cross a multiple of ``per_draw`` examples.
    """
    size = max(1, budget // max(1, examples.tokens.shape[1]))
    for first in range(0, len(examples), per_draw):
        for start in range(first, min(first + per_draw, len(examples)), size):
            yield start, as_batch(examples.rows(slice(start, min(start + size, first + per_draw))))


def zero_scores(task: tasks.Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
    """Scores of a diverged run."""
    return [
        LengthScore(length=n, exact=0.0, token=0.0, count=len(s), tokens=int(s.targets.sum()), chance=task.chance(n))
        for n, s in test_sets.items()
    ]
