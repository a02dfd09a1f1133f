"""Hook contract: hooks must not modify their arguments, and may use the number of tokens but not the tokens themselves."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor

import tasks
from bench.encodings import HOOKS, At, Encoding
from bench.training.model import Decoder

from .checks import Fault, encoding_check
from .statefulness import changed_tensors, model_tensors
from .subject import Case, Subject, hidden_states, mode, rows_differ

GUARDED_MODULES = (
    "bench.encodings.base", "bench.encodings.attention_kernel", "bench.result", "bench.runs.run_one", "bench.training.batches",
    "bench.training.evaluate", "bench.training.layout", "bench.training.model", "bench.training.optimizer",
    "bench.training.train", "tasks.base", "tasks.splits", "torch.nn.functional",
)  # fmt: skip
"""A plugin must not replace functions or methods of these modules."""
CONTENT_FREE = {
    "shape", "device", "dtype", "ndim", "layout", "is_cuda", "is_meta", "size", "dim", "numel", "__len__", "ndimension",
    "stride", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_tensor", "expand_as", "view_as", "get_device", "is_contiguous", "element_size",
    "requires_grad",
}  # fmt: skip
"""Operations that do not read the numbers of a tensor."""


@encoding_check(
    "mutation",
    expected="hooks change none of their arguments in place, nor weights, the optimizer or the harness",
    advice="create new tensors instead of writing into q, k, v, x, h, ids, bias or at.shared (no x += …, x.mul_(), x[…] = …), "
    "and leave weights to training",
)
def check_mutation(subject: Subject) -> str:
    model, case = subject.model(), subject.main
    writes: list[str] = []
    calls = guard_hooks(model.encoding, writes)
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            tokens = case.sequences(4, width, seed=0)
            before, original = model_tensors(model), tokens.clone()
            model.train(training)
            with torch.inference_mode(not training):
                output = model(tokens, width, torch.Generator().manual_seed(0))
            if training:
                output.square().mean().backward()
            if writes:
                raise Fault(f"{mode(training)}: {', '.join(dict.fromkeys(writes))}")
            if changed := changed_tensors(before, model_tensors(model)):
                raise Fault(f"{mode(training)}: a pass changes the model's {', '.join(changed[:5])}")
            if not torch.equal(tokens, original):
                raise Fault(f"{mode(training)}: a pass changes its tokens")
    if subject.harness is not None:
        now = harness_functions()
        if replaced := [name for name, identity in subject.harness.items() if now.get(name) != identity]:
            raise Fault(f"the plugin replaces {', '.join(replaced[:5])}", "leave the harness and torch as they are")
    return f"no argument changed in {len(calls)} calls of hooks, and none of the model's {len(model_tensors(model))} tensors"


def guard_hooks(encoding: Encoding, writes: list[str]) -> list[str]:
    """Wrap the hooks of one instance. ``writes`` collects changes of arguments; the returned list collects calls."""
    calls: list[str] = []

    def guarded(hook: str, run: Callable) -> Callable:
        @wraps(run)
        def call(*arguments: Any) -> Any:
            given: dict[str, Tensor] = {}
            arguments = tuple(collect_tensors(a, given) if isinstance(a, At) else a for a in arguments)
            names = ("q", "k", "v", "bias") if len(arguments) > 2 else ("tokens or x",)
            for name, value in zip(names, arguments, strict=False):
                given |= dict(named_tensors(name, value))
            before = {name: tensor.detach().clone() for name, tensor in given.items()}
            result = run(*arguments)
            calls.append(hook)
            changed = [name for name, tensor in before.items() if not torch.equal(tensor, given[name])]
            writes.extend(f"`{hook}` writes into {name}" for name in changed)
            return result

        return call

    for hook in HOOKS:
        setattr(encoding, hook, guarded(hook, getattr(encoding, hook)))
    return calls


def collect_tensors(at: At, given: dict[str, Tensor]) -> At:
    """``at``, with all tensors it refers to added to ``given``."""
    given |= dict(named_tensors("at.ids", at.ids)) | dict(named_tensors("at.shared", at.shared))
    if at.source is None:
        return at
    h = at.source()
    given["at.h"] = h
    return replace(at, source=lambda: h)


def named_tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors inside a value, each with an expression for it."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for n, part in enumerate(value):
            yield from named_tensors(f"{name}[{n}]", part)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from named_tensors(f"{name}[{key!r}]", part)


def harness_functions() -> dict[str, int]:
    """Identities of all functions and methods of ``GUARDED_MODULES``."""
    identities = {}
    for module in GUARDED_MODULES:
        for key, value in vars(importlib.import_module(module)).items():
            if callable(value):
                identities[f"{module}.{key}"] = id(value)
            if isinstance(value, type) and value.__module__ == module:
                methods = {name: member for name, member in vars(value).items() if callable(member)}
                identities |= {f"{module}.{key}.{name}": id(member) for name, member in methods.items()}
    return identities


# --- tokens


class RecordingTokens(Tensor):
    """Tokens that record each operation that reads their content."""

    operations: list[str]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        recorders: list[RecordingTokens] = []

        def unwrap(value: Any) -> Any:
            if isinstance(value, RecordingTokens):
                recorders.append(value)
                return value.as_subclass(Tensor)
            if isinstance(value, (list, tuple)):
                return type(value)(map(unwrap, value))
            return value

        with torch._C.DisableTorchFunctionSubclass():
            arguments = unwrap(tuple(arguments))
            keywords = {key: unwrap(value) for key, value in (keywords or {}).items()}
            name = getattr(function, "__name__", str(function))
            if name == "__get__":  # of a property
                name = getattr(getattr(function, "__self__", None), "__name__", name)
            if name not in CONTENT_FREE:
                for tokens in recorders:
                    tokens.operations.append(name)
            return function(*arguments, **keywords)


@encoding_check(
    "tokens",
    expected="an encoding that uses what tokens are, or what they mean, declares ranking='task-aware'",
    advice="use only tokens.shape and tokens.device, and neither setup.symbols nor setup.roles; or declare "
    "ranking='task-aware' in info, which has a table of its own on the board",
)
def check_tokens(subject: Subject) -> str:
    uses = list(dict.fromkeys([*token_uses(subject), *vocabulary_uses(subject)]))
    if uses and subject.cls.info.ranking != "task-aware":
        raise Fault("; ".join(uses[:4]) + f"; but info says ranking={subject.cls.info.ranking!r}")
    return "; ".join(uses[:4]) + ", as declared" if uses else "position ids depend only on the number of tokens"


def token_uses(subject: Subject) -> Iterator[str]:
    for case in subject.cases:
        model = subject.model(case)
        for training in (True, False):
            for width in (case.setup.train_tokens, case.setup.longest_tokens):
                if ids_differ(model, case, width, training):
                    yield "`positions` gives other ids for other tokens"
        if operations := token_operations(model, case):
            yield f"computes with the tokens it is given ({', '.join(dict.fromkeys(operations))})"


def ids_differ(model: Decoder, case: Case, width: int, training: bool) -> bool:
    model.train(training)
    rows = [case.sequences(4, width, seed=n) for n in range(3)]
    # Also batches of real examples only: a plugin that solves the task may first test whether the tokens are examples.
    batches = [part for batch in rows for part in (batch[::2], batch[1::2])] + [torch.full((2, width), tasks.BOS)]
    with torch.inference_mode(not training):
        ids = [model.encoding.positions(tokens, At(width, generator=torch.Generator().manual_seed(0))) for tokens in batches]
    return any(ids[0].shape != other.shape or not torch.equal(ids[0], other) for other in ids[1:])


def token_operations(model: Decoder, case: Case) -> list[str]:
    """Operations on the tokens passed to ``positions``, there or, if they were stored, later."""
    operations: list[str] = []
    original = model.encoding.positions

    def positions(tokens: Tensor, at: At) -> Tensor:
        recorder = tokens.as_subclass(RecordingTokens)
        recorder.operations = operations
        ids = original(recorder, at)
        return ids.as_subclass(Tensor) if isinstance(ids, RecordingTokens) else ids

    model.encoding.positions = positions  # type: ignore[method-assign]
    model.cacheable = False  # otherwise ids cached by shape would not be recomputed
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            hidden_states(model, case.sequences(3, width, seed=0), training=training)
    return operations


def vocabulary_uses(subject: Subject) -> Iterator[str]:
    for case in subject.cases:
        symbols, roles = case.setup.symbols, case.setup.roles
        changed_setups = {
            "symbols": replace(case.setup, symbols=tuple(f"s{n}" for n in range(len(symbols)))),
            "roles": replace(case.setup, roles=roles[::-1]),
        }
        tokens = case.sequences(4, case.setup.longest_tokens, seed=0)
        for key, setup in changed_setups.items():
            models = subject.model(case), subject.model(replace(case, setup=setup))
            same = models[0].state_dict().keys() == models[1].state_dict().keys()
            for training in (True, False):
                one, other = (hidden_states(model, tokens, training=training) for model in models)
                if not same or rows_differ(one, other).any():
                    yield f"depends on setup.{key}"
                    break
