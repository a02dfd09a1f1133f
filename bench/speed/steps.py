"""Training steps: ours, the libraries' and the machine's limit, on the very same examples."""

from collections.abc import Callable

import numpy as np

from bench.suite import Suite, load_suite
from tasks import Examples

from .flops import Product, products, step_flops
from .ours import Trainee, training_batch
from .plan import StepPlan
from .record import Bound, Loop, Spread, Step
from .rivals import Training, rivals
from .timing import interleave

ENCODINGS = ("nope", "learned", "rope", "alibi", "t5")
OURS = "lprime"
WARM = 4
"""Examples of the untimed step."""
LOOP_STEPS = 33


def measure(plan: StepPlan, say: Callable[[str], None]) -> tuple[list[Step], list[Bound], list[Loop]]:
    """All tasks of one suite's plan."""
    suite = load_suite(plan.suite)
    steps: list[Step] = []
    bounds: list[Bound] = []
    loops: list[Loop] = []
    for task in plan.tasks:
        say(f"training steps: {suite.name}, {task}")
        found, bound = one_task(suite, task, plan)
        steps += found
        bounds.append(bound)
        if plan.examples is None:
            seconds = Trainee(suite, task, ENCODINGS[0]).loop(LOOP_STEPS)
            loops.append(Loop(suite=suite.name, task=task, encoding=ENCODINGS[0], ms=Spread.of(seconds, 1e3)))
    return steps, bounds, loops


def one_task(suite: Suite, task: str, plan: StepPlan) -> tuple[list[Step], Bound]:
    recipe, made = suite.recipe_for(task), suite.make_task(task)
    size = plan.examples or recipe.batch
    symbols = len(made.vocabulary)
    batches: list[Examples] = []

    def batch(number: int) -> Examples:
        batches.append(training_batch(suite, task, size, number))
        return batches[-1]

    ours = {name: Trainee(suite, task, name) for name in ENCODINGS}
    theirs = {(r.encoding, r.who): r for r in rivals(suite.model, symbols, made.tokens(made.longest))}
    typical = training_batch(suite, task, size, 0)
    multiplied = products(suite.model, symbols, int(typical.sizes.sum()), int(typical.targets.sum()))
    contestants: dict[tuple[str, str] | int, Callable[[Examples], object]] = {}
    contestants |= {(name, OURS): trainee.step for name, trainee in ours.items()}
    contestants |= {key: Training(rival, recipe).step for key, rival in theirs.items()}
    contestants |= {number: product.run for number, product in enumerate(multiplied)}
    times = interleave(contestants, batch, plan.budget, typical.rows(slice(WARM)))

    counts = {(name, OURS): trainee.parameters for name, trainee in ours.items()}
    counts |= {key: rival.parameters for key, rival in theirs.items()}
    steps = [
        Step(suite=suite.name, task=task, encoding=key[0], who=key[1], parameters=count, ms=Spread.of(times[key], 1e3))
        for key, count in counts.items()
    ]
    rates = [(p.rate(float(np.median(times[number]))), p) for number, p in enumerate(multiplied)]
    return steps, bound_of(suite, task, batches, rates, {name: times[name, OURS] for name in ENCODINGS})


def bound_of(
    suite: Suite, task: str, batches: list[Examples], rates: list[tuple[float, Product]], ours: dict[str, list[float]]
) -> Bound:
    """The limit that the best rate sets, and how near our steps come to it."""
    symbols = len(suite.make_task(task).vocabulary)
    whole, needed = [], []
    for examples in batches:
        sizes, answers = examples.sizes.tolist(), int(examples.targets.sum())
        whole.append(step_flops(suite.model, symbols, sizes, answers))
        needed.append(step_flops(suite.model, symbols, sizes, answers, last_rows=answers))
    best, product = max(rates, key=lambda pair: pair[0])
    work = [p.flops * p.count for _, p in rates]
    return Bound(
        suite=suite.name,
        task=task,
        examples=len(batches[0]),
        tokens=float(np.mean([b.sizes.sum() for b in batches])),
        padded_tokens=float(np.mean([b.tokens.size for b in batches])),
        gflop=float(np.mean(whole)) / 1e9,
        gflop_needed=float(np.mean(needed)) / 1e9,
        gflops=best,
        best=product.name,
        gflops_mixed=sum(work) / sum(w / rate for w, (rate, _) in zip(work, rates, strict=True)),
        rates={p.name: rate for rate, p in rates},
        shares={
            name: float(np.median([f / 1e9 / best / t for f, t in zip(whole, times, strict=True)]))
            for name, times in ours.items()
        },
    )
