"""lprime: train at L, test at L′. The public Python API; the command line is in ``lprime.cli``.

::

    import lprime

    frame = lprime.results("small")                            # published results and your own, one row per run and length
    report = lprime.check("my_encoding.py")                    # or a class, also one of a notebook
    frame = lprime.evaluate("my_encoding.py", "quick", "copying")
    lprime.plot(frame)
    model = lprime.train("rope", "quick", "copying")           # a torch module, with its weights
    data = lprime.load_task("copying", "small")                # datasets.DatasetDict
    lprime.train(model=mine, task="copying")                   # your own torch module, from ids to logits, with the recipe
    other = lprime.evaluate_model(mine, "quick", "copying")    # any causal model
    alibi = lprime.attention("alibi", heads=8, head_width=64, train_length=1024)    # a torch module of q, k, v

    class Mine(lprime.Encoding):
        info = lprime.Info(name="mine", ...)

Names are loaded on first use, so that importing ``lprime`` is fast. Bad input raises ``lprime.InputError``. This package may
import all others: ``tasks`` → ``bench`` → ``leaderboard``, and ``slurm``, which runs grids on a cluster.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.encodings import At, Encoding, Info, Setup, Stage, Wrapper
    from tasks import InputError, Ragged, Task, Vocabulary

    from .api.attention import attention, hooks
    from .api.figures import plot
    from .api.models import evaluate_model, train
    from .api.runs import check, evaluate
    from .api.tables import load_task, results

__all__ = [
    "At", "Encoding", "Info", "InputError", "Ragged", "Setup", "Stage", "Task", "Vocabulary", "Wrapper",
    "attention", "check", "evaluate", "evaluate_model", "hooks", "load_task", "plot", "results", "train",
]  # fmt: skip

MODULES = {
    **dict.fromkeys(("attention", "hooks"), "lprime.api.attention"),
    **dict.fromkeys(("At", "Encoding", "Info", "Setup", "Stage", "Wrapper"), "bench.encodings"),
    **dict.fromkeys(("InputError", "Ragged", "Task", "Vocabulary"), "tasks"),
    **dict.fromkeys(("evaluate_model", "train"), "lprime.api.models"),
    **dict.fromkeys(("check", "evaluate"), "lprime.api.runs"),
    **dict.fromkeys(("load_task", "results"), "lprime.api.tables"),
    "plot": "lprime.api.figures",
}
"""Name → its module."""
PACKAGES = ("tasks", "bench", "leaderboard", "slurm")
"""Top-level packages of this distribution besides this one."""
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class OwnPackages:
    """Finds ``PACKAGES`` next to this package before ``sys.path`` is searched: the current folder may have a ``tasks.py``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [ROOT]) if name in PACKAGES else None


sys.meta_path.insert(0, OwnPackages)
for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:  # of the user; who imported it keeps it
    if not os.path.realpath(getattr(sys.modules[name], "__file__", None) or "").startswith(ROOT + os.sep):
        del sys.modules[name]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("lprime")
    if name not in MODULES:
        raise AttributeError(f"module 'lprime' has no attribute {name!r}")
    return getattr(importlib.import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
