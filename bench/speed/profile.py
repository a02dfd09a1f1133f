"""Time of a whole run of suite ``small``, by phase."""

from bench.runs.profile_run import profile_run
from bench.runs.run import Run
from bench.suites.suite import load_suite

from .plan import Plan
from .record import Profile
from .timing import log

SUITE, ENCODING = "small", "rope"


def measure_profile(plan: Plan) -> list[Profile]:
    suite = plan.shortened(load_suite(SUITE))
    rows = []
    for task in plan.profile:
        log(f"profile: {task}")
        seconds, steps = profile_run(Run(suite, task, ENCODING, 0), "cpu")
        rows.append(Profile(suite=SUITE, task=task, encoding=ENCODING, steps=steps, seconds=seconds))
    return rows
