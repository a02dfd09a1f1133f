"""Numbers: finite and nearly the same in every precision, a gradient for every parameter, one device."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import tasks
from bench.plugins.loading import plugin_error
from bench.training.train import forward_backward

from .checks import Fault, check
from .contract import tensors_in, wrap_hooks
from .subject import Subject, hidden_states, rows_differ

BF16_ERROR = 0.05
"""Maximum relative change of outputs under bf16; positions stored in bf16 change them by far more."""


@check(
    "numbers",
    advice="compute angles, distances and logarithms in float32 or float64, whatever the dtype of q and k, and bound the "
    "arguments of log, division and exp",
)
def check_numbers(subject: Subject) -> str:
    """Outputs and gradients are finite at lengths up to L′, and nearly the same in float64 and under bf16 autocast."""
    model, longest = subject.model(), subject.setup.longest_tokens
    model.cacheable = False  # each precision computes what it needs
    for width in (1, 2, subject.setup.train_tokens, longest):
        for bf16 in (False, True):
            tokens, where = subject.sequences(2, width, seed=0), f"{'bf16' if bf16 else 'fp32'}, {width} tokens"
            model.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                output = model.train()(tokens, longest, torch.Generator().manual_seed(0)).float()
            if not output.isfinite().all():
                position = int((~output.isfinite()).any(-1).any(0).nonzero()[0])
                raise Fault(f"{where}: outputs are not finite, first at position {position}")
            F.cross_entropy(model.logits(output).flatten(0, 1), tokens.flatten()).backward()
            for name, parameter in model.named_parameters():
                if parameter.grad is not None and not parameter.grad.isfinite().all():
                    raise Fault(f"{where}: the gradient of {name} is not finite")
    tokens = subject.sequences(2, longest, seed=0)
    exact = hidden_states(model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = hidden_states(model, tokens).float()
    error = ((exact - rounded).square().mean() / exact.square().mean()).sqrt().item()
    if not error < BF16_ERROR:
        raise Fault(f"bf16 autocast changes outputs at L′ by {error:.0%} of their size, more than {BF16_ERROR:.0%}")
    double = hidden_states(model.double(), tokens)
    if double.dtype != torch.float64 or rows_differ(exact, double.float(), 1e-3).any():
        raise Fault("a model in float64 gives other outputs than in float32")
    return f"finite up to {longest} tokens in fp32 and bf16, which differ by {error:.1%}"


@check("gradients", advice="remove unused parameters, and keep tensors that are not learned in buffers (register_buffer)")
def check_gradients(subject: Subject) -> str:
    """Every parameter that requires a gradient receives one from training batches."""
    encoding = subject.model().encoding
    known = {id(parameter) for parameter in encoding.parameters()}
    for name, tensor in (item for module in encoding.modules() for item in tensors_in(vars(module)).items()):
        if isinstance(tensor, nn.Parameter) and id(tensor) not in known:
            raise Fault(f"self.{name} is in no module, so it is not trained", "keep parameters in nn.ParameterList")
    model, setup = subject.model().train(), subject.setup
    for step in range(2):
        stage = subject.cls.stage if step else None  # if there is one, the second step belongs to it
        model.in_stage, past = stage is not None, stage is not None and stage.longer
        length = setup.longest_length if past else setup.train_length
        batch = tasks.train_batch(subject.task, length, 16, 0, step)
        forward_backward(model, batch, subject.task.tokens(length), torch.Generator().manual_seed(step))
    unused = {name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())}
    if unused:
        raise Fault(f"no gradient reaches {', '.join(sorted(unused)[:5])}")
    count = sum(name.startswith("encoding.") for name, _ in model.named_parameters())
    return f"a gradient reaches every parameter; parameter tensors of the encoding: {count or 'none'}"


@check(
    "devices", advice="pass device=at.positions.device to torch.arange and the like, and keep fixed tables in register_buffer"
)
def check_devices(subject: Subject) -> str:
    """Tensors are created on the device of the tokens, so that the encoding runs on a GPU too."""
    # The meta device computes nothing, but like a GPU it rejects operations on tensors of different devices.
    model, tokens = subject.model().to("meta"), subject.sequences(2, subject.setup.train_tokens, seed=0).to("meta")

    def on_meta(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        output = run(*arguments)
        if hook != "prepare" and not all(tensor.is_meta for tensor in tensors_in({hook: output}).values()):
            raise Fault(f"`{hook}` returns a tensor on the CPU, wherever its arguments are")
        return output

    wrap_hooks(model.encoding, on_meta)
    for training in (True, False):
        try:
            model.train(training)(tokens, subject.setup.longest_tokens)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            if re.search("expected device|same device|to numpy", str(error)):
                name, file = subject.cls.info.name, inspect.getfile(subject.cls)
                raise Fault(str(plugin_error(name, error, "raised an error", file))) from error
            return f"cannot be decided without a GPU: it needs the numbers in a tensor ({type(error).__name__})"
    return "all tensors on one device"
