"""Numbers that stay numbers up to L′, in fp32 as on a CPU and under bf16 autocast as on a GPU, forward and backward."""

import torch
from torch import Tensor
from torch.nn import functional as F

import tasks

from ..model import Decoder
from ..train import backward
from .subject import Case, Fault, Subject, check, mode

LOST = 0.05
"""Share of a state's size by which bf16 may move it; positions kept in bf16 move it by far more."""


@check(
    "numbers",
    expected="outputs and gradients are finite at lengths up to L′ in fp32 and under bf16 autocast, which give about the same",
    advice="compute angles, distances and logarithms in float32 or float64, whatever the dtype of q and k, and keep what goes "
    "into log, division and exp within bounds",
)
def numbers(subject: Subject) -> str:
    case, model = subject.main, subject.model()
    train, longest = case.setup.train_tokens, case.setup.longest_tokens
    for lowered in (False, True):
        for width, nominal in ((1, train), (2, longest), (train, train), (train, longest), (longest, longest)):
            for training in (True, False):
                where = f"{'bf16' if lowered else 'fp32'}, {mode(training)}, {width} tokens announced as {nominal}"
                finite(model.train(training), case, width, nominal, lowered, where)
    for other in subject.cases[1:]:
        finite(subject.model(other), other, other.setup.longest_tokens, other.setup.longest_tokens, False, f"fp32, {other}")
    exact, lowered_ = (hidden(model.eval(), case, longest, longest, low).detach().float() for low in (False, True))
    off = ((exact - lowered_).square().mean() / exact.square().mean()).sqrt().item()
    if not off < LOST:
        raise Fault(f"bf16 autocast moves outputs at L′ by {off:.0%} of their size, more than {LOST:.0%}")
    return f"finite up to {longest} tokens in fp32 and bf16, which differ by {off:.1%}"


def hidden(model: Decoder, case: Case, width: int, nominal: int, lowered: bool) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
        return model(case.sequences(2, width, seed=0), nominal, torch.Generator().manual_seed(0))


def finite(model: Decoder, case: Case, width: int, nominal: int, lowered: bool, where: str) -> None:
    model.zero_grad(set_to_none=True)
    out = hidden(model, case, width, nominal, lowered)
    if not out.isfinite().all():
        place = int((~out.isfinite()).any(-1).any(0).nonzero()[0])
        raise Fault(f"{where}: outputs are not finite, first at place {place}")
    F.cross_entropy(model.logits(out.float()).flatten(0, 1), case.sequences(2, width, seed=1).flatten()).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            raise Fault(f"{where}: the gradient of {name} is not finite")


@check(
    "gradients",
    expected="every parameter is trained: it receives a gradient from batches of training",
    advice="leave out parameters that nothing uses, and keep what is not to be learned in buffers (register_buffer)",
)
def gradients(subject: Subject) -> str:
    still: set[str] = set()
    names: set[str] = set()
    for case in subject.cases[:2]:
        model = subject.model(case).train()
        length = case.suite.spec(case.task.name).train_length
        for step in range(2):
            backward(
                model,
                tasks.train_batch(case.task, length, 16, 0, step),
                case.setup.train_tokens,
                torch.Generator().manual_seed(step),
            )
        names = {name for name, _ in model.named_parameters()}
        without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0}
        still = without if case is subject.main else still & without
    if still:
        raise Fault(f"no gradient reaches {', '.join(sorted(still)[:5])}")
    if frozen := sorted(name for name, p in model.named_parameters() if not p.requires_grad):
        raise Fault(f"not trained: {', '.join(frozen[:5])}")
    own = sum(name.startswith("encoding.") for name in names)
    return f"a gradient reaches every parameter; tensors of the encoding: {own or 'none'}"
