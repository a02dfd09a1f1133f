"""What a hook may touch: it reads what it is given, and changes none of it; of tokens, it may know how many there are."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor

import tasks

from ..encodings import HOOKS, At, Encoding
from ..model import Decoder
from .state import moved, tables
from .subject import Fault, Subject, check, differs, mode, states

WATCHED = (
    "bench.batches", "bench.encodings.base", "bench.encodings.kernel", "bench.evaluate", "bench.layout", "bench.model",
    "bench.optimizer", "bench.results", "bench.train", "bench.work", "tasks.base", "tasks.splits", "torch.nn.functional",
)  # fmt: skip
"""Modules whose functions, and whose classes' methods, a plugin must leave as they are."""
FREE = {
    "shape", "device", "dtype", "ndim", "layout", "is_cuda", "is_meta", "size", "dim", "numel", "__len__", "ndimension",
    "stride", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_tensor", "expand_as", "view_as", "get_device", "is_contiguous", "element_size",
    "requires_grad",
}  # fmt: skip
"""What asks a tensor for its form alone."""


@check(
    "mutation",
    expected="hooks change nothing they are given in place, nor weights, optimizer or the harness",
    advice="make new tensors instead of writing into q, k, v, x, h, ids, bias or at.shared (no x += …, x.mul_(), x[…] = …), "
    "and leave weights to training",
)
def mutation(subject: Subject) -> str:
    model, case = subject.model(), subject.main
    spoiled: list[str] = []
    calls = guard(model.encoding, spoiled)
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            tokens = case.sequences(4, width, seed=0)
            before, given = tables(model), tokens.clone()
            model.train(training)
            with torch.inference_mode(not training):
                out = model(tokens, width, torch.Generator().manual_seed(0))
            if training:
                out.square().mean().backward()
            if spoiled:
                raise Fault(f"{mode(training)}: {', '.join(dict.fromkeys(spoiled))}")
            if changed := moved(before, tables(model)):
                raise Fault(f"{mode(training)}: a pass changes the model's {', '.join(sorted(changed)[:5])}")
            if not torch.equal(tokens, given):
                raise Fault(f"{mode(training)}: a pass changes its tokens")
    if subject.harness is not None and (changed := replaced(subject.harness)):
        raise Fault(f"the plugin replaces {', '.join(changed[:5])}", "leave the harness and torch as they are")
    return f"inputs as they were after {len(calls)} calls of hooks, and all {len(tables(model))} tensors of the model"


def guard(encoding: Encoding, spoiled: list[str]) -> list[str]:
    """Have every hook of one instance looked after; ``spoiled`` gains what it changes. Returns the calls so far."""
    calls: list[str] = []

    def watched(hook: str, run: Callable) -> Callable:
        @wraps(run)
        def call(*arguments: Any) -> Any:
            given: dict[str, Tensor] = {}
            arguments = tuple(opened(a, given) if isinstance(a, At) else a for a in arguments)
            for name, value in zip(
                ("q", "k", "v", "bias") if len(arguments) > 2 else ("tokens or x",), arguments, strict=False
            ):
                given |= dict(tensors(name, value))
            before = {name: tensor.detach().clone() for name, tensor in given.items()}
            result = run(*arguments)
            calls.append(hook)
            changed = [name for name, tensor in before.items() if not torch.equal(tensor, given[name])]
            spoiled.extend(f"`{hook}` writes into {name}" for name in changed)
            return result

        return call

    for hook in HOOKS:
        setattr(encoding, hook, watched(hook, getattr(encoding, hook)))
    return calls


def opened(at: At, given: dict[str, Tensor]) -> At:
    """``at`` with all that hangs on it in ``given``."""
    given |= dict(tensors("at.ids", at.ids)) | dict(tensors("at.shared", at.shared))
    if at.source is None:
        return at
    h = at.source()
    given["at.h"] = h
    return replace(at, source=lambda: h)


def tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a value, by where they are."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for n, part in enumerate(value):
            yield from tensors(f"{name}[{n}]", part)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from tensors(f"{name}[{key!r}]", part)


def harness() -> dict[str, int]:
    """Everything in the harness that a plugin could put something else in place of, by identity."""
    found = {}
    for module in WATCHED:
        for key, value in vars(importlib.import_module(module)).items():
            if callable(value):
                found[f"{module}.{key}"] = id(value)
            if isinstance(value, type) and value.__module__ == module:
                found |= {f"{module}.{key}.{name}": id(member) for name, member in vars(value).items() if callable(member)}
    return found


