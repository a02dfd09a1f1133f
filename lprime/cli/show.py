"""``lprime show``: encodings, tasks and suites, all in one line each or one in full."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, print_json

if TYPE_CHECKING:
    from bench.suites.suite import Suite

COLUMNS = {
    "encodings": ("name", "family", "year", "source"),
    "tasks": ("name", "length"),
    "suites": ("name", "version", "about"),
}
"""Kind → columns of its list."""
WIDTH = 47
"""Of the last column, so that a list fits 80 columns."""


def show_list(
    kind: Annotated[str | None, typer.Argument(metavar="encodings|tasks|suites", help="One kind [default: all].")] = None,
    as_json: Json = False,
) -> None:
    """List encodings, tasks and suites."""
    from tabulate import tabulate

    from tasks import unknown

    if kind is not None and kind not in COLUMNS:
        raise unknown("kind", kind, COLUMNS)
    items = {one: [make() for make in catalogue(one, as_json).values()] for one in ([kind] if kind else COLUMNS)}
    if as_json:
        return print_json([item for own in items.values() for item in own])
    for one, own in items.items():
        rows = [["\n".join(text_lines(item.get(column, ""))) for column in COLUMNS[one]] for item in map(readable, own)]
        widths = [None] * (len(COLUMNS[one]) - 1) + [WIDTH]
        print(tabulate(rows, headers=[one[:-1], *COLUMNS[one][1:]], tablefmt="simple", maxcolwidths=widths), end="\n\n")


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An encoding or a suite (its name, or its file), or a task.")],
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print the encoding's paper as BibTeX.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the encoding's cost here; a minute or two.")] = False,
    as_json: Json = False,
) -> None:
    """Show one encoding, task or suite in full; an encoding with its line of the published board."""
    from bench.plugins.loading import one_line_errors
    from bench.plugins.registry import get_encoding, get_task
    from bench.result import read_json
    from leaderboard import published_folder
    from leaderboard.results.file_names import LINES
    from tasks import InputError, example

    if bibtex and as_json:
        raise InputError("--bibtex prints BibTeX; expected no --json with it")
    items = find(name)
    for item in items:
        if item["kind"] == "encoding" and "formula" in item:
            if bibtex:
                from leaderboard.render.pages import render

                return print(render("bibtex.j2", item=item))
            fault = "was not written by `lprime publish`"
            lines = read_json(published_folder() / LINES, dict[str, dict], fault, "run it again") or {}
            item |= lines.get(item["name"], {})
            if measure:
                from bench.measure.measure import measure_encoding

                costs = measure_encoding(get_encoding(name)).costs
                item |= {f"measured at {cost.length} tokens": cost.model_dump(exclude={"length"}) for cost in costs}
        elif bibtex or measure:
            raise InputError(f"expected an encoding, got {name!r}, which is a {item['kind']}")
        elif item["kind"] == "task":  # not in a list: an example of text reads its corpus
            with one_line_errors(get_task(item["name"])[0]):
                item["examples"] = {variant: example(item["name"], variant, **item["settings"]) for variant in item["variants"]}
    if as_json:
        return print_json(items)
    from tabulate import tabulate

    for item in map(readable, items):  # a task and a suite may have the same name
        rows = [[key.replace("_", " "), "\n".join(text_lines(value))] for key, value in item.items()]
        left = max(30, get_terminal_size((120, 24)).columns - 2 - max(len(key) for key, _ in rows))
        print(tabulate(rows, tablefmt="plain", disable_numparse=True, maxcolwidths=[None, min(100, left)]), end="\n\n")


def catalogue(kind: str, whole: bool = True) -> Mapping[str, Callable[[], dict[str, Any]]]:
    """Name → function that describes it as plain data; of encodings not ``whole``, without what takes a while."""
    if kind == "suites":
        from bench.suites.suite import load_suite, shipped

        return {name: lambda name=name: describe_suite(load_suite(name)) for name in shipped()}  # type: ignore[misc]
    import tasks
    from bench import encodings
    from bench.plugins.registry import distributions, entry_points

    root, where = (tasks.Task, "length") if kind == "tasks" else (encodings.Encoding, "source")
    # Plugins of installed packages are not loaded: their code does not run.
    found: dict[str, Callable[[], Any]] = {
        one: partial(dict, {where: distributions(one, root)}, name=one, kind=kind[:-1]) for one in entry_points(root)
    }
    if kind == "tasks":
        return {name: partial(describe_task, cls) for name, cls in tasks.catalogue().items()} | found
    return {name: partial(describe_encoding, cls, whole) for name, cls in encodings.catalogue().items()} | found


def describe_task(cls, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A task as plain data. Raises ``InputError``: it has no such setting."""
    about = {"name": cls.name, "kind": "task", "title": cls.title, "variants": dict(cls.variants), "length": cls.length_is}
    return about | {"settings": cls(None, 50, **own).settings if own else dict(cls.defaults)}


