"""Hook contract: hooks must not modify their arguments, nor need tokens or details of embeddings that they are not to use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.encodings import At, Encoding

from .checks import Fault, encoding_check
from .statefulness import changed_tensors, model_tensors
from .subject import Case, Subject, hidden_states, mode

ARGUMENTS = {
    "positions": ("tokens", "at"),
    "prepare": ("at",),
    "embed": ("x", "at"),
    "rotate": ("q", "k", "at"),
    "bias": ("q", "k", "at"),
    "attend": ("q", "k", "v", "bias", "at"),
}
"""What the model passes to each hook."""
NO_WRITES = "create new tensors instead of writing into arguments (no x += …, x.mul_(), x[…] = …)"
NOISE, MOST_CHANGE = 1e-3, 0.3
"""Standard deviation of noise on embeddings, which have 1, and the most that it may change outputs. Those of ``asentmax``
change by 0.09, of other built-in encodings by less than 0.01, of one that recognises tokens by their embeddings by several
units."""


@encoding_check(
    "mutation",
    expected="hooks change none of their arguments in place, nor weights",
    advice=f"{NO_WRITES}, and leave weights to training",
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
    return f"no argument changed in {len(calls)} calls of hooks, and none of the model's {len(model_tensors(model))} tensors"


def guard_hooks(encoding: Encoding, writes: list[str]) -> list[str]:
    """Wrap the hooks of one instance. ``writes`` collects changes of arguments; the returned list collects calls."""
    calls: list[str] = []

    def guarded(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        given = given_tensors(hook, arguments)
        before = {name: tensor.detach().clone() for name, tensor in given.items()}
        result = run(*arguments)
        calls.append(hook)
        changed = [name for name, tensor in before.items() if not torch.equal(tensor, given[name])]
        writes.extend(f"`{hook}` writes into {name}" for name in changed)
        return result

    wrap_hooks(encoding, guarded)
    return calls


def wrap_hooks(encoding: Encoding, around: Callable[[str, Callable, tuple[Any, ...]], Any]) -> None:
    """Make every call of a hook of one instance ``around(hook, run, arguments)``."""
    for hook in ARGUMENTS:
        run = getattr(encoding, hook)
        setattr(encoding, hook, lambda *arguments, hook=hook, run=run: around(hook, run, arguments))


def given_tensors(hook: str, arguments: Sequence[Any]) -> dict[str, Tensor]:
    """The tensors that a hook is given, those of ``at`` included, each under an expression for it."""
    given = dict(zip(ARGUMENTS[hook], arguments, strict=True))
    at = given.pop("at")
    given |= {"at.ids": at.ids, "at.shared": at.shared, "at.h": at.source and at.source()}
    return {name: tensor for expression, value in given.items() for name, tensor in named_parts(expression, value)}


def named_parts(name: str, value: Any, kind: type | tuple[type, ...] = Tensor) -> Iterator[tuple[str, Any]]:
    """The tensors inside a value, or parts of another kind, each with an expression for it."""
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for n, part in enumerate(value):
            yield from named_parts(f"{name}[{n}]", part, kind)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from named_parts(f"{name}[{key!r}]", part, kind)


@encoding_check(
    "tokens",
    expected="an encoding uses what tokens are, or what they mean, only if it declares ranking='task-aware'; others are shown "
    "zeros. Noise of a thousandth on embeddings changes outputs little",
    advice="use only tokens.shape and tokens.device; or declare ranking='task-aware' in info, which has a table of its own on "
    "the board; let outputs depend smoothly on x, without comparing its rows",
)
def check_tokens(subject: Subject) -> str:
    aware = subject.cls.info.ranking == "task-aware"
    if not aware and any(ids_differ(subject, case) for case in subject.cases):
        raise Fault("`positions` gives other ids for other tokens, but info does not say ranking='task-aware'")
    change = max(change_by_noise(subject, case) for case in subject.cases)
    if not change < MOST_CHANGE:
        raise Fault(f"noise of {NOISE} on the embeddings changes outputs by up to {change:.2g}, more than {MOST_CHANGE}")
    uses = "position ids may depend on tokens, as declared" if aware else "position ids depend only on the number of tokens"
    return f"{uses}; noise of {NOISE} on embeddings changes outputs by up to {change:.2g}"


def ids_differ(subject: Subject, case: Case) -> bool:
    """Whether position ids depend on tokens: an encoding gets none in training, so this only says that it expects some."""
    encoding = subject.model(case).encoding
    for training in (True, False):
        encoding.train(training)
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            rows, ids = case.sequences(128, width, seed=0), []
            n = int(np.random.default_rng().integers(32, 97))  # a number of rows that the encoding cannot foresee
            for tokens in (rows, rows[::2], rows[1::2], rows[n:], rows[:n], torch.zeros_like(rows)):
                with torch.inference_mode(not training):
                    found = encoding.positions(tokens, At(width, generator=torch.Generator().manual_seed(0)))
                ids.append(found.expand(*tokens.shape)[0])
            if any(not torch.equal(ids[0], other) for other in ids[1:]):
                return True
    return False


def change_by_noise(subject: Subject, case: Case) -> float:
    """The largest change of an output, in evaluation."""
    model, tokens = subject.model(case), case.sequences(32, case.setup.longest_tokens, seed=0)
    before = hidden_states(model, tokens)
    with torch.no_grad():
        weight = model.embedding.weight
        weight.add_(NOISE * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    return (hidden_states(model, tokens) - before).abs().max().item()
