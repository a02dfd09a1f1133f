"""Form of the hooks: the model can construct the encoding and call its hooks, which return what they should.

``try_hooks`` does this once, before all checks and before a grid: a plugin that cannot work is refused in one line, which says
where in its file and what to do. No check could say anything else about it.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from bench.encodings import HOOKS, At, Encoding, Wrapper
from bench.training.model import shown_setup
from tasks import InputError

from .checks import Blocking, Fault, TimeUp, place_of, time_limit
from .subject import Case, Subject, plugin_classes

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
WIDE = (torch.float32, torch.float64)
MODULE = vars(nn.Module()).keys()
"""Attributes that torch gives to every module."""
FUNCTIONS = ("fget", "fset", "func", "__func__", "__wrapped__")
"""Where properties, cached properties, class and static methods, and wrapped functions have their function."""
OVERRIDABLE = (*HOOKS, "info", "float_ids", "stage", "trained_as", "combined_with")
TRY_LIMIT_S = 60.0
"""For all calls of ``try_hooks``, which take a second."""
NO_NUMPY = "use torch: numpy takes no tensors that are on a GPU or need a gradient"
LEARNED, LISTS = (nn.Parameter, nn.Module), "keep parameters in nn.ParameterList or nn.ParameterDict, modules in nn.ModuleList"
SUPER, TAKEN = "call super().__init__(setup) first in __init__", "that is the name of a hook; choose another"
HINTS = (
    (r"before Module\.__init__\(\) call|Encoding\.__init__\(\) missing .* 'setup'", SUPER),
    (r"attribute '(positions|prepare|embed|rotate|bias|attend)' already exists", TAKEN),
    (r"tuple\.index|tuple index|is not in list", "setup.symbols and setup.roles are empty unless ranking='task-aware'"),
    (r"CUDA|cuda|NVIDIA", "create tensors on the device of the arguments (device=q.device), never with .cuda()"),
    (r"Expected all tensors to be on the same device", "create tensors on the device of the arguments (device=q.device)"),
    (
        r"IndexError: index",
        "a table must reach setup.longest_tokens, or setup.layers if at.layer is its index; distances to later keys, which the "
        "mask hides, are negative",
    ),
    (r"NoneType", "at.shared is what `prepare` returns, by default None; so is a bias"),
    (r"to numpy|numpy\(\)", NO_NUMPY),
    (r"dtype|scalar type|tensors used as indices", "convert a tensor: .to(q.dtype) for a product, .long() for an index"),
    (r"size of tensor|shape|must match|cannot be multiplied|[Dd]imension|broadcast|einsum", "compare the shapes in this call"),
)
"""What an error's type and message contain → what to do about it."""


def try_hooks(subject: Subject, limit_s: float = TRY_LIMIT_S) -> None:
    """Construct the encoding and call each of its hooks.

    Raises:
        InputError: the constructor or a hook raises an error, does not return, takes other arguments than the model passes, or
            returns something else than the table in ``bench/encodings/base.py`` says.
    """
    try:
        require_declared_hooks(subject)
        with time_limit(limit_s, f"has not returned after {limit_s:g} s"):
            for width in (1, subject.main.setup.train_tokens, subject.main.setup.longest_tokens):
                require_hook_outputs(subject, subject.main, subject.main.setup.heads, torch.float32, width)
    except Fault as fault:
        raise InputError(f"{fault}; {fault.advice}") from fault


def require_declared_hooks(subject: Subject) -> None:
    """Check names and arguments of methods, without calling any."""
    for cls in plugin_classes(subject.cls):
        for name, near in misspelt_names(cls):
            raise Blocking(f"{definition(cls, name)}: nothing uses `{name}`", f"did you mean `{near}`?")
        for hook, names in ARGUMENTS.items():
            if not callable(getattr(cls, hook)):
                raise Blocking(f"{definition(cls, hook)}: `{hook}` is not a method", TAKEN)
            try:
                inspect.signature(getattr(cls, hook)).bind(None, *names)
            except TypeError:
                given = inspect.signature(getattr(cls, hook))
                expected = f"expected def {hook}({', '.join(('self', *names))})"
                raise Blocking(f"{definition(cls, hook)}: def {hook}{given} has other arguments", expected) from None
        try:
            inspect.signature(cls.__init__).bind(None, None)
        except TypeError as error:
            found = f"{definition(cls, '__init__')}: __init__ cannot be called with `setup` alone: {error}"
            raise Blocking(
                found, "settings are keyword arguments with defaults: def __init__(self, setup, *, rate=1.0)"
            ) from None


