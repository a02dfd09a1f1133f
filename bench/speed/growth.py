"""How a training step grows with the number of tokens, for every encoding."""

import math
from collections.abc import Callable

import tasks
from bench import encodings
from bench.suite import load_suite
from tasks import Examples

from .flops import step_flops
from .ours import Trainee
from .plan import Plan
from .record import Growth, Spread
from .timing import interleave

SUITE, TASK = "small", "copying"
MULTIPLES = (1, 2, 5, 10)
"""Of L; the exponent is that between the last two."""


def measure(plan: Plan, say: Callable[[str], None]) -> list[Growth]:
    names = plan.encodings or tuple(encodings.catalogue())
    found = []
    for number, name in enumerate(names, 1):
        say(f"growth: {name} ({number} of {len(names)})")
        found.append(one(name, plan))
    return found


def one(name: str, plan: Plan) -> Growth:
    # The same suite tested up to 10·L: so long an answer is then something the encoding was made for.
    suite = load_suite(SUITE).model_copy(update={"test_at": [float(m) for m in MULTIPLES]})
    trainee = Trainee(suite, TASK, name)
    examples = {m: tasks.test_set(trainee.task, m * trainee.train_length, plan.growth_examples, 0) for m in MULTIPLES}

    def step(batch: Examples) -> Callable[[object], object]:
        return lambda given: trainee.step(batch, batch.tokens.shape[1])

    times = interleave({m: step(batch) for m, batch in examples.items()}, lambda number: None, plan.growth, None)
    ms = {m: Spread.of(seconds, 1e3) for m, seconds in times.items()}
    flops = {
        m: step_flops(suite.model, len(trainee.task.vocabulary), batch.sizes.tolist(), int(batch.targets.sum()))
        for m, batch in examples.items()
    }
    tokens = [batch.tokens.shape[1] for batch in examples.values()]
    before, last = MULTIPLES[-2:]
    stretch = math.log(tokens[-1] / tokens[-2])
    return Growth(
        encoding=trainee.model.encoding.info.name,
        examples=plan.growth_examples,
        tokens=tokens,
        ms=list(ms.values()),
        exponent=math.log(ms[last].median / ms[before].median) / stretch,
        flops_exponent=math.log(flops[last] / flops[before]) / stretch,
    )
