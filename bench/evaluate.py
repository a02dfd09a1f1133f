"""Evaluation: exact match and token accuracy at every test length.

One teacher-forced pass gives the exact match of greedy decoding: as long as every answer token so far is right, the decoder has
seen the very prefix that teacher forcing shows it, and the first wrong token ends the match either way.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

import tasks
from tasks import Examples

from .batches import Batch, as_batch
from .model import Decoder
from .results import LengthScore
from .train import generator, precision

TOKEN_BUDGET = {"cpu": 8192, "cuda": 262144}
"""Tokens of one evaluation batch, padding included: memory stays bounded however long the sequences are."""
EXAMPLES_A_DRAW = 32


@torch.inference_mode()
def evaluate(
    model: Decoder,
    task: tasks.Task,
    test_sets: Mapping[int, Examples],
    test_seed: int,
    between: Callable[[], None] = lambda: None,
) -> list[LengthScore]:
    """Scores at each length of ``test_sets``.

    Arguments:
        test_seed: what an encoding that draws is seeded with; never a training seed, so all runs meet the same draws.
        between: called between batches; may raise to stop.
    """
    model.eval()
    device = model.embedding.weight.device
    scores = []
    for length, examples in test_sets.items():
        exact, right, total = 0, 0, 0
        # An encoding that draws does so anew for every 32 examples, whatever the budget and the machine.
        share = EXAMPLES_A_DRAW if model.encoding.info.random else len(examples)
        # In an extra stage every sequence was announced as one of length L′, whatever its own; so it is here.
        nominal = task.tokens(task.longest if model.encoding.stage else length)
        for start, batch in by_budget(examples, TOKEN_BUDGET[device.type], share):
            between()
            draws = generator("test", test_seed, length, start // share, device=device)
            hits = correct(model, batch.to(device), nominal, draws)
            wrong = torch.bincount(batch.owner[~hits], minlength=batch.count) > 0
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


def correct(model: Decoder, batch: Batch, nominal: int, draws: torch.Generator | None) -> Tensor:
    """For every answer place of the batch, on the CPU: is the most likely next token the right one?"""
    with precision(batch.targets.device):
        hidden = model.read(batch, nominal, draws)
    logits = model.logits(hidden.float())
    return (logits.argmax(-1) == batch.targets).cpu()


def by_budget(examples: Examples, budget: int, share: int) -> Iterator[tuple[int, Batch]]:
    """Batches in order with the index of their first example: each of at most ``budget`` tokens (but at least one example), and
    none across a multiple of ``share`` examples."""
    size = max(1, budget // max(1, examples.tokens.shape[1]))
    for first in range(0, len(examples), share):
        for start in range(first, min(first + share, len(examples)), size):
            yield start, as_batch(examples.rows(slice(start, min(start + size, first + share))))


def zero_scores(task: tasks.Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
    """The scores of a diverged run: zero everywhere."""
    return [
        LengthScore(length=n, exact=0.0, token=0.0, count=len(s), tokens=int(s.targets.sum()), chance=task.chance(n))
        for n, s in test_sets.items()
    ]
