"""Contract: info and settings are complete, hooks have the right form, change nothing, and use only what they declare.

``try_hooks`` calls every hook once, before all checks and before a grid: a plugin that cannot work is refused in one line, which
says where in its file and what to do. No check could say anything else about it.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench import encodings, text_rules
from bench.encodings import HOOKS, At, Encoding, Wrapper
from bench.plugins.source_hash import plugin_files
from bench.result import SOURCE_KINDS
from bench.suites.suite import is_shipped
from bench.training.model import Decoder, build_decoder
from tasks import InputError, catalogue

from .checks import Blocking, Fault, TimeUp, describe_error, encoding_check, place_of, time_limit
from .subject import Case, Subject, hidden_states, mode, plugin_classes, rows_differ

MAX_LENGTHS = 60
"""Characters of ``lengths``, which is a column of the board."""
PLAIN_FIELDS = {"family": "", "title": "", "authors": "", "lengths": "/"}
"""Plain text on the board → path separators allowed in it."""
SHIFTS = (1, 37, 5000)
"""Constants added to position ids."""
TRY_LIMIT_S = 60.0
"""For all calls of ``try_hooks``, which take a second."""
ARGUMENTS = {
    "positions": ("tokens", "at"),
    "prepare": ("at",),
    "embed": ("x", "at"),
    "rotate": ("q", "k", "at"),
    "bias": ("q", "k", "at"),
    "attend": ("q", "k", "v", "bias", "at"),
}
"""What the model passes to each hook."""
OVERRIDABLE = (*HOOKS, "info", "float_ids", "stage", "trained_as")
NO_WRITES = "create new tensors instead of writing into arguments (no x += …, x.mul_(), x[…] = …), and leave weights to training"
NO_NUMPY = "use torch: numpy takes no tensors that are on a GPU or need a gradient"
HINTS = (
    (r"Module\.__init__\(\) call|Encoding\.__init__\(\) missing|no attribute '(_\w+|setup)'", "call super().__init__(setup) first"),
    (r"attribute '\w+' already exists|not callable", "a hook has that name; choose another for the attribute"),
    (r"CUDA|cuda|NVIDIA|same device", "create tensors on the device of the arguments (device=q.device), never with .cuda()"),
    (r"IndexError: index", "a table must reach setup.longest_tokens; distances to later keys, which the mask hides, are negative"),
    (r"numpy", NO_NUMPY),
    (r"dtype|scalar type|tensors used as indices", "convert a tensor: .to(q.dtype) for a product, .long() for an index"),
    (r"size of tensor|shape|must match|cannot be multiplied|[Dd]imension|einsum", "compare the shapes in this call"),
)
"""What an error's type and message contain → what to do about it."""


@encoding_check("declaration")
def check_declaration(subject: Subject) -> str:
    """Info is complete, in plain words on one line each (bench.encodings.Info documents them), and settings have defaults."""
    if faults := declaration_faults(subject.cls):
        raise Fault("; ".join(faults), "correct it before the runs: it is part of the source hash")
    info, used = subject.cls.info, encodings.hooks(subject.cls)
    return f"{info.name}, family {info.family}, ranking {info.ranking}; overrides {', '.join(used) or 'no hook'}"


def declaration_faults(cls: type[Encoding]) -> list[str]:
    """Faults of info and settings."""
    plugins = plugin_classes(cls)
    faults = [fault for plugin in plugins for fault in plugin_faults(plugin)]
    if cls.stage:
        faults += cls.stage.faults(cls.info.ranking, bool(plugins))
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[2:]:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            faults.append(f"argument {parameter.name} of __init__ is not keyword-only (put * before it)")
        elif type(parameter.default) not in (bool, int, float, str):
            faults.append(f"setting {parameter.name} has no default that is a number, True, False or a word")
    return list(dict.fromkeys(faults))