def describe_suite(suite: "Suite") -> dict[str, Any]:
    """A suite as plain data."""
    fields = suite.model_dump(mode="json", exclude={"name", "tasks"})
    tasks = {one.task: f"{one.variant}, L {one.train_length}, L′ {suite.longest(one.task)}" for one in suite.tasks}
    own = {f"recipe of {one.task}": dict(one.recipe) for one in suite.tasks if one.recipe}
    about = {"name": suite.name, "kind": "suite", "fingerprint": suite.fingerprint, "tasks": tasks}
    return about | fields | own


def describe_encoding(cls, whole: bool = True) -> dict[str, Any]:
    """The info of an encoding, with its hooks, settings and parameters, as plain data."""
    from dataclasses import asdict

    from bench import encodings
    from bench.measure.measure import extra_parameters
    from bench.plugins.loading import one_line_errors

    if not whole:
        return asdict(cls.info)
    with one_line_errors(cls):
        derived = {"hooks": encodings.hooks(cls), "settings": encodings.settings(cls), "parameters": extra_parameters(cls)}
    return asdict(cls.info) | {"kind": "encoding"} | derived


def readable(item: dict[str, Any]) -> dict[str, Any]:
    """Names of fields, family and ranking class as the board has them."""
    from leaderboard.results.facts import CLASSES, FACTS, FAMILIES, SOURCES

    titles, names = {"family": FAMILIES, "ranking": CLASSES, "source": SOURCES}, FACTS | {"past": "beyond L"}
    item = {key: value for key, value in item.items() if key != "sees" or value}
    return {names.get(key, key): titles[key].get(value, value) if key in titles else value for key, value in item.items()}


def find(name: str) -> list[dict[str, Any]]:
    """Everything of that name, as plain data.

    Raises:
        InputError: there is nothing, with the nearest match.
    """
    from bench.plugins.references import references_in
    from bench.plugins.registry import entry_points, get_encoding, get_task, is_task
    from bench.suites.suite import load_suite, split_task
    from tasks import Task, unknown

    with_task = bool(split_task(name)[1])
    if not with_task and ("(" in name or references_in(name) or name in entry_points() | entry_points(Task)):
        return [describe_task(*get_task(name)) if is_task(name) else describe_encoding(get_encoding(name))]
    if with_task or name.endswith((".yaml", ".yml")):
        return [describe_suite(load_suite(name))]
    known = [catalogue(kind) for kind in COLUMNS]
    found = [own[name]() for own in known if name in own]
    if not found:
        files = [file for file in (f"{name}.py", f"{name}.yaml") if os.path.isfile(file)]
        raise unknown("name", name, files or [*COLUMNS, *(one for own in known for one in own)])
    return found


def text_lines(value: object) -> list[str]:
    """A value as lines of text."""
    from tasks import printable

    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, float):
        return [f"{value:.6g}"]
    if isinstance(value, dict):
        return [f"{str(key).replace('_', ' ')}: {', '.join(text_lines(own))}" for key, own in value.items()] or ["none"]
    if isinstance(value, list):
        items = [", ".join(text_lines(item)) for item in value]
        joined = ", ".join(items)
        return [joined or "none"] if len(joined) < 100 else items
    return [printable(line) for line in str(value).split("\n")]
