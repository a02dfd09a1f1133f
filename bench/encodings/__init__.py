"""Positional encodings, one family per file. The hooks and their rules are in ``base.py``, papers and provenance in
``bibliography.toml``.

To add an encoding, add a file here: every ``Encoding`` subclass with its own ``info`` is registered under ``info.name``. A file
of wrappers lists in ``ENTRIES`` the compositions that get their own row on the board; users can name any other composition on
the command line. ``bench.plugins`` loads encodings that are not built in.
"""

import importlib
import inspect
import pkgutil
from functools import cache

from tasks import defined_in

from .base import At, Encoding, Info, Setup, Stage, Wrapper, distances
from .compose import resolve, settings

__all__ = [
    "At", "Encoding", "Info", "Setup", "Stage", "Wrapper",
    "catalogue", "distances", "hooks", "settings",
]  # fmt: skip


@cache
def classes() -> dict[str, type[Encoding]]:
    """Name → class of every encoding defined in this package, wrappers included, sorted by name."""
    modules = [importlib.import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)]
    found = [cls for module in modules for cls in defined_in(module, Encoding) if "info" in vars(cls)]
    return {cls.info.name: cls for cls in sorted(found, key=lambda cls: cls.info.name)}


@cache
def catalogue() -> dict[str, type[Encoding]]:
    """Name → class of every encoding with its own row on the board, sorted by name: all but the wrappers, plus ``ENTRIES``."""
    plain = {name: cls for name, cls in classes().items() if not issubclass(cls, Wrapper)}
    modules = {inspect.getmodule(cls) for cls in classes().values()}
    composed = [resolve(text, classes()) for module in modules for text in getattr(module, "ENTRIES", ())]
    return dict(sorted((plain | {cls.info.name: cls for cls in composed}).items()))


HOOKS = ("positions", "prepare", "embed", "rotate", "bias", "attend", "advance")


def hooks(cls: type[Encoding]) -> list[str]:
    """The hooks that an encoding overrides, in call order; for a wrapper, those of the wrapped encoding too."""
    plain = Wrapper if issubclass(cls, Wrapper) else Encoding
    inner = hooks(cls.inner) if issubclass(cls, Wrapper) else []
    return [name for name in HOOKS if name in inner or getattr(cls, name) is not getattr(plain, name)]
