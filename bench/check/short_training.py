"""Cost and trainability: two hundred steps of copying with the harness's training loop."""

import math
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import tasks
from bench.encodings.compose import training_form
from bench.encodings.nope import NoPE
from bench.measure.cost import cost_setup, extra_parameters, measure_costs
from bench.suites.suite import Recipe, load_suite
from bench.training.model import Decoder, build_decoder
from bench.training.optimizer import FlatAdamW
from bench.training.train import TrainingState, train
from tasks import Task

from .checks import Fault, encoding_check
from .statefulness import changed_tensors, describe_content, model_tensors
from .subject import Subject

SUITE, LAYERS = "small", 2
"""Suite of the model to train, and its reduced number of layers."""
STEPS, BATCH, LENGTH, LONGEST = 200, 32, 4, 8
SHARED_STEPS = 5
"""Steps in which a training that is declared to be another's is compared with it."""
LEARNED = 0.5
"""The loss must fall below this share of ``blind_loss``. NoPE reaches 0.14."""
MAX_STEP_RATIO = 30
"""Step time relative to NoPE."""


@encoding_check(
    "cost",
    expected=f"no more parameters than the model itself, and steps at most {MAX_STEP_RATIO} times as long as NoPE's, up to 4 L",
    advice="compute what depends on position ids in `prepare`, once per pass, and replace loops over positions by tensor "
    "operations",
)
def check_cost(subject: Subject) -> str:
    count = extra_parameters(subject.cls)
    suite, setup = cost_setup()
    limit = sum(p.numel() for p in build_decoder(suite.model, NoPE, setup, 0).parameters())
    if count > limit:
        raise Fault(
            f"{count:,} parameters, more than the model's {limit:,}", "share parameters over layers, heads or positions"
        )
    rows = measure_costs(subject.cls, rounds=3)
    worst = max(rows, key=lambda row: row.step_ratio)
    if worst.step_ratio > MAX_STEP_RATIO:
        raise Fault(f"a step at {worst.length} tokens takes {worst.step_ratio:.0f} times as long as NoPE's")
    times, memory, lengths = (
        ", ".join(texts)
        for texts in zip(*((f"{r.step_ratio:.2f}", f"{r.peak_ratio:.2f}", str(r.length)) for r in rows), strict=True)
    )
    return f"{count:,} parameters, the model {limit:,}; step time {times} and memory {memory} times NoPE's at {lengths} tokens"


@encoding_check(
    "learning",
    expected=f"in {STEPS} steps of copying up to {LENGTH} symbols, only the optimizer changes weights, and the loss falls "
    f"below {LEARNED:.0%} of what a model that ignores the prompt reaches",
    advice="check that attention reaches all earlier positions at the start, and that scores are neither huge nor all equal",
)
def check_learning(subject: Subject) -> str:
    task, suite = tasks.get("copying", "repeat", LONGEST), load_suite(SUITE)
    train_tokens, longest_tokens = task.tokens(LENGTH), task.tokens(LONGEST)
    setup = replace(cost_setup()[1], layers=LAYERS, train_tokens=train_tokens, longest_tokens=longest_tokens)
    spec = suite.model.model_copy(update={"layers": LAYERS})
    model = build_decoder(spec, subject.cls, setup, 0)
    recipe = suite.recipe.model_copy(update={"steps": STEPS, "batch": BATCH, "warmup_steps": STEPS // 10})
    optimizer, state = GuardedAdamW(model, recipe), TrainingState()
    train(model, optimizer, task, LENGTH, recipe, 0, state)
    if state.diverged:
        raise Fault(f"the loss is not finite at step {state.step}")
    # Losses of an extra stage do not count: they may be on longer sequences.
    losses = [loss for step, loss in state.loss if step <= recipe.steps]
    first, last, blind = losses[0], losses[-1], blind_loss(task)
    outcome = f"the loss went from {first:.2f} to {last:.2f} in {STEPS} steps; {blind:.2f} is reached without the prompt"
    if not last < LEARNED * blind:
        raise Fault(outcome)
    form = training_form(subject.cls)
    if form is subject.cls:
        return outcome
    first_steps = recipe.model_copy(update={"steps": SHARED_STEPS})
    curves = []
    for cls in (subject.cls, form):
        model, state = build_decoder(spec, cls, setup, 0), TrainingState()
        train(model, FlatAdamW(model, first_steps), task, LENGTH, first_steps, 0, state)
        curves.append(state.loss[:SHARED_STEPS])
    if curves[0] != curves[1]:
        raise Fault(f"it says that it is trained as {form.info.name}, but the losses differ", "correct or delete trained_as")
    return f"{outcome}; trained as {form.info.name}: {SHARED_STEPS} equal losses"


class GuardedAdamW(FlatAdamW):
    """Raises ``Fault`` if weights or the optimizer's state change between two steps."""

    def __init__(self, model: Decoder, recipe: Recipe):
        super().__init__(model, recipe)
        self.model = model

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        self.before = model_tensors(self.model), self.describe_state()

    def clip(self, max_norm: float) -> Float[Tensor, ""]:
        weights, state = self.before
        if changed := changed_tensors(weights, model_tensors(self.model)):
            raise Fault(f"a pass changes the model's {', '.join(changed[:5])}", "leave weights to the optimizer")
        if state != self.describe_state():
            raise Fault("a pass changes the optimizer's state", "leave the optimizer to training")
        return super().clip(max_norm)

    def describe_state(self) -> str:
        """Describe the optimizer's state and settings, without gradients."""
        moments = {name: self.state.get(vector, {}) for name, vector in self.vectors.items()}
        settings = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        return describe_content([moments, settings, [torch.is_tensor(v) and v.requires_grad for v in self.vectors.values()]])


def blind_loss(task: Task) -> float:
    """Cross-entropy, in nats, of the best prediction from a token's position in the answer, without the prompt."""
    examples = tasks.train_batch(task, LENGTH, 4096, 1, 0)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for row, column in zip(*np.nonzero(examples.targets), strict=True):
        seen[int(column - examples.answer_start[row])][int(examples.tokens[row, column])] += 1
    total = sum(counts.total() for counts in seen.values())
    return -sum(n * math.log(n / counts.total()) for counts in seen.values() for n in counts.values()) / total
