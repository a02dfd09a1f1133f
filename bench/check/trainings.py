"""Cost of a step, and the training that an encoding declares to share with another."""

from bench.encodings.compose import training_form
from bench.encodings.nope import NoPE
from bench.measure.cost import cost_setup, extra_parameters, measure_costs
from bench.training.model import build_decoder, count_parameters
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train

from .checks import Fault, encoding_check
from .subject import Subject

SHARED_STEPS = 5
"""Steps in which a training that is declared to be another's is compared with it."""
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
    limit = count_parameters(build_decoder(suite.model, NoPE, setup, 0))
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
    "sharing",
    expected=f"an encoding that declares its training to be another's has its losses, bit for bit, in {SHARED_STEPS} steps",
    advice="correct or delete trained_as",
)
def check_shared_training(subject: Subject) -> str:
    form, case = training_form(subject.cls), subject.main
    if form is subject.cls:
        return "shares none"
    length = case.suite.spec(case.task.name).train_length
    recipe = case.suite.recipe.model_copy(update={"steps": SHARED_STEPS, "warmup_steps": 1})
    curves = []
    for cls in (subject.cls, form):
        model, state = build_decoder(case.suite.model, cls, case.setup, 0), TrainingState()
        train(model, AdamW(model, recipe), case.task, length, recipe, 0, state)
        curves.append(state.loss[:SHARED_STEPS])
    if curves[0] != curves[1]:
        raise Fault(f"it says that it is trained as {form.info.name}, but the losses differ")
    return f"trained as {form.info.name}: {SHARED_STEPS} equal losses"
