"""Outputs and gradients must be finite up to L′, in fp32 as on a CPU and under bf16 autocast as on a GPU."""

import torch
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.training.model import Decoder
from bench.training.train import forward_backward

from .checks import Blocking, Fault, encoding_check
from .subject import Case, Subject, mode

BF16_ERROR = 0.05
"""Maximum relative change of outputs under bf16; positions stored in bf16 change them by far more."""


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