def plugin_faults(cls: type[Encoding]) -> Iterator[str]:
    """Faults in what a plugin declares."""
    info = cls.info
    for name, allowed in PLAIN_FIELDS.items():
        text = getattr(info, name)
        if (text or name != "lengths") and (fault := text_rules.plain_text_fault(text, allowed=allowed)):
            yield f"{name} {fault}: {text!r:.60}"
    if len(info.lengths) > MAX_LENGTHS:
        yield f"lengths has {len(info.lengths)} characters, more than {MAX_LENGTHS}"
    if fault := text_rules.link_fault(info.link):
        yield f"link {fault}: {info.link!r:.60}"
    if not 1986 <= info.year <= datetime.now(UTC).year + 1:
        yield f"year is not a year of publication: {info.year}"
    if info.source not in SOURCE_KINDS:
        yield f"source is none of {', '.join(SOURCE_KINDS)}: {info.source!r:.60}"
    if fault := name_fault(info.name.partition("(")[0]) or text_rules.settings_fault(encodings.settings(cls)):
        yield f"{'name' if name_fault(info.name) else 'settings'} {fault}"
    try:
        plugin_files(cls)
    except InputError as error:
        yield str(error)


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a plugin that commands would take for something else."""
    kinds = {"the group of all encodings": name == "all", "a suite": is_shipped(name), "a task": name in catalogue()}
    return next((f"is that of {kind}" for kind, taken in kinds.items() if taken), None)


def try_hooks(subject: Subject, limit_s: float = TRY_LIMIT_S) -> None:
    """Construct the encoding and call each of its hooks.

    Raises:
        InputError: the constructor or a hook raises an error, does not return, takes other arguments than the model passes,
            writes into one, or returns something else than the table in ``bench/encodings/base.py`` says.
    """
    try:
        for cls in plugin_classes(subject.cls):
            require_signatures(cls)
        with time_limit(limit_s, f"has not returned after {limit_s:g} s"):
            for width in (1, subject.main.setup.train_tokens, subject.main.setup.longest_tokens):
                require_hooks(subject, subject.main, width)
    except Fault as fault:
        raise InputError(f"{fault}; {fault.advice}".removesuffix("; ")) from fault


def require_signatures(cls: type[Encoding]) -> None:
    """Check names and arguments of methods, without calling any."""
    base = Wrapper if issubclass(cls, Wrapper) else Encoding
    free = [name for name in OVERRIDABLE if getattr(cls, name, None) is getattr(base, name, None)]
    text = inspect.getsource(inspect.getmodule(cls) or cls)
    for name in vars(cls):
        near = get_close_matches(name, free, 1, 0.75)
        if near and not name.startswith("_") and not hasattr(base, name) and not re.search(rf"\.{name}\b", text):
            raise Blocking(f"{definition(cls, name)}: nothing uses `{name}`", f"did you mean `{near[0]}`?")
    for hook, names in ARGUMENTS.items():
        signature = inspect.signature(getattr(cls, hook))
        try:
            signature.bind(None, *names)
        except TypeError:
            expected = f"expected def {hook}({', '.join(('self', *names))})"
            raise Blocking(f"{definition(cls, hook)}: def {hook}{signature} has other arguments", expected) from None
    try:
        inspect.signature(cls.__init__).bind(None, None)
    except TypeError as error:
        found = f"{definition(cls, '__init__')}: __init__ cannot be called with `setup` alone: {error}"
        raise Blocking(found, "settings are keyword arguments with defaults: def __init__(self, setup, *, rate=1.0)") from None


def definition(cls: type[Encoding], name: str) -> str:
    """File and line of a method or of its class."""
    code = getattr(inspect.unwrap(getattr(cls, name, cls)), "__code__", None)
    if code is not None:
        return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
    return Path(inspect.getfile(cls)).name


def require_hooks(
    subject: Subject, case: Case, width: int, heads: int = 4, dtype: torch.dtype = torch.float32, training: bool = False
) -> None:
    """Call all hooks in a small model; the first fault of one raises ``Blocking``."""
    spec = case.suite.model.model_copy(update={"heads": heads, "width": 8 * heads})
    try:
        model = build_decoder(spec, subject.cls, replace(case.setup, heads=heads, head_width=8, width=8 * heads), 0).to(dtype)
    except (AttributeError, TypeError, KeyError, RuntimeError, ValueError, IndexError, SystemExit, TimeUp) as error:
        raise call_fault(subject, "__init__", error) from error
    guard_hooks(subject, model, case)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tokens = case.sequences(2, width, seed=0)
    hidden_states(model, tokens, max(width, case.setup.train_tokens), training)
    if changed := [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before.get(name, tensor + 1))]:
        raise Blocking(f"{mode(training)}: a pass changes the model's {', '.join(changed[:5])}", NO_WRITES)


def call_fault(subject: Subject, name: str, error: BaseException, arguments: dict[str, Any] | None = None) -> Blocking:
    """The fault of a call of the constructor or of a hook that raised an error."""
    shapes = [f"{key} {list(value.shape)}" if isinstance(value, Tensor) else key for key, value in (arguments or {}).items()]
    call = f"`{name}`" if arguments is None else f"{name}({', '.join(shapes)})"
    # Of an unknown attribute or name
    known = dir(error.obj) if isinstance(error, AttributeError) and isinstance(error.obj, At) else []
    near = get_close_matches(str(getattr(error, "name", "")), known, 1)
    text = describe_error(error) if isinstance(error, TimeUp) else f"raises {describe_error(error)}"
    hint = f"did you mean {near[0]!r}?" if near else next((hint for kind, hint in HINTS if re.search(kind, text)), "")
    plugin = next(iter(plugin_classes(subject.cls)), subject.cls)
    return Blocking(f"{place_of(error, subject.own_files) or f'{definition(plugin, name)}: '}{call} {text}", hint)


def wrap_hooks(encoding: Encoding, around: Callable[[str, Callable, tuple[Any, ...]], Any]) -> None:
    """Make every call of a hook of one instance ``around(hook, run, arguments)``."""
    for hook in ARGUMENTS:
        run = getattr(encoding, hook)
        setattr(encoding, hook, lambda *arguments, hook=hook, run=run: around(hook, run, arguments))


def guard_hooks(subject: Subject, model: Decoder, case: Case) -> None:
    """Let every call of a hook raise ``Blocking`` if it fails, changes an argument, or returns something of the wrong form."""
    plugin = next(iter(plugin_classes(subject.cls)), subject.cls)

    def guarded(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        given = dict(zip(ARGUMENTS[hook], arguments, strict=True))
        at = given["at"]
        values = given | {"at.ids": at.ids, "at.shared": at.shared, "at.h": at.source and at.source()}
        tensors = tensors_in(values)
        before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        try:
            output = run(*arguments)
        except (Exception, SystemExit, TimeUp) as error:
            raise call_fault(subject, hook, error, given) from error
        where = f"{definition(plugin, hook)}: `{hook}`"
        if written := [name for name, tensor in tensors.items() if not torch.equal(tensor, before[name])]:
            raise Blocking(f"{where} writes into {', '.join(written)}", NO_WRITES)
        fits, expected = required_form(hook, output, given)
        if not fits:
            raise Blocking(f"{where} returns {describe_form(output)}; expected {expected}", "a method without `return` gives None")
        if hook != "prepare" and not all(tensor.isfinite().all() for tensor in tensors_in(output).values()):
            advice = "bound the arguments of log, division and exp; attention applies the causal mask"
            raise Blocking(f"{where} returns numbers that are not finite", advice)
        return output

    wrap_hooks(model.encoding, guarded)


def tensors_in(value: Any) -> dict[str, Tensor]:
    """The tensors inside a value, each under an expression for it, such as ``at.shared[0]``."""
    leaves = pytree.tree_flatten_with_path(value)[0]
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, Tensor)}


def required_form(hook: str, output: Any, given: dict[str, Any]) -> tuple[bool, str]:
    """Whether a hook's output has the right form, and that form in words."""
    if hook == "prepare":
        return True, "anything"
    if hook == "positions":
        shapes = (given["tokens"].shape, given["tokens"].shape[1:])
        fits = isinstance(output, Tensor) and output.shape in shapes and output.dtype not in (torch.bool, torch.complex64)
        return fits, "numbers [T] or [B, T]"
    if hook == "rotate":
        q = given["q"]
        fits = isinstance(output, tuple) and len(output) == 2 and all(isinstance(part, Tensor) for part in output)
        fits = fits and all(o.shape == (*q.shape[:-1], output[0].shape[-1]) and o.dtype == q.dtype for o in output)
        return fits, f"the tuple q, k, both [B, H, T, e] of {q.dtype}"
    if hook == "bias":
        shape = (*given["q"].shape[:3], given["k"].shape[2])
        fits = isinstance(output, Tensor) and output.dtype in (torch.float32, torch.float64) and broadcasts(output, shape)
        return fits or output is None, "None, or float32 or float64 broadcastable to [B, H, T, T]"
    like = given["x" if hook == "embed" else "v"]
    fits = isinstance(output, Tensor) and output.shape == like.shape and output.dtype == like.dtype
    return fits, describe_form(like)


