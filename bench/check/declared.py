"""What an encoding says of itself, and whether its hooks have the form they should."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from tasks import InputError

from .. import encodings
from ..encodings import At, Encoding, Info, Stage, Wrapper
from ..encodings.compose import STRICTNESS
from ..model import Mask, build
from . import words
from .source import IMPORTS, own_files, source_faults
from .subject import Case, Fault, Subject, check, differs, states

LONGEST_TEXT = 500
PLAIN = ("family", "title", "authors")
"""Texts that submissions and their results repeat."""
SHIFTS = (1, 37, 500)


@check(
    "declaration",
    expected="info is complete: texts on one line, a https link, a year, a ranking class; settings are keyword arguments with "
    "plain defaults; of a plugin, as `lprime verify` asks: family, title and authors in plain words (no markdown, HTML or path "
    f"separators), a link of plain characters, source that imports only {IMPORTS}",
    advice="fill in info in the encoding's class; see bench.encodings.Info for what each field means. Both info and imports "
    "belong to the source hash: mend them before the runs",
)
def declaration(subject: Subject) -> str:
    cls, info, own = subject.cls, subject.cls.info, plugged(subject.cls)
    faults = [f"{what} {fault}: {getattr(info, what)!r:.60}" for what, fault in info_faults(info, bool(own))]
    if type(info.year) is not int or not 1986 <= info.year <= datetime.now(UTC).year + 1:
        faults.append(f"year is not one: {info.year!r:.60}")
    if info.ranking not in STRICTNESS:
        faults.append(f"ranking is none of {', '.join(STRICTNESS)}: {info.ranking!r:.60}")
    elif cls.stage and info.ranking == "standard":
        faults.append("has a further stage of training, but its ranking is not 'longer'")
    if cls.stage and not 0 < cls.stage.share <= Stage().share:
        faults.append(f"its further stage takes {cls.stage.share!r:.20} of the steps, expected at most {Stage().share:g}")
    faults += settings_faults(cls, bool(own))
    for part in own:
        faults += [f"{what} {fault}: {getattr(part.info, what)!r:.60}" for what, fault in info_faults(part.info, True)]
        faults += brought_faults(part)
    if faults:
        raise Fault("; ".join(dict.fromkeys(faults)))
    if encodings.get(info.name).info != info:
        raise Fault(f"its name {info.name!r} leads to another encoding")
    hooks = ", ".join(encodings.hooks(cls)) or "no hook"
    return f"{info.name}, family {info.family}, ranking {info.ranking}; overrides {hooks}"


def plugged(cls: type[Encoding]) -> list[type[Encoding]]:
    """What an encoding is or wraps that is not built in. Rules of submissions are for these alone: a paper's title may hold
    quotation marks, and the board knows how to show those."""
    inner = plugged(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else []
    return inner if cls.__module__.startswith(f"{encodings.__name__}.") else [cls, *inner]


def info_faults(info: Info, submitted: bool) -> Iterator[tuple[str, str]]:
    """Fields of an info, each with what is wrong with it; ``submitted``: by the rules of submissions too."""
    for field in fields(Info):
        value = getattr(info, field.name)
        if field.type in (str, "str"):
            if not isinstance(value, str) or not value.strip() or value != value.strip() or not value.isprintable():
                yield field.name, "is not one line of text"
            elif len(value) > LONGEST_TEXT:
                yield field.name, f"has {len(value)} characters, more than {LONGEST_TEXT}"
            elif submitted and field.name in PLAIN and (fault := words.plain(value)):
                yield field.name, fault
        elif field.type in (bool, "bool") and type(value) is not bool:
            yield field.name, "is neither True nor False"
    if not str(info.link).startswith("https://"):
        yield "link", "does not begin with https://"
    elif submitted and (fault := words.link(str(info.link))):
        yield "link", fault


def settings_faults(cls: type[Encoding], submitted: bool) -> list[str]:
    """Settings have to be readable, and to fit into a name such as ``rope(base=500000.0)``."""
    faults = []
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[2:]:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            faults.append(f"argument {parameter.name} of __init__ is not keyword-only (put * before it)")
        elif type(parameter.default) not in (bool, int, float, str):
            faults.append(f"setting {parameter.name} has no default that is a number, True, False or a word")
    if submitted and not faults and (fault := words.settings(encodings.settings(cls))):
        faults.append(f"settings {fault}: {encodings.settings(cls)!r:.60}")
    return faults


def brought_faults(plugin: type[Encoding]) -> list[str]:
    """What keeps a plugin's source from being submitted."""
    try:
        return source_faults(own_files(plugin))
    except InputError as error:
        return [str(error)]


