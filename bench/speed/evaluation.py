"""Exact match at L′: our one teacher-forced pass next to greedy ``generate()`` with a KV cache."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

import tasks
from bench.suites.suite import load_suite
from tasks import EOS, PAD, Examples

from .libraries import LibraryModel, library_models
from .plan import Plan
from .record import Evaluation, Spread
from .steps import ENCODINGS, OURS, WARM_UP_EXAMPLES
from .timing import interleave, log
from .trainee import Trainee

SUITE = "small"


def measure_evaluation(plan: Plan) -> list[Evaluation]:
    rows = []
    for task in plan.tasks:
        log(f"evaluation: {SUITE}, {task}")
        rows += time_evaluation(task, plan)
    return rows


def time_evaluation(task: str, plan: Plan) -> list[Evaluation]:
    suite = load_suite(SUITE)
    generator = suite.make_task(task)
    length = generator.longest
    examples = tasks.test_set(generator, length, plan.test_examples or suite.test_examples, suite.test_seed)
    contestants: dict[tuple[str, str], Callable[[Examples], object]] = {}
    for name in ENCODINGS:
        contestants[name, OURS] = Trainee(suite, task, name).exact_match
    for model in library_models(suite.model, len(generator.vocabulary), generator.tokens(length)):
        if model.generates:
            contestants[model.encoding, model.who] = partial(generated_match, model)
    times = interleave(contestants, lambda number: examples, plan.evaluation, examples.rows(slice(WARM_UP_EXAMPLES)))
    return [
        Evaluation(task=task, length=length, encoding=name, who=who, examples=len(examples), ms=Spread.of(seconds, 1e3))
        for (name, who), seconds in times.items()
    ]


def generated_match(model: LibraryModel, examples: Examples) -> float:
    """Share of examples for which greedy decoding generates exactly the answer and ``<eos>``.

    All examples are one batch, with prompts padded on the left. Generates at most as many tokens as the longest answer has.
    """
    model.module.eval()
    prompts, mask = left_padded(examples)
    expected = answers(examples)
    written = model.module.generate(  # type: ignore[operator]
        input_ids=prompts, attention_mask=mask, max_new_tokens=expected.shape[1], do_sample=False, use_cache=True,
        eos_token_id=EOS, pad_token_id=PAD,
    )[:, prompts.shape[1] :]  # fmt: skip
    # Both pad a sequence after its <eos>; if all sequences end early, generate() returns fewer columns.
    written = torch.nn.functional.pad(written, (0, expected.shape[1] - written.shape[1]), value=PAD)
    return float((written == expected).all(1).float().mean())


def left_padded(examples: Examples) -> tuple[Int[Tensor, "N P"], Int[Tensor, "N P"]]:
    """The tokens up to ``<sep>``, and a mask that is 1 where they are not padding."""
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
