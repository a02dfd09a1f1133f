"""Contract: info and settings are complete, hooks have the right form, change nothing, and use only what they declare.

``try_hooks`` calls every hook, before all checks and before a grid: a plugin that cannot work is refused in one line that says
where in its file and what to do. No check could say anything else about it.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench import encodings, text_rules
from bench.encodings import HOOKS, At, Encoding, Wrapper
from bench.plugins.loading import one_line_errors
from bench.result import SOURCE_KINDS
from bench.training.model import Decoder, build_decoder
from tasks import InputError

from .checks import Fault, check
from .subject import Subject, hidden_states, mode, plugin_classes

ARGUMENTS = {hook: tuple(inspect.signature(getattr(Encoding, hook)).parameters)[1:] for hook in HOOKS}
"""What the model passes to each hook."""
NO_WRITES = "create new tensors instead of writing into arguments (no x += …, x.mul_(), x[…] = …); `advance` hands values on"
HINTS = {
    r"Module\.__init__\(\) call|Encoding\.__init__\(\) missing|no attribute '(_\w+|setup)'": "call super().__init__(setup)",
    r"positional argument": "compare the arguments with bench.encodings.Encoding; settings are keyword arguments with defaults",
    r"CUDA|NVIDIA|(same|expected) device": "create tensors on the device of the arguments, device=q.device, never by .cuda()",
    r"IndexError: index": "a table must reach setup.longest_tokens; distances to later keys are negative",
    r"dtype|scalar type|used as indices": "convert a tensor: .to(q.dtype) for a product, .long() for an index",
    r"'At' object": f"its fields are {', '.join(name for name in dir(At) if not name.startswith('_'))}",
}
"""What an error's type and message contain → what to do about it."""


@check("declaration")
def check_declaration(subject: Subject) -> str:
    """Info is complete, in plain words on one line each (bench.encodings.Info documents them), and settings have defaults."""
    if faults := declaration_faults(subject.cls):
        raise Fault("; ".join(faults), "correct it before the runs: it is part of the source hash")
    info, used = subject.cls.info, encodings.hooks(subject.cls)
    return f"{info.name}, family {info.family}, ranking {info.ranking}; overrides {', '.join(used) or 'no hook'}"


def declaration_faults(cls: type[Encoding]) -> list[str]:
    """Faults of info and settings."""
    plugins, faults = plugin_classes(cls), []
    for info in (plugin.info for plugin in plugins):
        found = {name: text_rules.plain_text_fault(getattr(info, name)) for name in ("title", "authors")}
        found["link"] = text_rules.link_fault(info.link)
        found["year"] = None if type(info.year) is int and info.year > 1985 else "is not a year of publication"
        found["source"] = None if info.source in SOURCE_KINDS else f"is none of {', '.join(SOURCE_KINDS)}"
        faults += [f"{name} {fault}: {getattr(info, name)!r:.60}" for name, fault in found.items() if fault]
    if cls.stage:
        faults += cls.stage.faults(cls.info.ranking, bool(plugins))
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[2:]:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or type(parameter.default) not in (bool, int, float, str):
            faults.append(f"setting {parameter.name} is not keyword-only with a default: __init__(self, setup, *, rate=1.0)")
    return faults


def try_hooks(subject: Subject) -> None:
    """Construct the encoding and call each of its hooks.

    Raises:
        InputError: the constructor or a hook raises an error, or a hook writes into an argument or returns something else than
            the table in ``bench/encodings/base.py`` says; or nothing uses a method, whose name is close to that of a hook.
    """
    for cls in plugin_classes(subject.cls):
        base = Wrapper if issubclass(cls, Wrapper) else Encoding
        free = [name for name in (*HOOKS, "float_ids", "stage", "trained_as") if name not in vars(cls)]
        text = inspect.getsource(inspect.getmodule(cls) or cls)
        for name in vars(cls):
            near = get_close_matches(name, free, 1, 0.75)
            if near and not name.startswith("_") and not hasattr(base, name) and not re.search(rf"\.{name}\b", text):
                raise InputError(f"nothing uses `{name}` of {cls.info.name}; did you mean `{near[0]}`?")
    for width in (1, subject.setup.train_tokens, subject.setup.longest_tokens):
        require_hooks(subject, width)


def require_hooks(
    subject: Subject, width: int, heads: int = 4, dtype: torch.dtype = torch.float32, training: bool = False
) -> None:
    """Call all hooks in a small model.

    Raises:
        InputError: see ``try_hooks``.
    """
    spec = subject.suite.model.model_copy(update={"heads": heads, "width": 8 * heads})
    setup = replace(subject.setup, heads=heads, head_width=8, width=8 * heads)
    model = located(subject, "__init__", lambda: build_decoder(spec, subject.cls, setup, 0)).to(dtype)
    guard_hooks(subject, model)
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    hidden_states(model, subject.sequences(2, width, seed=0), max(width, setup.train_tokens), training)
    if changed := [name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])]:
        raise InputError(f"{mode(training)}: a pass changes the model's {', '.join(changed[:5])}; {NO_WRITES}")


