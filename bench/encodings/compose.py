"""Names of encodings: ``rope``, ``rope(base=500000)``, ``randomised(rope)``, ``ssmax(randomised(alibi), …)``.

A plain name is a class of the catalogue. Settings in brackets replace defaults. The first argument of a wrapper is the encoding
it wraps. Every name resolves to a class with its own ``info``, so the rest of the harness treats them all alike.
"""

import ast
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from bench.result import RANKING_CLASSES, SOURCE_KINDS
from tasks import InputError, unknown

from .base import Encoding, Info, Wrapper
from .bibliography import bibliography

FUSED, CACHE = (get_args(Info.__annotations__[field]) for field in ("fused", "cache"))
Classes = Mapping[str, type[Encoding]]


def resolve(text: str, known: Classes) -> type[Encoding]:
    """Return the class of a name such as ``randomised(rope, longest=2048)``.

    Raises:
        InputError: a syntax error, an unknown encoding or setting (with the nearest match), or a value of the wrong type.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise syntax_fault(text) from None
    return class_of_node(tree, text, known)


def syntax_fault(text: str) -> InputError:
    return InputError(f"{text!r} is not an encoding; expected a name, name(setting=value) or wrapper(name)")


def class_of_node(tree: ast.expr, text: str, known: Classes) -> type[Encoding]:
    """Return the class of one node of a parsed name."""
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    if not isinstance(call.func, ast.Name):
        raise syntax_fault(text)
    name = call.func.id
    if name not in known:
        raise unknown("encoding", name, known)
    cls = known[name]
    if issubclass(cls, Wrapper):
        if call is not tree:
            raise InputError(f"{name} wraps another encoding; expected it in brackets, as in {name}(rope)")
        if len(call.args) != 1:
            raise InputError(f"{name} wraps one encoding, got {len(call.args)} in {text!r}; expected {name}(name)")
        cls = wrapped_class(cls, class_of_node(call.args[0], text, known))
    elif call.args:
        raise InputError(f"{name} wraps no other encoding; expected {name}(setting=value), got {text!r}")
    given = [k.arg or "**" for k in call.keywords]
    if repeated := next((key for key in given if given.count(key) > 1), None):
        raise InputError(f"{text!r} gives the setting {repeated} twice")
    return with_settings(cls, {key: setting_value(k.value, text) for key, k in zip(given, call.keywords, strict=True)})


def setting_value(tree: ast.expr, text: str) -> Any:
    try:
        value = ast.literal_eval(tree)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError
    except (ValueError, TypeError, RecursionError):  # TypeError: a dict with a list as a key
        raise InputError(f"settings in {text!r} must be finite numbers, True, False or quoted words") from None
    return value


def wrapped_class(wrapper: type[Wrapper], inner: type[Encoding]) -> type[Encoding]:
    """Return the class of a wrapper around one encoding."""
    outer, base = wrapper.info, inner.info
    sources = [outer.source, base.source]
    if wrapper.combined_with and base.name not in wrapper.combined_with:
        sources.append("own variant")
    name = f"{outer.name}({base.name})"
    info = replace(
        outer,
        name=name,
        formula=f"{outer.formula}; {base.name}: {base.formula}",
        past=f"{outer.past}; {base.name}: {base.past}",
        provenance=f"{outer.provenance}; {base.name}: {base.provenance}",
        source=max(sources, key=SOURCE_KINDS.index),  # the least sure one
        lengths="; ".join(filter(None, [outer.lengths, base.lengths and f"{base.name}: {base.lengths}"])),
        shift_invariant=outer.shift_invariant and base.shift_invariant,
        random=outer.random or base.random,
        ranking=max(outer.ranking, base.ranking, key=RANKING_CLASSES.index),
        gloss=f"{outer.gloss}; {base.gloss}" if outer.gloss and base.gloss else "",
        fused=max(outer.fused, base.fused, key=FUSED.index),
        cache=max(outer.cache, base.cache, key=CACHE.index),
        checkpoint=outer.checkpoint or base.checkpoint,
        sees=outer.sees or base.sees,
    )
    info = replace(info, **bibliography().get(name, {}))
    members = {"inner": inner, "info": info, "stage": wrapper.stage or inner.stage, "__module__": wrapper.__module__}
    made: Any = type(wrapper.__name__, (wrapper,), members)
    if inner.stage and made.stage is not inner.stage:
        raise InputError(f"{name} has two extra training stages; expected one")
    return made


def training_form(cls: type[Encoding]) -> type[Encoding]:
    """Return the encoding whose training, up to the recipe's last step, is that of ``cls`` bit for bit; often ``cls`` itself.

    A built-in wrapper around an encoding trains as the wrapper around that encoding's form. A plugin's wrapper trains as
    itself unless it declares another, because it may call the wrapped encoding with announced lengths past L.
    """
    # The declaration is not inherited by classes with an `info` of their own, which may train differently.
    plain = next(c for c in cls.__mro__ if issubclass(c, Encoding) and "info" in vars(c) and "(" not in c.info.name)
    if "trained_as" in vars(plain) and (form := cls.trained_as()):
        return training_form(form)
    if not (issubclass(cls, Wrapper) and issubclass(plain, Wrapper)) or not plain.__module__.startswith(f"{__package__}."):
        return cls
    inner = training_form(cls.inner)
    if inner is cls.inner or plain.stage:
        return cls
    return with_settings(wrapped_class(plain, inner), cls.chosen)


def settings(cls: type[Encoding]) -> dict[str, Any]:
    """Return the settings of an encoding and their values; those of a wrapped encoding are nested under its name."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    values = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    inner = {cls.inner.info.name: settings(cls.inner)} if issubclass(cls, Wrapper) else {}
    return values | dict(cls.chosen) | inner


