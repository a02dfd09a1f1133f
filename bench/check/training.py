"""What it costs, and whether it can be trained: two hundred steps of copying, as a run would take them."""

import math
from collections import Counter, defaultdict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import tasks
from tasks import Task

from ..card import cost_setup, costs, extra_parameters
from ..encodings import Setup, get
from ..model import Decoder, build
from ..optimizer import FlatAdamW
from ..suite import Recipe, load_suite
from ..train import State, train
from .state import impression, moved, tables
from .subject import Fault, Subject, check

SUITE, LAYERS = "small", 2
"""Whose model is trained, with fewer layers."""
STEPS, BATCH, LENGTH, LONGEST = 200, 32, 4, 8
LEARNED = 0.5
"""Share of the loss of one who cannot see the prompt, under which it must fall. NoPE comes to 0.14."""
SLOWEST = 30
"""Times a step of NoPE's that a step may take."""


@check(
    "cost",
    expected=f"no more parameters than the model itself, and steps of at most {SLOWEST} times the length of NoPE's, up to 4 L",
    advice="make what hangs on position ids in `prepare`, once a pass, and put tensor operations in place of loops over places",
)
def cost(subject: Subject) -> str:
    own = extra_parameters(subject.cls)
    suite, setup = cost_setup()
    whole = sum(p.numel() for p in build(suite.model, get("nope"), setup, 0).parameters())
    if own > whole:
        raise Fault(f"{own:,} parameters, more than the model's {whole:,}", "share parameters over layers, heads or positions")
    rows = costs(subject.cls, rounds=3)
    worst = max(rows, key=lambda row: row.step_ratio)
    if worst.step_ratio > SLOWEST:
        raise Fault(f"a step at {worst.length} tokens takes {worst.step_ratio:.0f} times as long as NoPE's")
    times, memory, lengths = (
        ", ".join(texts)
        for texts in zip(*((f"{r.step_ratio:.2f}", f"{r.peak_ratio:.2f}", str(r.length)) for r in rows), strict=True)
    )
    beside = f"steps take {times} and memory {memory} times NoPE's at {lengths} tokens"
    return f"{own:,} parameters beside the model's {whole:,}; {beside}"


@check(
    "learning",
    expected=f"{STEPS} steps of copying up to {LENGTH} symbols run, only the optimizer moves weights, and the loss falls under "
    f"{LEARNED:.0%} of what it is without a look at the prompt",
    advice="see that attention reaches all earlier places at the start, and that scores are neither huge nor all alike",
)
def learning(subject: Subject) -> str:
    task = tasks.get("copying", "repeat", LONGEST)
    model, recipe = small_model(subject, task), short_recipe()
    optimizer, state = Guarded(model, recipe), State()
    train(model, optimizer, task, LENGTH, recipe, 0, state)
    if state.diverged:
        raise Fault(f"the loss stopped being finite at step {state.step}")
    # A further stage has longer lengths, and its few steps at the end say nothing about whether it learns.
    losses = [loss for step, loss in state.loss if step <= recipe.steps]
    first, last, blind = losses[0], losses[-1], blind_loss(task)
    if not last < LEARNED * blind:
        raise Fault(
            f"the loss went from {first:.2f} to {last:.2f} in {STEPS} steps; without a look at the prompt it is {blind:.2f}"
        )
    return f"the loss fell from {first:.2f} to {last:.2f} in {STEPS} steps; without a look at the prompt it is {blind:.2f}"


def small_model(subject: Subject, task: Task) -> Decoder:
    spec = load_suite(SUITE).model.model_copy(update={"layers": LAYERS})
    setup = Setup(
        spec.layers, spec.width, spec.heads, spec.width // spec.heads, task.tokens(LENGTH), task.tokens(LONGEST),
        task.vocabulary.symbols, task.vocabulary.roles,
    )  # fmt: skip
    return build(spec, subject.cls, setup, 0)


def short_recipe() -> Recipe:
    changes = {"steps": STEPS, "batch": BATCH, "warmup_steps": STEPS // 10}
    return load_suite(SUITE).recipe.model_copy(update=changes)


class Guarded(FlatAdamW):
    """Sees to it that between one of its steps and the next nobody else changes weights or its own state."""

    def __init__(self, model: Decoder, recipe: Recipe):
        super().__init__(model, recipe)
        self.model = model

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        self.before = tables(self.model), self.own()

    def clip(self, max_norm: float) -> Float[Tensor, ""]:
        weights, own = self.before
        if changed := moved(weights, tables(self.model)):
            raise Fault(f"a pass changes the model's {', '.join(sorted(changed)[:5])}", "leave weights to the optimizer")
        if own != self.own():
            raise Fault("a pass changes the optimizer's state", "leave the optimizer to training")
        return super().clip(max_norm)

    def own(self) -> str:
        """Everything it keeps, gradients aside."""
        kept = {name: self.state.get(vector, {}) for name, vector in self.vectors.items()}
        settings = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        return impression([kept, settings, [torch.is_tensor(v) and v.requires_grad for v in self.vectors.values()]])


def blind_loss(task: Task) -> float:
    """Cross-entropy, in nats, of one who knows where in the answer a token stands, but not the prompt."""
    examples = tasks.train_batch(task, LENGTH, 4096, 1, 0)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for row, column in zip(*np.nonzero(examples.targets), strict=True):
        seen[int(column - examples.answer_start[row])][int(examples.tokens[row, column])] += 1
    total = sum(counts.total() for counts in seen.values())
    return -sum(n * math.log(n / counts.total()) for counts in seen.values() for n in counts.values()) / total
