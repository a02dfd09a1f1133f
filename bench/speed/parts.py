"""What parts of attention cost an evaluation, one at a time: the least that a bias computed from content costs."""

import tasks
from bench.encodings.attention import masked_softmax, scores
from bench.encodings.base import Encoding, Info
from bench.suites.suite import load_suite

from .plan import Budget, Plan
from .record import Part
from .timing import interleave, log
from .trainee import Trainee

SUITE, TASK = "small", "copying"
EVALUATED = 64


def info(name: str) -> Info:
    link = "https://github.com/pytorch/pytorch"
    return Info(name, "none", title=name, authors="none", year=2026, link=link, formula="–", past="–", provenance="–")


class ProductBias(Encoding):
    info = info("product_bias")

    def bias(self, q, k, at):
        return q @ k.mT


class SigmoidBias(Encoding):
    info = info("sigmoid_bias")

    def bias(self, q, k, at):
        return (q @ k.mT).sigmoid()


class WrittenSoftmax(Encoding):
    info = info("written_softmax")

    def attend(self, q, k, v, bias, at):
        return masked_softmax(scores(q, k, self.setup), bias, at) @ v


PARTS = {
    "a product for every pair, as a bias": ProductBias,
    "that and a sigmoid": SigmoidBias,
    "softmax of scores for every pair, without the fused kernel": WrittenSoftmax,
}


def evaluation_times(names: dict[str, str], budget: Budget) -> dict[str, list[float]]:
    """Seconds of the evaluation of ``EVALUATED`` examples at L′, of encodings that take turns.

    Arguments:
        names: what to call an encoding → its name.
    """
    suite = load_suite(SUITE)
    trainees = {who: Trainee(suite, TASK, name) for who, name in names.items()}
    task = next(iter(trainees.values())).task
    test = tasks.test_set(task, task.longest, EVALUATED, suite.test_seed)
    return interleave({who: t.exact_match for who, t in trainees.items()}, lambda number: test, budget, test)


def measure_parts(plan: Plan) -> list[Part]:
    log("parts")
    names = {"nope": "nope", **{what: f"{__name__}:{cls.__name__}" for what, cls in PARTS.items()}}
    times = evaluation_times(names, plan.evaluation)
    return [Part(what=what, evaluation=min(times[what]) / min(times["nope"])) for what in PARTS]
