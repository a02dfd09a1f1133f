"""lprime: train at L, test at L′. The public Python API; the command line is in ``lprime.cli``.

::

    import lprime

    class Mine(lprime.Encoding):
        info = lprime.Info(name="mine", ...)

Names are loaded on first use, so that importing ``lprime`` is fast. This package may import all others: ``tasks`` → ``bench``
→ ``leaderboard``, and ``slurm``, which runs grids on a cluster.
"""

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.encodings import At, Encoding, Info
    from tasks import InputError, Task

__all__ = ["At", "Encoding", "Info", "InputError", "Task"]

MODULES = {"bench.encodings": ("At", "Encoding", "Info"), "tasks": ("InputError", "Task")}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("lprime")
    for module, names in MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'lprime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