def with_settings(cls: type[Encoding], given: Mapping[str, Any]) -> type[Encoding]:
    """Return the class with the given settings, or the class itself if they are all defaults."""
    name = cls.info.name
    defaults = {k: v for k, v in settings(cls).items() if not isinstance(v, dict)}
    chosen = {key: checked_setting(name, key, value, defaults) for key, value in sorted(given.items())}
    chosen = {key: value for key, value in chosen.items() if value != defaults[key]}  # rope(base=10000) is rope
    if not chosen:
        return cls
    listed = ",".join(f"{key}={value!r}" for key, value in chosen.items())
    full = f"{name[:-1]},{listed})" if name.endswith(")") else f"{name}({listed})"
    info = replace(cls.info, name=full, **bibliography().get(full, {}))
    members = {"info": info, "chosen": dict(cls.chosen) | chosen, "__module__": cls.__module__}
    return type(cls.__name__, (cls,), members)


MAY_BE_ZERO = ("init_std", "offset")
"""Settings with a positive default that may be zero; other numbers with a positive default must be positive."""


def checked_setting(name: str, key: str, value: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a setting's value in the type of its default, or raise ``InputError``."""
    if not defaults:
        raise InputError(f"{name} has no settings, got {key!r}")
    if key not in defaults:
        raise unknown(f"setting of {name}", key, defaults)
    wanted = type(defaults[key])
    if wanted is float and type(value) is int and abs(value) < 1e300:  # a larger one may be no float
        value = float(value)
    if type(value) is not wanted or (wanted is str and not re.fullmatch(r"[a-z0-9_]+", value)):
        raise InputError(f"setting {key} of {name} must be of type {wanted.__name__}, such as {defaults[key]!r}, got {value!r}")
    if wanted in (int, float) and defaults[key] > 0 and (value < 0 or (value == 0 and key not in MAY_BE_ZERO)):
        raise InputError(f"setting {key} of {name} must be above 0, such as {defaults[key]!r}, got {value!r}")
    return value
