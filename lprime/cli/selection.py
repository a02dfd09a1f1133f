"""Encodings given on the command line: expand groups of them, and try them before any run starts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.runs.run import Run


def expand(names: list[str]) -> list[str]:
    """``all`` and ``family:rotary`` as the built-in encodings they mean; other names stay.

    Families also go by their titles on the board: ``family:score bias``.

    Raises:
        InputError: an unknown family, with the nearest match.
    """
    if not any(name == "all" or name.startswith("family:") for name in names):
        return names
    from bench.encodings import catalogue
    from leaderboard.results.facts import family_title
    from tasks import unknown

    families: dict[str, list[str]] = {}
    for name, cls in catalogue().items():
        families.setdefault(cls.info.family, []).append(name)
    families |= {family_title(family): members for family, members in families.items()}
    groups = {"all": list(catalogue())} | {f"family:{family}": members for family, members in families.items()}
    for name in names:
        if name.startswith("family:") and name not in groups:
            raise unknown("family", name.removeprefix("family:"), families)
    return [member for name in names for member in groups.get(name, [name])]


def try_settings(runs: "Iterable[Run]") -> None:
    """Construct the encodings that have settings, once for each task, rather than fail in each of their runs.

    Raises:
        InputError: a setting is refused, or raises an error.
    """
    from bench.plugins.loading import one_line_errors
    from bench.plugins.registry import get_encoding
    from bench.runs.run_training import encoding_setup

    for run in {(run.suite.name, run.task, run.encoding): run for run in runs if "(" in run.encoding}.values():
        with one_line_errors(cls := get_encoding(run.encoding)):
            cls.make(encoding_setup(run.suite, run.task))


def try_encodings(names: list[str]) -> list[str]:
    """Load encodings and try the hooks of plugins; returns the names under which their results are stored.

    Raises:
        InputError: an unknown name, with the nearest match; a plugin that cannot be loaded, whose hooks cannot be called, or
            whose ``info`` or settings no result can hold.
    """
    from bench.check.contract import try_hooks
    from bench.check.subject import Subject, plugin_classes
    from bench.plugins.registry import get_encoding
    from bench.runs.run_one import encoding_record

    encodings = [get_encoding(name) for name in names]
    for cls in encodings:
        encoding_record(cls)  # caches the present source hash too, so that workers notice later changes
        if plugin_classes(cls):
            try_hooks(Subject(cls))
    return [cls.info.name for cls in encodings]
