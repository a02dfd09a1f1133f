"""Contract: hooks have the right form, change no argument, and use only what they declare."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.encodings import HOOKS, At, Encoding, Wrapper, hooks
from bench.training.model import Decoder, build_decoder

from .checks import Blocking, Fault, encoding_check
from .interface import ARGUMENTS, NO_WRITES, given_tensors, require_hook_outputs
from .subject import Case, Subject, hidden_states, mode, plugin_classes, rows_differ

NOISE, MOST_CHANGE = 1e-3, 0.3
"""Standard deviation of noise on embeddings, which have 1, and the most that it may change outputs. Those of ``asentmax``
change by 0.09, of other built-in encodings by less than 0.01, of one that recognises tokens by their embeddings by several
units."""
SHIFTS = (1, 37, 5000)
"""Constants added to position ids."""


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


def model_tensors(model: Decoder) -> dict[str, tuple[Tensor, bool]]:
    """Copies of parameters and buffers, and whether they are trained."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: (tensor.detach().clone(), tensor.requires_grad) for name, tensor in named}


def changed_tensors(before: Mapping[str, tuple[Tensor, bool]], after: Mapping[str, tuple[Tensor, bool]]) -> list[str]:
    """Names of tensors that were added, removed or changed."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name][1] != after[name][1]
        or not torch.equal(before[name][0], after[name][0])
    )  # fmt: skip


@encoding_check(
    "interface",
    expected="every hook returns what the table in bench/encodings/base.py says, for 1, 3, 4 and 6 heads, float32 and float64, "
    "and at least one of them changes the attention",
    advice="compare shape and dtype of what the hook returns with its annotation in bench.encodings.Encoding",
)
def check_interface(subject: Subject) -> str:
    case = subject.main
    if plugin_classes(subject.cls) and not {*hooks(subject.cls)} - {"positions", "prepare"} and not subject.cls.stage:
        raise Fault(
            "overrides none of embed, rotate, bias and attend, so it is NoPE", f"override one of {', '.join(HOOKS[2:])}"
        )
    for heads in (1, 3, 4, 6):
        for dtype in (torch.float32, torch.float64):
            for width in (1, 2, case.setup.train_tokens, case.setup.longest_tokens):
                try:
                    require_hook_outputs(subject, case, heads, dtype, width)
                except Fault as fault:
                    where = f" (with {heads} heads, {str(dtype).removeprefix('torch.')}, {width} tokens)"
                    raise Blocking(f"{fault}{where}", fault.advice) from None
    spec = case.suite.model.model_copy(update={"heads": 4, "width": 64})
    model = build_decoder(spec, subject.cls, replace(case.setup, heads=4, head_width=16, width=64), 0)
    tokens = case.sequences(2, case.setup.train_tokens, seed=0)
    single = hidden_states(model, tokens)
    double = hidden_states(model.double(), tokens)
    if double.dtype != torch.float64 or rows_differ(single, double.float(), 1e-3).any():
        raise Fault("a model in float64 gives other outputs than in float32")
    return "all hooks return what they should, in every layer"


@encoding_check(
    "positions",
    expected="shift_invariant and float_ids are declared correctly: whether adding a constant to all position ids changes "
    "outputs, and whether ids may be fractions",
    advice="set shift_invariant in info, and float_ids on the class, to what was found",
)
def check_positions(subject: Subject) -> str:
    cls, case = subject.cls, subject.main
    width = case.setup.train_tokens
    tokens = case.sequences(2, width, seed=0)
    ids = torch.arange(width)
    shifts = [n for n in (*SHIFTS, case.setup.longest_tokens - width) if n >= 0]
    original = states_with_ids(subject, case, tokens, ids, noise=1.0)
    shifted = []
    for shift in shifts:
        try:
            shifted.append(states_with_ids(subject, case, tokens, ids + shift, noise=1.0))
        except IndexError:  # a table may end, but not before L′
            if width + shift <= case.setup.longest_tokens:
                raise
    changes_much = any(rows_differ(original, other, 1e-2).any() for other in shifted)
    changes = any(rows_differ(original, other, 1e-3).any() for other in shifted)
    if cls.info.shift_invariant and changes:
        raise Fault("adding a constant to all position ids changes outputs, but info says shift_invariant=True")
    if not cls.info.shift_invariant and not changes_much:
        raise Fault("adding a constant to all position ids changes nothing, but info says shift_invariant=False")
    if takes_fractions(cls):
        advice = "declare float_ids = False"
        try:
            half = states_with_ids(subject, case, tokens, ids.double() / 2)
        except (RuntimeError, IndexError, TypeError) as error:
            raise Fault(f"fractional position ids raise {type(error).__name__}: {error}", advice) from error
        if not half.isfinite().all():
            raise Fault("fractional position ids give numbers that are not finite", advice)
    effect, may = "nothing" if cls.info.shift_invariant else "outputs", "may" if takes_fractions(cls) else "may not"
    return f"adding a constant to all ids changes {effect}, and ids {may} be fractions, as declared"


def takes_fractions(cls: type[Encoding]) -> bool:
    """Whether an encoding takes fractional ids; a wrapper passes ids on, so everything inside must take them too."""
    return cls.float_ids and (not issubclass(cls, Wrapper) or takes_fractions(cls.inner))


def states_with_ids(subject: Subject, case: Case, tokens: Tensor, ids: Tensor, noise: float = 0.1) -> Tensor:
    """Outputs of a model with the given position ids instead of its encoding's own."""
    model = subject.model(case, noise=noise)
    model.encoding.positions = lambda tokens, at: ids  # type: ignore[method-assign]
    model.cacheable = False
    return hidden_states(model, tokens)


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
