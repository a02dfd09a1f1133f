"""Exact match at L′: our one teacher-forced pass against greedy ``generate()`` with a KV cache."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

import tasks
from bench.suite import load_suite
from tasks import EOS, PAD, Examples

from .ours import Trainee
from .plan import Plan
from .record import Evaluation, Spread
from .rivals import Rival, rivals
from .steps import OURS
from .timing import interleave

SUITE = "small"
ENCODINGS = ("nope", "learned", "rope", "alibi", "t5")
WARM = 4
FEW = 8
"""Examples at a time unless asked for more: ``TrainingArguments.per_device_eval_batch_size`` of transformers."""
PART = 4
"""Of the test set as much as this divides it into is enough to time that; the rest would take as long again."""


def measure(plan: Plan, say: Callable[[str], None]) -> list[Evaluation]:
    found = []
    for task in plan.tasks:
        say(f"evaluation: {SUITE}, {task}")
        found += one_task(task, plan)
    return found


def one_task(task: str, plan: Plan) -> list[Evaluation]:
    suite = load_suite(SUITE)
    made = suite.make_task(task)
    length = made.longest
    examples = tasks.test_set(made, length, plan.test_examples or suite.test_examples, suite.test_seed)
    part = examples.rows(slice(max(1, len(examples) // PART)))
    contestants: dict[tuple[str, str, int | None], Callable[[Examples], object]] = {}
    for name in ENCODINGS:
        contestants[name, OURS, None] = evaluator(Trainee(suite, task, name), length)
    for rival in rivals(suite.model, len(made.vocabulary), made.tokens(length)):
        if rival.generates:
            contestants[rival.encoding, rival.who, None] = generator(rival)
            contestants[rival.encoding, f"{rival.who}, {FEW} at a time", FEW] = few_at_a_time(rival, part)
    times = interleave(contestants, lambda number: examples, plan.evaluation, examples.rows(slice(WARM)))
    whole = len(examples) / len(part)
    return [
        Evaluation(
            task=task, length=length, encoding=name, who=who, batch=batch, examples=len(examples),
            ms=Spread.of(seconds, 1e3 * (whole if batch else 1)),
        )
        for (name, who, batch), seconds in times.items()
    ]  # fmt: skip


def evaluator(trainee: Trainee, length: int) -> Callable[[Examples], object]:
    return lambda examples: trainee.exact_match({length: examples})


def generator(rival: Rival) -> Callable[[Examples], object]:
    return lambda examples: exact_match(rival, examples)


def few_at_a_time(rival: Rival, part: Examples) -> Callable[[Examples], object]:
    """Of these examples, whatever all others are given."""
    starts = range(0, len(part), FEW)
    return lambda examples: [exact_match(rival, part.rows(slice(start, start + FEW))) for start in starts]


def exact_match(rival: Rival, examples: Examples) -> float:
    """Share of examples whose answer and ``<eos>`` greedy decoding writes: these in one batch, prompts padded on the left.

    No more tokens are asked for than the longest answer has, which is what a model that ends its answers would write.
    """
    rival.model.eval()
    prompts, seen = left_padded(examples)
    wanted = answers(examples)
    written = rival.model.generate(  # type: ignore[operator]
        input_ids=prompts, attention_mask=seen, max_new_tokens=wanted.shape[1], do_sample=False, use_cache=True,
        eos_token_id=EOS, pad_token_id=PAD,
    )[:, prompts.shape[1] :]  # fmt: skip
    # After its end a sequence is filled up with padding on both sides; where all ended early there is less of it.
    written = torch.nn.functional.pad(written, (0, wanted.shape[1] - written.shape[1]), value=PAD)
    return float((written == wanted).all(1).float().mean())


def left_padded(examples: Examples) -> tuple[Int[Tensor, "N P"], Int[Tensor, "N P"]]:
    """Everything up to ``<sep>``, and 1 where it is no padding."""
    width = int(examples.answer_start.max())
    column = np.arange(width) - (width - examples.answer_start[:, None])
    prompts = np.where(column >= 0, np.take_along_axis(examples.tokens, np.maximum(column, 0), 1), PAD)
    return torch.from_numpy(prompts), torch.from_numpy((column >= 0).astype(np.int64))


def answers(examples: Examples) -> Int[Tensor, "N A"]:
    """The answer and ``<eos>``, padded on the right."""
    sizes = examples.sizes - examples.answer_start
    column = np.arange(sizes.max())
    at = np.minimum(examples.answer_start[:, None] + column, examples.tokens.shape[1] - 1)
    return torch.from_numpy(np.where(column < sizes[:, None], np.take_along_axis(examples.tokens, at, 1), PAD))