def misspelt_names(cls: type[Encoding]) -> Iterator[tuple[str, str]]:
    """Members that no class or base class uses and whose name is close to that of a hook which the class does not override."""
    base = Wrapper if issubclass(cls, Wrapper) else Encoding
    own, members = vars(cls), [value for c in cls.__mro__ for value in vars(c).values()]
    parts = [getattr(value, part, None) for value in members for part in FUNCTIONS]
    used = {name for part in (*members, *parts) for name in names_in(getattr(part, "__code__", None))}
    free = [name for name in OVERRIDABLE if getattr(cls, name, None) is getattr(base, name, None)]
    for name in own:
        if not name.startswith("_") and not hasattr(base, name) and name not in used:
            yield from ((name, near) for near in get_close_matches(name, free, 1, 0.75))


def names_in(code: CodeType | None) -> Iterator[str]:
    """Names that a function and those inside it use."""
    if code is not None:
        yield from code.co_names
        for constant in code.co_consts:
            yield from names_in(constant) if isinstance(constant, CodeType) else ()


def definition(cls: type[Encoding], name: str) -> str:
    """File and line of a method or of its class."""
    code = getattr(inspect.unwrap(getattr(cls, name, cls)), "__code__", None)
    if code is not None:
        return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
    return Path(inspect.getfile(cls)).name


