"""Numbers: finite in fp32 and bf16, a gradient for every parameter, one device, bounded cost, a training that learns."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.encodings.nope import NoPE
from bench.measure.cost import cost_setup, extra_parameters, measure_costs
from bench.training.model import Decoder, build_decoder, count_parameters
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, forward_backward, train

from .checks import Blocking, Fault, Undecided, encoding_check, place_of
from .contract import wrap_hooks
from .interface import NO_NUMPY, Caller, definition, named_parts
from .subject import Case, Subject, mode

BF16_ERROR = 0.05
"""Maximum relative change of outputs under bf16; positions stored in bf16 change them by far more."""
MAX_STEP_RATIO = 30
"""Step time relative to NoPE."""
STEPS, LENGTH, BATCH = 150, 4, 32
LEARNED = 0.5
"""The loss must fall below this share of ``blind_loss``. NoPE reaches a quarter."""


@encoding_check(
    "numbers",
    expected="outputs and gradients are finite at lengths up to L′, and nearly the same in fp32 and under bf16 autocast",
    advice="compute angles, distances and logarithms in float32 or float64, whatever the dtype of q and k, and bound the "
    "arguments of log, division and exp",
)
def check_numbers(subject: Subject) -> str:
    case, model = subject.main, subject.model()
    train, longest = case.setup.train_tokens, case.setup.longest_tokens
    for bf16 in (False, True):
        for width, announced_length in ((1, train), (2, longest), (train, train), (train, longest), (longest, longest)):
            for training in (True, False):
                where = f"{'bf16' if bf16 else 'fp32'}, {mode(training)}, {width} tokens announced as {announced_length}"
                require_finite(model.train(training), case, width, announced_length, bf16, where)
    for other in subject.cases[1:]:
        width = other.setup.longest_tokens
        require_finite(subject.model(other), other, width, width, False, f"fp32, {other}")
    exact, rounded = (outputs(model.eval(), case, longest, longest, bf16).detach().float() for bf16 in (False, True))
    error = ((exact - rounded).square().mean() / exact.square().mean()).sqrt().item()
    if not error < BF16_ERROR:
        raise Fault(f"bf16 autocast changes outputs at L′ by {error:.0%} of their size, more than {BF16_ERROR:.0%}")
    return f"finite up to {longest} tokens in fp32 and bf16, which differ by {error:.1%}"


def outputs(model: Decoder, case: Case, width: int, announced_length: int, bf16: bool) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        return model(case.sequences(2, width, seed=0), announced_length, torch.Generator().manual_seed(0))


def require_finite(model: Decoder, case: Case, width: int, announced_length: int, bf16: bool, where: str) -> None:
    """Raise ``Blocking``, which begins with ``where``, if an output of two sequences or a gradient is not finite."""
    model.zero_grad(set_to_none=True)
    out = outputs(model, case, width, announced_length, bf16)
    if not out.isfinite().all():
        position = int((~out.isfinite()).any(-1).any(0).nonzero()[0])
        raise Blocking(f"{where}: outputs are not finite, first at position {position}")
    F.cross_entropy(model.logits(out.float()).flatten(0, 1), case.sequences(2, width, seed=1).flatten()).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            raise Blocking(f"{where}: the gradient of {name} is not finite")


@encoding_check(
    "gradients",
    expected="every parameter requires a gradient and receives one from training batches",
    advice="remove unused parameters, and keep tensors that are not learned in buffers (register_buffer)",
)
def check_gradients(subject: Subject) -> str:
    unused: set[str] = set()
    for case in subject.cases[:2]:
        model = subject.model(case).train()
        for step in range(2):
            stage = subject.cls.stage if step else None  # if there is one, the second step belongs to it
            model.in_stage, past = stage is not None, stage is not None and stage.longer
            length = case.setup.longest_length if past else case.setup.train_length
            announced_length = case.setup.longest_tokens if past else case.setup.train_tokens
            batch = tasks.train_batch(case.task, length, 16, 0, step)
            forward_backward(model, batch, announced_length, torch.Generator().manual_seed(step))
        if frozen := sorted(name for name, p in model.named_parameters() if not p.requires_grad):
            raise Fault(f"not trained: {', '.join(frozen[:5])}")
        without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0}
        unused = without if case is subject.main else unused & without
    if unused:
        raise Fault(f"no gradient reaches {', '.join(sorted(unused)[:5])}")
    count = sum(name.startswith("encoding.") for name, _ in model.named_parameters())
    return f"a gradient reaches every parameter; parameter tensors of the encoding: {count or 'none'}"


@encoding_check(
    "devices",
    expected="tensors are created on the device of the tokens, so that the encoding runs on a GPU too",
    advice="pass device=… to torch.arange and the like (at.positions.device, for instance), and keep fixed tables in "
    "register_buffer",
)
def check_devices(subject: Subject) -> str:
    # The meta device computes nothing, but like a GPU it rejects operations on tensors of different devices.
    case = subject.main
    model, tokens = subject.model().to("meta"), case.sequences(2, case.setup.train_tokens, seed=0).to("meta")
    plugin = Caller(subject).plugin

    def on_meta(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        output = run(*arguments)
        if hook != "prepare" and not all(tensor.is_meta for _, tensor in named_parts("", output)):
            raise Fault(f"{definition(plugin, hook)}: `{hook}` returns a tensor on the CPU, wherever its arguments are")
        return output

    wrap_hooks(model.encoding, on_meta)
    for training in (True, False):
        try:
            model.train(training)(tokens, case.setup.longest_tokens)
        except Exception as error:
            where = place_of(error, subject.own_files)
            if re.search("expected device|same device", str(error)):
                raise Fault(f"{where}: {' '.join(str(error).split()):.300}".removeprefix(": ")) from error
            if "to numpy" in str(error):
                raise Fault(f"{where}: converts a tensor to numpy".removeprefix(": "), NO_NUMPY) from error
            if "meta" not in str(error) and not isinstance(error, NotImplementedError):
                raise
            reason = f"{where or 'it'} needs the numbers in a tensor ({type(error).__name__})"
            raise Undecided(f"cannot be decided without a GPU: {reason}") from None
    return "all tensors on one device"


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
    "learning",
    expected=f"in {STEPS} steps of copying up to {LENGTH} symbols, the loss falls below {LEARNED:.0%} of what a model that "
    "ignores the prompt reaches",
    advice="check that attention reaches all earlier positions at the start, and that scores are neither huge nor all equal",
)
def check_learning(subject: Subject) -> str:
    content = subject.suite.model_dump()
    suite = type(subject.suite).model_validate(
        content
        | {
            "model": content["model"] | {"layers": 2},
            "recipe": content["recipe"] | {"steps": STEPS, "batch": BATCH, "warmup_steps": STEPS // 10},
            "tasks": [{"task": "copying", "variant": "repeat", "train_length": LENGTH}],
        }
    )
    case, recipe, state = Case.of_task(suite, "copying"), suite.recipe_for("copying"), TrainingState()
    model = build_decoder(suite.model, subject.cls, case.setup, 0)
    train(model, AdamW(model, recipe), case.task, LENGTH, recipe, 0, state)
    if state.diverged:
        raise Fault(f"the loss is not finite at step {state.step}")
    losses = [loss for step, loss in state.loss if step <= STEPS]  # an extra stage may be on longer sequences
    blind = blind_loss(case.task)
    found = (
        f"the loss went from {losses[0]:.2f} to {losses[-1]:.2f} in {STEPS} steps; {blind:.2f} is reached without the prompt"
    )
    if not losses[-1] < LEARNED * blind:
        raise Fault(found)
    return found


def blind_loss(task: tasks.Task) -> float:
    """Cross-entropy, in nats, of the best prediction from a token's position in the answer, without the prompt."""
    examples = tasks.train_batch(task, LENGTH, 4096, 1, 0)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for row, column in zip(*np.nonzero(examples.targets), strict=True):
        seen[int(column - examples.answer_start[row])][int(examples.tokens[row, column])] += 1
    total = sum(counts.total() for counts in seen.values())
    return -sum(n * math.log(n / counts.total()) for counts in seen.values() for n in counts.values()) / total