def replaced(before: Mapping[str, int]) -> list[str]:
    now = harness()
    return [name for name, identity in before.items() if now.get(name) != identity]


# --- tokens


class Spy(Tensor):
    """Tokens that tell what they were asked for, beyond their form."""

    asked: list[str]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        spies: list[Spy] = []

        def bare(value: Any) -> Any:
            if isinstance(value, Spy):
                spies.append(value)
                return value.as_subclass(Tensor)
            if isinstance(value, (list, tuple)):
                return type(value)(map(bare, value))
            return value

        with torch._C.DisableTorchFunctionSubclass():
            arguments = bare(tuple(arguments))
            keywords = {key: bare(value) for key, value in (keywords or {}).items()}
            name = getattr(function, "__name__", str(function))
            if name == "__get__":  # of a property
                name = getattr(getattr(function, "__self__", None), "__name__", name)
            if name not in FREE:
                for spy in spies:
                    spy.asked.append(name)
            return function(*arguments, **keywords)


@check(
    "tokens",
    expected="whoever looks at what tokens are, or what they mean, says so: ranking task-aware",
    advice="use no more of tokens than tokens.shape and tokens.device, and neither setup.symbols nor setup.roles; or declare "
    "ranking='task-aware' in info, which is a table of its own on the board",
)
def tokens(subject: Subject) -> str:
    seen = list(dict.fromkeys([*looks_at_tokens(subject), *looks_at_meaning(subject)]))
    if seen and subject.cls.info.ranking != "task-aware":
        raise Fault("; ".join(seen[:4]) + f"; but info says ranking={subject.cls.info.ranking!r}")
    return "; ".join(seen[:4]) + ", as declared" if seen else "position ids hang on the number of tokens alone"


def looks_at_tokens(subject: Subject) -> Iterator[str]:
    for case in subject.cases:
        model = subject.model(case)
        for training in (True, False):
            for width in (case.setup.train_tokens, case.setup.longest_tokens):
                if ids_differ(model, case, width, training):
                    yield "`positions` gives other ids for other tokens"
        yield from spied(model, case)


def ids_differ(model: Decoder, case, width: int, training: bool) -> bool:
    model.train(training)
    rows = [case.sequences(4, width, seed=n) for n in range(3)]
    # Real examples by themselves too: whoever solves them may look whether they are.
    batches = [part for whole in rows for part in (whole[::2], whole[1::2])] + [torch.full((2, width), tasks.BOS)]
    with torch.inference_mode(not training):
        ids = [model.encoding.positions(tokens, At(width, generator=torch.Generator().manual_seed(0))) for tokens in batches]
    return any(ids[0].shape != other.shape or not torch.equal(ids[0], other) for other in ids[1:])


def spied(model: Decoder, case) -> Iterator[str]:
    """A whole pass in which tokens tell who asks for them: in ``positions``, or later if they were kept."""
    asked: list[str] = []
    given = model.encoding.positions

    def positions(plain: Tensor, at: At) -> Tensor:
        spy = plain.as_subclass(Spy)
        spy.asked = asked
        ids = given(spy, at)
        return ids.as_subclass(Tensor) if isinstance(ids, Spy) else ids

    model.encoding.positions = positions  # type: ignore[method-assign, assignment]
    model.fixed = False  # what is kept by shape would not be asked for again
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            states(model, case.sequences(3, width, seed=0), training=training)
    if asked:
        yield f"computes with the tokens it is given ({', '.join(dict.fromkeys(asked))})"


def looks_at_meaning(subject: Subject) -> Iterator[str]:
    for case in subject.cases:
        symbols, roles = case.setup.symbols, case.setup.roles
        others = {
            "symbols": replace(case.setup, symbols=tuple(f"s{n}" for n in range(len(symbols)))),
            "roles": replace(case.setup, roles=roles[::-1]),
        }
        for key, setup in others.items():
            one, two = subject.model(case), subject.model(replace(case, setup=setup))
            rows = case.sequences(4, case.setup.longest_tokens, seed=0)
            same = one.state_dict().keys() == two.state_dict().keys()
            for training in (True, False):
                if not same or differs(states(one, rows, training=training), states(two, rows, training=training)).any():
                    yield f"hangs on setup.{key}"
                    break