class Caller:
    """Calls an encoding's constructor and hooks, and locates their errors in the plugin's file."""

    def __init__(self, subject: Subject):
        self.subject, self.cls = subject, subject.cls
        self.plugin = next(iter(plugin_classes(subject.cls)), subject.cls)

    def fault(self, name: str, error: BaseException, arguments: tuple[Any, ...] = ()) -> Blocking:
        """The fault of a call that raised an error."""
        text = f"raises {type(error).__name__}: {' '.join(str(error).split()):.300}".removesuffix(": ")
        shapes = [describe_argument(*pair) for pair in zip(ARGUMENTS.get(name, ()), arguments, strict=False)]
        call = f"`{name}`" if name == "__init__" else f"{name}({', '.join(shapes)})"
        # Of an unknown attribute or name; with the constructor not finished, a module has no attributes to list.
        known = dir(error.obj) if isinstance(error, AttributeError) and not isinstance(error.obj, nn.Module) else []
        near = get_close_matches(str(getattr(error, "name", "")), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else "correct that line"
        if isinstance(error, TimeUp):
            text, hint = str(error), "a loop does not end, or is too slow: use tensor operations"
        hint = next((hint for pattern, hint in HINTS if re.search(pattern, text)), hint)
        where = place_of(error, self.subject.own_files) or definition(self.plugin, name)
        return Blocking(f"{where}: {call} {text}", hint)

    def make(self, setup: Any) -> Encoding:
        try:
            encoding = self.cls.make(setup)
        except (Exception, SystemExit, TimeUp) as error:
            raise self.fault("__init__", error) from error
        if type(encoding) is not self.cls:
            found = f"{definition(self.plugin, 'make')}: `make` returns {describe_form(encoding)}; expected {self.cls.__name__}"
            raise Blocking(found, "do not override `make`")
        part: Any = encoding
        where = definition(self.plugin, "__init__")
        while part is not None:
            if not {"_modules", "setup"} <= vars(part).keys():
                raise Blocking(f"{where}: __init__ does not call super().__init__(setup)", SUPER)
            if own := [hook for hook in HOOKS if hook in vars(part)]:
                raise Blocking(f"{where}: __init__ assigns self.{own[0]}", TAKEN)
            part = part._modules.get("base") if isinstance(part, Wrapper) else None
        known = {id(registered) for registered in (*encoding.parameters(), *encoding.modules())}
        for attribute, value in (item for module in encoding.modules() for item in vars(module).items()):
            for name, learned in () if attribute in MODULE else named_parts(f"self.{attribute}", value, LEARNED):
                if id(learned) not in known:
                    raise Blocking(f"{where}: {name} is in no module, so it is not trained", LISTS)
        return encoding

    def call(self, encoding: Encoding, hook: str, *arguments: Any) -> Any:
        given = given_tensors(hook, arguments)
        before = {name: version(tensor) for name, tensor in given.items()}
        try:
            output = getattr(encoding, hook)(*arguments)
        except (Exception, SystemExit, TimeUp) as error:
            raise self.fault(hook, error, arguments) from error
        if written := [name for name, tensor in given.items() if version(tensor) != before[name]]:
            raise Blocking(f"{definition(self.plugin, hook)}: `{hook}` writes into {', '.join(written)}", NO_WRITES)
        return output

    def require(self, hook: str, output: Any, fits: bool, expected: str) -> None:
        """Refuse an output of the wrong form, or with a number that is not finite."""
        where = f"{definition(self.plugin, hook)}: `{hook}`"
        if not fits:
            advice = "a method without `return` gives None" if output is None else "compare it with bench.encodings.Encoding"
            if isinstance(output, Tensor) and hook == "bias" and output.dtype not in WIDE:
                advice = "return float32: bfloat16 rounds integers beyond 256, float16 beyond 2048"
            raise Blocking(f"{where} returns {describe_form(output)}; expected {expected}", advice)
        tensors = [tensor for _, tensor in named_parts("", output)]
        if not all(tensor.isfinite().all() for tensor in tensors):
            kind = "NaN" if any(tensor.isnan().any() for tensor in tensors) else "infinity"
            advice = "return finite numbers: bound the arguments of log, division and exp; attention applies the causal mask"
            raise Blocking(f"{where} returns {kind}", advice)


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


def version(tensor: Tensor) -> int:
    """How often a tensor was written into, where torch counts it."""
    return 0 if tensor.is_inference() else tensor._version


def describe_argument(name: str, value: Any) -> str:
    return f"{name} {list(value.shape)}" if isinstance(value, Tensor) else name


def require_hook_outputs(subject: Subject, case: Case, heads: int, dtype: torch.dtype, width: int) -> None:
    """Call the hooks without a model, in the model's order."""
    d, b = 8, 2
    setup = shown_setup(subject.cls, replace(case.setup, heads=heads, head_width=d, width=heads * d))
    caller = Caller(subject)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoding = caller.make(setup).to(dtype)
        q, k, v = (part.clone() for part in torch.randn(3, b, heads, width, d, dtype=dtype))  # no views: each has its version
        x = torch.randn(b, width, setup.width, dtype=dtype)
    tokens = case.sequences(b, width, seed=0)
    at = At(announced_length=max(width, setup.train_tokens), generator=torch.Generator().manual_seed(0))
    ids = caller.call(encoding, "positions", tokens, at)
    fits = isinstance(ids, Tensor) and ids.shape in ((width,), (b, width)) and not (ids.is_complex() or ids.dtype == torch.bool)
    caller.require("positions", ids, fits, "numbers [T] or [B, T]")
    at = replace(at, ids=ids)
    at = replace(at, shared=caller.call(encoding, "prepare", at))
    for layer in range(setup.layers):
        at = replace(at, layer=layer, source=None)
        embedded = caller.call(encoding, "embed", x, at)
        caller.require("embed", embedded, same_form(embedded, x), describe_form(x))
        at = replace(at, source=lambda: x)
        rotated = caller.call(encoding, "rotate", q, k, at)
        fits = isinstance(rotated, tuple) and len(rotated) == 2 and all(isinstance(r, Tensor) for r in rotated)
        fits = fits and all(r.shape == (*q.shape[:-1], *rotated[0].shape[-1:]) and r.dtype == dtype for r in rotated)
        caller.require("rotate", rotated, fits, f"the tuple q, k, both [B, H, T, e] of {dtype}")
        bias = caller.call(encoding, "bias", *rotated, at)
        fits = isinstance(bias, Tensor) and bias.dtype in WIDE and broadcasts(bias, (b, heads, width, width))
        caller.require("bias", bias, fits or bias is None, "None, or float32 or float64 broadcastable to [B, H, T, T]")
        mixed = caller.call(encoding, "attend", *rotated, v, bias, at)
        caller.require("attend", mixed, same_form(mixed, v), describe_form(v))


def same_form(output: Any, like: Tensor) -> bool:
    return isinstance(output, Tensor) and output.shape == like.shape and output.dtype == like.dtype


def describe_form(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_form, value))})"
    return f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def broadcasts(bias: Tensor, shape: tuple[int, ...]) -> bool:
    try:
        return torch.broadcast_shapes(bias.shape, shape) == torch.Size(shape)
    except RuntimeError:
        return False
