"""Cost of every encoding: its step and evaluation relative to NoPE's, and the growth of its step with the number of tokens."""

import math
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

import tasks
from bench import encodings
from bench.encodings.attention_kernel import FUSED
from bench.measure.cost import measure_costs
from bench.suites.suite import load_suite
from tasks import Examples

from .parts import SUITE, TASK, evaluation_times
from .plan import Plan
from .record import Growth, Spread
from .timing import interleave, log
from .trainee import Trainee

BASE = "nope"
MULTIPLES = (1, 2, 5, 10)
"""Lengths in units of L; the exponent is measured between the last two."""


def measure_growth(plan: Plan) -> list[Growth]:
    names = plan.encodings or tuple(encodings.catalogue())
    rows = []
    for number, name in enumerate(names, 1):
        log(f"growth: {name} ({number} of {len(names)})")
        rows.append(measure_encoding(name, plan))
    return rows


def measure_encoding(name: str, plan: Plan) -> Growth:
    # Test lengths up to 10·L, so that the encoding is built for answers of that length.
    suite = load_suite(SUITE)
    spec = suite.spec(TASK).model_copy(update={"test_at": [float(m) for m in MULTIPLES]})
    suite = suite.model_copy(update={"tasks": [spec]})
    trainee = Trainee(suite, TASK, name)
    batches = [tasks.test_set(trainee.task, m * trainee.train_length, plan.growth_examples, 0) for m in MULTIPLES]
    tokens = [batch.tokens.shape[1] for batch in batches]
    steps = {t: lambda _, batch=batch, t=t: trainee.step(batch, t) for t, batch in zip(tokens, batches, strict=True)}
    times = interleave(steps, lambda number: None, plan.growth, None)
    ms = [Spread.of(times[t], 1e3) for t in tokens]
    flops = [count_flops(trainee, batch) for batch in batches[-2:]]
    evaluations = evaluation_times({BASE: BASE, name: name}, plan.growth)
    stretch = math.log(tokens[-1] / tokens[-2])
    return Growth(
        encoding=trainee.model.encoding.info.name,
        biases="bias" in encodings.hooks(type(trainee.model.encoding)),
        step=measure_costs(type(trainee.model.encoding), (1,))[0].step_ratio,
        evaluation=min(evaluations[name]) / min(evaluations[BASE]),
        examples=plan.growth_examples,
        tokens=tokens,
        ms=ms,
        exponent=math.log(ms[-1].median / ms[-2].median) / stretch,
        flops_exponent=math.log(flops[1] / flops[0]) / stretch,
    )


def count_flops(trainee: Trainee, batch: Examples) -> int:
    """FLOPs of one step, counted by torch: matrix products alone, later keys of attention included."""
    with flop_counter() as counter:
        trainee.step(batch, batch.tokens.shape[1])
    return counter.get_total_flops()


def flop_counter() -> FlopCounterMode:
    """torch's counter, which also counts our linear maps and the CPU's fused attention."""

    def linear(x: Sequence[int], weight: Sequence[int], *rest: object, **more: object) -> int:
        return 2 * math.prod(x) * weight[0]

    def forward(*shapes: Sequence[int], **more: object) -> int:
        return sdpa_flop_count(*shapes[:3])

    def backward(*shapes: Sequence[int], **more: object) -> int:
        return sdpa_backward_flop_count(*shapes[:4])

    formulas = {
        torch.ops.mkldnn._linear_pointwise: linear,
        FUSED: forward,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
    }
    return FlopCounterMode(display=False, custom_mapping=formulas)