def describe_form(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_form, value))})"
    return f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def broadcasts(bias: Tensor, shape: tuple[int, ...]) -> bool:
    try:
        return torch.broadcast_shapes(bias.shape, shape) == torch.Size(shape)
    except RuntimeError:
        return False


@encoding_check("interface")
def check_interface(subject: Subject) -> str:
    """Every hook returns what the table in bench/encodings/base.py says, for 1, 3, 4 and 6 heads and in float64, and changes
    neither its arguments nor weights."""
    case = subject.main
    for training in (True, False):
        for width in (2, case.setup.train_tokens, case.setup.longest_tokens):
            require_hooks(subject, case, width, training=training)
    for heads in (1, 3, 6):
        require_hooks(subject, case, case.setup.train_tokens, heads, torch.float64)
    return "all hooks return what they should, in every layer, and change no argument"


@encoding_check("positions", advice="set shift_invariant in info, and float_ids on the class, to what was found")
def check_positions(subject: Subject) -> str:
    """Info declares correctly whether adding a constant to all position ids changes outputs, and whether ids may be fractions."""
    cls, case = subject.cls, subject.main
    width, longest = case.setup.train_tokens, case.setup.longest_tokens
    ids = torch.arange(width)
    original = states_with_ids(subject, ids)
    shifted = []
    for shift in (*SHIFTS, longest - width):
        try:
            shifted.append(states_with_ids(subject, ids + shift))
        except IndexError:  # a table may end, but not before L′
            if width + shift <= longest:
                raise
    if cls.info.shift_invariant and any(rows_differ(original, other, 1e-3).any() for other in shifted):
        raise Fault("adding a constant to all position ids changes outputs, but info says shift_invariant=True")
    if not cls.info.shift_invariant and not any(rows_differ(original, other, 1e-2).any() for other in shifted):
        raise Fault("adding a constant to all position ids changes nothing, but info says shift_invariant=False")
    if takes_fractions(cls):
        try:
            finite = states_with_ids(subject, ids.double() / 2).isfinite().all()
        except (RuntimeError, IndexError, TypeError) as error:
            raise Fault(f"fractional position ids raise {describe_error(error)}", "declare float_ids = False") from error
        if not finite:
            raise Fault("fractional position ids give numbers that are not finite", "declare float_ids = False")
    return "as declared"


