"""Declaration: ``info`` and settings must be complete and correct, and hooks must return what the interface requires."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from bench import encodings, text_rules
from bench.encodings import At, Encoding, Info, Stage, Wrapper
from bench.encodings.base import LONGEST_SHARE
from bench.plugins.registry import get_encoding
from bench.result import RANKING_CLASSES, SOURCE_KINDS
from bench.training.model import Mask, build_decoder
from tasks import InputError

from .checks import Fault, encoding_check
from .source_rules import ALLOWED_IMPORTS, plugin_files, source_faults
from .subject import Case, Subject, hidden_states, rows_differ

MAX_TEXT = 500
MAX_LENGTHS = 60
"""Characters of ``lengths``, which is a column of the board."""
PLAIN_FIELDS = {"family": "", "title": "", "authors": "", "lengths": "/"}
"""Plain text in submissions and results → path separators allowed in it."""
SHIFTS = (1, 37, 5000)
"""Constants added to position ids."""


@encoding_check(
    "declaration",
    expected="info is complete: texts on one line, an https link, a year, a ranking class, a kind of source, length settings "
    f"in at most {MAX_LENGTHS} characters; settings are keyword arguments with plain defaults; in a plugin, as `lprime verify` "
    "requires: family, title, authors and lengths in plain words (no markdown, HTML or path separators), a link of plain "
    f"characters, imports only of {ALLOWED_IMPORTS}",
    advice="correct info in the encoding's class (bench.encodings.Info documents its fields) and the imports before the runs: "
    "both are part of the source hash. source says what the encoding was compared with, such as 'official code' or, for one "
    "of your own, 'own variant'; lengths gives each setting that is a length with its rule, such as 'k = L/2, scaled'",
)
def check_declaration(subject: Subject) -> str:
    cls, info, plugins = subject.cls, subject.cls.info, plugin_classes(subject.cls)
    faults = info_faults(info, bool(plugins))
    if type(info.year) is not int or not 1986 <= info.year <= datetime.now(UTC).year + 1:
        faults.append(f"year is not a year of publication: {info.year!r:.60}")
    if info.ranking not in RANKING_CLASSES:
        faults.append(f"ranking is none of {', '.join(RANKING_CLASSES)}: {info.ranking!r:.60}")
    if info.source not in SOURCE_KINDS:
        faults.append(f"source is none of {', '.join(SOURCE_KINDS)}: {info.source!r:.60}")
    # A composition joins the texts of its parts, each after its name.
    parts = [part.rpartition(": ")[2] for part in str(info.lengths).split("; ")]
    if (longest := max(map(len, parts if issubclass(cls, Wrapper) else [str(info.lengths)]))) > MAX_LENGTHS:
        faults.append(f"lengths has {longest} characters, more than {MAX_LENGTHS}: {info.lengths!r:.60}")
    if cls.stage:
        faults += stage_faults(cls.stage, info, bool(plugins))
    faults += settings_faults(cls, bool(plugins))
    for plugin in plugins:
        faults += info_faults(plugin.info, True)
        try:
            faults += source_faults(plugin_files(plugin))
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise Fault("; ".join(dict.fromkeys(faults)))
    if get_encoding(info.name).info != info:
        raise Fault(f"the name {info.name!r} loads another encoding")
    hooks = ", ".join(encodings.hooks(cls)) or "no hook"
    return f"{info.name}, family {info.family}, ranking {info.ranking}; overrides {hooks}"


def stage_faults(stage: Stage, info: Info, plugin: bool) -> Iterator[str]:
    """Faults of a further training stage."""
    most = Stage().share if stage.longer else LONGEST_SHARE
    if stage.longer and info.ranking == "standard":
        yield "has a further training stage, but its ranking is not 'longer'"
    if not stage.longer and plugin:
        yield "has a further training stage at lengths up to L, which the rules of submissions do not allow"
    if not 0 < stage.share <= most:
        yield f"its further stage takes {stage.share!r:.20} of the steps; expected more than 0, at most {most:g}"


def plugin_classes(cls: type[Encoding]) -> list[type[Encoding]]:
    """An encoding and those it wraps, without built-in ones. Only these must follow the rules of submissions: titles of
    built-in encodings may contain, for example, quotation marks."""
    inner = plugin_classes(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else []
    return inner if cls.__module__.startswith(f"{encodings.__name__}.") else [cls, *inner]


def info_faults(info: Info, plugin: bool) -> list[str]:
    """Faults in the fields of an info; with ``plugin``, also by the rules of submissions."""
    return [f"{name} {fault}: {getattr(info, name)!r:.60}" for name, fault in field_faults(info, plugin)]


def field_faults(info: Info, plugin: bool) -> Iterator[tuple[str, str]]:
    for field in fields(Info):
        value = getattr(info, field.name)
        if value == field.default == "":
            continue
        if field.type in (str, "str"):
            if not isinstance(value, str) or not value.strip() or value != value.strip() or not value.isprintable():
                yield field.name, "is not one line of text"
            elif len(value) > MAX_TEXT:
                yield field.name, f"has {len(value)} characters, more than {MAX_TEXT}"
            elif plugin and field.name in PLAIN_FIELDS and (fault := plain_field_fault(field.name, value)):
                yield field.name, fault
        elif field.type in (bool, "bool") and type(value) is not bool:
            yield field.name, "is neither True nor False"
    if not str(info.link).startswith("https://"):
        yield "link", "does not begin with https://"
    elif plugin and (fault := text_rules.link_fault(str(info.link))):
        yield "link", fault


def plain_field_fault(name: str, value: str) -> str | None:
    return text_rules.plain_text_fault(value, allowed=PLAIN_FIELDS[name])


def settings_faults(cls: type[Encoding], plugin: bool) -> list[str]:
    """Faults of settings, which must fit into a name such as ``rope(base=500000.0)``."""
    faults = []
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[2:]:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            faults.append(f"argument {parameter.name} of __init__ is not keyword-only (put * before it)")
        elif type(parameter.default) not in (bool, int, float, str):
            faults.append(f"setting {parameter.name} has no default that is a number, True, False or a word")
    if plugin and not faults and (fault := text_rules.settings_fault(encodings.settings(cls))):
        faults.append(f"settings {fault}: {encodings.settings(cls)!r:.60}")
    return faults


@encoding_check(
    "interface",
    expected="every hook returns what the table in bench/encodings/base.py says, for 1, 3, 4 and 6 heads, float32 and float64",
    advice="compare shape and dtype of what the hook returns with its annotation in bench.encodings.Encoding",
)
def check_interface(subject: Subject) -> str:
    case = subject.main
    for heads in (1, 3, 4, 6):
        for dtype in (torch.float32, torch.float64):
            for width in (1, 2, case.setup.train_tokens, case.setup.longest_tokens):
                try:
                    require_hook_outputs(subject, case, heads, dtype, width)
                except Fault as fault:
                    raise Fault(f"{fault} (with {heads} heads, {str(dtype).removeprefix('torch.')}, {width} tokens)") from None
    spec = case.suite.model.model_copy(update={"heads": 4, "width": 64})
    model = build_decoder(spec, subject.cls, replace(case.setup, heads=4, head_width=16, width=64), 0)
    tokens = case.sequences(2, case.setup.train_tokens, seed=0)
    single = hidden_states(model, tokens)
    double = hidden_states(model.double(), tokens)
    if double.dtype != torch.float64 or rows_differ(single, double.float(), 1e-3).any():
        raise Fault("a model in float64 gives other outputs than in float32")
    return "all hooks return what they should, in every layer"


def require_hook_outputs(subject: Subject, case: Case, heads: int, dtype: torch.dtype, width: int) -> None:
    """Call the hooks without a model, in the model's order."""
    d, b = 8, 2
    setup = replace(case.setup, heads=heads, head_width=d, width=heads * d)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoding = subject.cls.make(setup).to(dtype)
        q, k, v = torch.randn(3, b, heads, width, d, dtype=dtype)
        x = torch.randn(b, width, setup.width, dtype=dtype)
    tokens = case.sequences(b, width, seed=0)
    at = At(announced_length=max(width, setup.train_tokens), generator=torch.Generator().manual_seed(0))
    ids = encoding.positions(tokens, at)
    if not isinstance(ids, Tensor) or ids.shape not in ((width,), (b, width)) or ids.is_complex() or ids.dtype == torch.bool:
        raise Fault(f"`positions` returns {describe_form(ids)}; expected numbers [T] or [B, T]")
    at = replace(at, ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    for layer in range(setup.layers):
        at = replace(at, layer=layer, source=None)
        require_same_form("embed", encoding.embed(x, at), x)
        at = replace(at, source=lambda: x)
        rotated = encoding.rotate(q, k, at)
        if not (isinstance(rotated, tuple) and len(rotated) == 2):
            raise Fault(f"`rotate` returns {type(rotated).__name__}; expected the pair q, k")
        for name, r in zip("qk", rotated, strict=True):
            if not isinstance(r, Tensor) or r.shape[:-1] != q.shape[:-1] or r.shape != rotated[0].shape or r.dtype != dtype:
                raise Fault(f"`rotate` returns {name} of {describe_form(r)}; expected q and k both [B, H, T, e] of {dtype}")
        bias = encoding.bias(*rotated, at)
        if bias is not None:
            fits = isinstance(bias, Tensor) and bias.is_floating_point() and broadcasts(bias, (b, heads, width, width))
            if not fits:
                raise Fault(f"`bias` returns {describe_form(bias)}; expected None or numbers broadcastable to [B, H, T, T]")
            if not bias.isfinite().all():
                raise Fault("`bias` is not finite; the model adds the causal mask itself")
        require_same_form("attend", encoding.attend(*rotated, v, Mask(causal=True)(bias, rotated[0]), at), v)


@encoding_check(
    "devices",
    expected="tensors are created on the device of the tokens, so that the encoding runs on a GPU too",
    advice="pass device=… to torch.arange and the like (at.positions.device, for instance), and keep fixed tables in "
    "register_buffer",
)
def check_devices(subject: Subject) -> str:
    # The meta device computes nothing, but like a GPU it rejects operations on tensors of different devices.
    case = subject.main
    model, tokens = subject.model().to("meta"), case.sequences(2, case.setup.train_tokens, seed=0).to("meta")
    for training in (True, False):
        try:
            model.train(training)(tokens, case.setup.longest_tokens)
        except Exception as error:
            if re.search("expected device|same device", str(error)):
                raise Fault(f"{type(error).__name__}: {' '.join(str(error).split()):.300}") from error
            return f"cannot be checked without a GPU ({type(error).__name__})"
    return "all tensors on one device"


def require_same_form(hook: str, output: Any, like: Tensor) -> None:
    if not isinstance(output, Tensor) or output.shape != like.shape or output.dtype != like.dtype:
        raise Fault(f"`{hook}` returns {describe_form(output)}; expected {describe_form(like)}")


def describe_form(value: Any) -> str:
    return f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def broadcasts(bias: Tensor, shape: tuple[int, ...]) -> bool:
    try:
        return torch.broadcast_shapes(bias.shape, shape) == torch.Size(shape)
    except RuntimeError:
        return False


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
