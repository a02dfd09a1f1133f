"""Where a whole run of suite ``small`` spends its time, by phase."""

from collections.abc import Callable

from bench.profiling import profile
from bench.runs import Run
from bench.suite import load_suite

from .plan import Plan
from .record import Profile

SUITE = "small"
ENCODING = "rope"


def measure(plan: Plan, say: Callable[[str], None]) -> list[Profile]:
    suite = load_suite(SUITE)
    if plan.grid_steps:  # a task's own recipe would have the last word
        plain = [spec.model_copy(update={"recipe": {}}) for spec in suite.tasks]
        suite = suite.model_copy(update={"tasks": plain, "recipe": suite.recipe.model_copy(update={"steps": plan.grid_steps})})
    found = []
    for task in plan.profile:
        say(f"profile: {task}")
        seconds, steps = profile(Run(suite, task, ENCODING, 0), "cpu")
        found.append(Profile(suite=SUITE, task=task, encoding=ENCODING, steps=steps, seconds=seconds))
    return found