@check(
    "interface",
    expected="every hook gives what the table in bench/encodings/base.py says, for 1, 3, 4 and 6 heads, in float32 and float64",
    advice="compare shape and dtype of what the hook returns with its annotation in bench.encodings.Encoding",
)
def interface(subject: Subject) -> str:
    case = subject.main
    for heads in (1, 3, 4, 6):
        for dtype in (torch.float32, torch.float64):
            for width in (1, 2, case.setup.train_tokens, case.setup.longest_tokens):
                try:
                    hooks_fit(subject, case, heads, dtype, width)
                except Fault as fault:
                    raise Fault(f"{fault} (with {heads} heads, {str(dtype).removeprefix('torch.')}, {width} tokens)") from None
    spec = case.suite.model.model_copy(update={"heads": 4, "width": 64})
    model = build(spec, subject.cls, replace(case.setup, heads=4, head_width=16, width=64), 0)
    tokens = case.sequences(2, case.setup.train_tokens, seed=0)
    single = states(model, tokens)
    double = states(model.double(), tokens)
    if double.dtype != torch.float64 or differs(single, double.float(), 1e-3).any():
        raise Fault("a model in float64 gives other outputs than in float32")
    return "all hooks give what they should, in every layer"


def hooks_fit(subject: Subject, case: Case, heads: int, dtype: torch.dtype, width: int) -> None:
    """One pass through the hooks by themselves, in the model's order."""
    d, b = 8, 2
    setup = replace(case.setup, heads=heads, head_width=d, width=heads * d)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoding = subject.cls.make(setup).to(dtype)
        q, k, v = torch.randn(3, b, heads, width, d, dtype=dtype)
        x = torch.randn(b, width, setup.width, dtype=dtype)
    tokens = case.sequences(b, width, seed=0)
    at = At(nominal=max(width, setup.train_tokens), generator=torch.Generator().manual_seed(0))
    ids = encoding.positions(tokens, at)
    if not isinstance(ids, Tensor) or ids.shape not in ((width,), (b, width)) or ids.is_complex() or ids.dtype == torch.bool:
        raise Fault(f"`positions` gives {form(ids)}; expected numbers [T] or [B, T]")
    at = replace(at, ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    for layer in range(setup.layers):
        at = replace(at, layer=layer, source=None)
        same("embed", encoding.embed(x, at), x)
        at = replace(at, source=lambda: x)
        turned = encoding.rotate(q, k, at)
        if not (isinstance(turned, tuple) and len(turned) == 2):
            raise Fault(f"`rotate` gives {type(turned).__name__}; expected the pair q, k")
        for name, one in zip("qk", turned, strict=True):
            if (
                not isinstance(one, Tensor)
                or one.shape[:-1] != q.shape[:-1]
                or one.shape != turned[0].shape
                or one.dtype != dtype
            ):
                raise Fault(f"`rotate` gives {name} of {form(one)}; expected [B, H, T, e] and {dtype}, q and k alike")
        bias = encoding.bias(*turned, at)
        if bias is not None:
            fits = isinstance(bias, Tensor) and bias.is_floating_point() and broadcasts(bias, (b, heads, width, width))
            if not fits:
                raise Fault(f"`bias` gives {form(bias)}; expected None or numbers broadcastable to [B, H, T, T]")
            if not bias.isfinite().all():
                raise Fault("`bias` is not finite; the model adds the causal mask by itself")
        same("attend", encoding.attend(*turned, v, Mask(causal=True)(bias, turned[0]), at), v)


@check(
    "devices",
    expected="tensors are made where the tokens are, so that it runs on a GPU too",
    advice="give device=… to torch.arange and the like (at.positions.device, say), and keep fixed tables in register_buffer",
)
def devices(subject: Subject) -> str:
    # A stand-in for the GPU, at which nothing is computed: where tensors meet, it is as strict about their devices.
    case = subject.main
    model, tokens = subject.model().to("meta"), case.sequences(2, case.setup.train_tokens, seed=0).to("meta")
    for training in (True, False):
        try:
            model.train(training)(tokens, case.setup.longest_tokens)
        except Exception as error:
            if re.search("expected device|same device", str(error)):
                raise Fault(f"{type(error).__name__}: {' '.join(str(error).split()):.300}") from error
            return f"cannot be told without a GPU ({type(error).__name__})"
    return "all tensors on one device"


def same(hook: str, given: Any, like: Tensor) -> None:
    if not isinstance(given, Tensor) or given.shape != like.shape or given.dtype != like.dtype:
        raise Fault(f"`{hook}` gives {form(given)}; expected {form(like)}")


def form(value: Any) -> str:
    return f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def broadcasts(bias: Tensor, shape: tuple[int, ...]) -> bool:
    try:
        return torch.broadcast_shapes(bias.shape, shape) == torch.Size(shape)
    except RuntimeError:
        return False


@check(
    "positions",
    expected="shift_invariant and float_ids are as declared: moving all position ids by the same amount changes nothing, and "
    "fractions are taken",
    advice="declare shift_invariant in info, and float_ids on the class, as they are found here",
)
def positions(subject: Subject) -> str:
    cls, case = subject.cls, subject.main
    width = case.setup.train_tokens
    tokens = case.sequences(2, width, seed=0)
    whole = torch.arange(width)
    shifts = [n for n in (*SHIFTS, case.setup.longest_tokens - width) if n >= 0]
    plain = with_ids(subject, case, tokens, whole, stir=1.0)
    moved = []
    for shift in shifts:
        try:
            moved.append(with_ids(subject, case, tokens, whole + shift, stir=1.0))
        except IndexError:  # a table ends somewhere; up to L′ it may not
            if width + shift <= case.setup.longest_tokens:
                raise
    far = any(differs(plain, other, 1e-2).any() for other in moved)
    near = any(differs(plain, other, 1e-3).any() for other in moved)
    if cls.info.shift_invariant and near:
        raise Fault("moving all position ids by the same amount changes outputs, but info says shift_invariant=True")
    if not cls.info.shift_invariant and not far:
        raise Fault("moving all position ids by the same amount changes nothing, but info says shift_invariant=False")
    if takes_fractions(cls):
        try:
            half = with_ids(subject, case, tokens, whole.double() / 2)
        except (RuntimeError, IndexError, TypeError) as error:
            raise Fault(
                f"position ids that are fractions give {type(error).__name__}: {error}", "declare float_ids = False"
            ) from error
        if not half.isfinite().all():
            raise Fault("position ids that are fractions give numbers that are not finite", "declare float_ids = False")
    effect, may = "nothing" if cls.info.shift_invariant else "outputs", "may" if takes_fractions(cls) else "may not"
    return f"moving all ids changes {effect}, and ids {may} be fractions, as declared"


def takes_fractions(cls: type[Encoding]) -> bool:
    """A wrapper hands ids on, so all inside must take them."""
    return cls.float_ids and (not issubclass(cls, Wrapper) or takes_fractions(cls.inner))


def with_ids(subject: Subject, case: Case, tokens: Tensor, ids: Tensor, stir: float = 0.1) -> Tensor:
    """Outputs of a model that is given other ids than its encoding's own."""
    model = subject.model(case, stir=stir)
    model.encoding.positions = lambda tokens, at: ids  # type: ignore[method-assign]
    model.fixed = False
    return states(model, tokens)