def takes_fractions(cls: type[Encoding]) -> bool:
    """Whether an encoding takes fractional ids; a wrapper passes ids on, so everything inside must take them too."""
    return cls.float_ids and (not issubclass(cls, Wrapper) or takes_fractions(cls.inner))


def states_with_ids(subject: Subject, ids: Tensor) -> Tensor:
    """Outputs of a model with the given position ids instead of its encoding's own."""
    model = subject.model(noise=1.0)
    model.encoding.positions = lambda tokens, at: ids  # type: ignore[method-assign]
    model.cacheable = False
    return hidden_states(model, subject.main.sequences(2, len(ids), seed=0))


@encoding_check("tokens", advice="use only tokens.shape and tokens.device, or declare ranking='task-aware' in info")
def check_tokens(subject: Subject) -> str:
    """Position ids depend on tokens only if info declares ranking='task-aware'. Other encodings are shown zeros."""
    if subject.cls.info.ranking == "task-aware":
        return "position ids may depend on tokens, as declared"
    for case in subject.cases:
        encoding, tokens = subject.model(case).encoding, case.sequences(64, case.setup.longest_tokens, seed=0)
        at = [At(tokens.shape[1], generator=torch.Generator().manual_seed(0)) for _ in range(2)]
        first, second = (encoding.positions(batch, at) for batch, at in zip((tokens, tokens * 0), at, strict=True))
        if not torch.equal(first, second):
            raise Fault("`positions` gives other ids for other tokens, but info does not say ranking='task-aware'")
    return "position ids depend only on the number of tokens"