def located(subject: Subject, name: str, run: Callable, *arguments: Any) -> Any:
    """Call the constructor or a hook; an error becomes one line with its place in the plugin's file and a hint."""
    try:
        with one_line_errors(subject.plugin):
            return run(*arguments)
    except InputError as error:
        hints = [hint for pattern, hint in HINTS.items() if re.search(pattern, str(error))]
        raise InputError("; ".join([f"`{name}` of {error}", *hints[:1]])) from error


def wrap_hooks(encoding: Encoding, around: Callable[[str, Callable, tuple[Any, ...]], Any]) -> None:
    """Make every call of a hook of one instance ``around(hook, run, arguments)``."""
    for hook in ARGUMENTS:
        run = getattr(encoding, hook)
        setattr(encoding, hook, lambda *arguments, hook=hook, run=run: around(hook, run, arguments))


def guard_hooks(subject: Subject, model: Decoder) -> None:
    """Let every call of a hook raise ``InputError`` if it fails, changes an argument, or returns something of another form."""

    def guarded(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        given = dict(zip(ARGUMENTS[hook], arguments, strict=True))
        at = given["at"]
        read = {"at.ids": at.ids, "at.shared": at.shared, "at.state": at.state, "at.h": at.source and at.source()}
        before = {name: tensor.nan_to_num() for name, tensor in tensors_in(given | read).items()}
        output = located(subject, hook, run, *arguments)
        where = f"`{hook}` of {subject.plugin.info.name}"
        now = tensors_in(given | read)
        same = {name for name in before.keys() & now.keys() if torch.equal(before[name], now[name].nan_to_num())}
        if written := [name for name in before | now if name not in same]:
            raise InputError(f"{where} writes into {', '.join(written)}; {NO_WRITES}")
        fits, expected = required_form(hook, output, given)
        if not fits:
            raise InputError(f"{where} returns {describe_form(output)}; expected {expected}")
        if hook != "prepare" and not all(tensor.isfinite().all() for tensor in tensors_in({hook: output}).values()):
            advice = "bound the arguments of log, division and exp; attention applies the causal mask"
            raise InputError(f"{where} returns numbers that are not finite; {advice}")
        return output

    wrap_hooks(model.encoding, guarded)


def tensors_in(values: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors inside named values, each under an expression for it, such as ``at.shared[0]``."""
    return {
        f"{name}{pytree.keystr(path)}": leaf
        for name, value in values.items()
        for path, leaf in pytree.tree_flatten_with_path(value)[0]
        if isinstance(leaf, Tensor)
    }


def required_form(hook: str, output: Any, given: dict[str, Any]) -> tuple[bool, str]:
    """Whether a hook's output has the right form, and that form in words."""
    is_tensor = isinstance(output, Tensor)
    if hook in ("prepare", "advance"):
        return True, "anything"
    if hook == "positions":
        tokens = given["tokens"]
        return is_tensor and output.shape in (tokens.shape, tokens.shape[1:]), "numbers [T] or [B, T]"
    if hook == "rotate":
        q = given["q"]
        fits = isinstance(output, tuple) and len(output) == 2 and all(isinstance(part, Tensor) for part in output)
        fits = fits and all(o.shape == (*q.shape[:-1], output[0].shape[-1]) and o.dtype == q.dtype for o in output)
        return fits, f"the tuple q, k, both [B, H, T, e] of {q.dtype}"
    if hook == "bias":
        shape = (*given["q"].shape[:3], given["k"].shape[2])
        fits = is_tensor and output.dtype in (torch.float32, torch.float64) and output.ndim <= 4
        fits = fits and all(n in (1, most) for n, most in zip(output.shape[::-1], shape[::-1], strict=False))
        return fits or output is None, "None, or float32 or float64 broadcastable to [B, H, T, T]"
    like = given["x" if hook == "embed" else "v"]
    return is_tensor and (output.shape, output.dtype) == (like.shape, like.dtype), describe_form(like)


def describe_form(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_form, value))})"
    return f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


@check("interface")
def check_interface(subject: Subject) -> str:
    """Every hook returns what the table in bench/encodings/base.py says, for 4 heads, and for 1, 3 and 6 in float64, and
    changes neither its arguments nor weights."""
    for training in (True, False):
        for width in (2, subject.setup.train_tokens, subject.setup.longest_tokens):
            require_hooks(subject, width, training=training)
    for heads in (1, 3, 6):
        require_hooks(subject, subject.setup.train_tokens, heads, torch.float64)
    return "all hooks return what they should, in every layer, and change no argument"


@check("tokens", advice="use only tokens.shape and tokens.device, or declare ranking='task-aware' in info")
def check_tokens(subject: Subject) -> str:
    """Position ids depend on tokens only if info declares ranking='task-aware'. Other encodings are shown zeros."""
    if subject.cls.info.ranking == "task-aware":
        return "position ids may depend on tokens, as declared"
    encoding, tokens = subject.model().encoding, subject.sequences(64, subject.setup.longest_tokens, seed=0)
    at = [At(tokens.shape[1], generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    first, second = (encoding.positions(batch, at) for batch, at in zip((tokens, tokens * 0), at, strict=True))
    if not torch.equal(first, second):
        raise Fault("`positions` gives other ids for other tokens, but info does not say ranking='task-aware'")
    return "position ids depend only on the number of tokens"
