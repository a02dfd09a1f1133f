"""``lprime show``: show one encoding, task or suite in full."""

import os
from typing import Annotated, Any

import typer

from .listing import KINDS, describe, describe_encoding, describe_suite
from .options import Json, print_json


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An encoding or a suite (its name, or its file), or a task.")],
    as_json: Json = False,
    measure: Annotated[bool, typer.Option(help="Measure an encoding's properties, step time and memory (seconds).")] = True,
) -> None:
    """Show one encoding, task or suite in full."""
    from bench.plugins.references import references_in
    from bench.suites.suite import load_suite, split_condition
    from tasks import unknown

    known = [item for kind in KINDS for item in describe(kind, name)]
    is_reference = "(" in name or bool(references_in(name))
    if not known and not is_reference and (name.endswith((".yaml", ".yml")) or split_condition(name)[1]):
        known = [describe_suite(load_suite(name))]
    # Not listed: another composition, other settings, or a file; a listed plugin is not loaded yet.
    if is_reference or any("distribution" in item for item in known):
        from bench.plugins.registry import get_encoding

        known = [describe_encoding(get_encoding(name)), *(item for item in known if item["kind"] != "encoding")]
    if not known:
        files = [file for file in (f"{name}.py", f"{name}.yaml") if os.path.isfile(file)]
        raise unknown("name", name, files or dict.fromkeys(item["name"] for kind in KINDS for item in describe(kind)))
    items = [item | measure_encoding(name) if measure and item["kind"] == "encoding" else item for item in known]
    if as_json:
        return print_json(items)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from bench.result import SOURCE_MEANINGS

    for n, item in enumerate(items):  # a task and a suite may have the same name
        if meaning := SOURCE_MEANINGS.get(item.get("source", "")):
            item = item | {"source": f"{item['source']}: {meaning}"}
        table = Table(show_header=False, box=None, pad_edge=False)
        for key, value in item.items():
            table.add_row(key.replace("_", " "), Text("\n".join(text_lines(value))))
        print(end="\n" * (n > 0))
        Console().print(table)


def measure_encoding(name: str) -> dict[str, Any]:
    """Properties and costs of an encoding, measured now on one thread."""
    from bench.measure.measure_card import measure_encoding as measured_now
    from bench.plugins.loading import one_line_errors
    from bench.plugins.registry import get_encoding

    cls = get_encoding(name)
    with one_line_errors(cls):
        measured = measured_now(cls, rounds=5)
    found = {"properties": measured.properties, f"cost_on_{measured.suite}": [dict(cost) for cost in measured.costs]}
    return found | ({"caution": "the machine was busy with other work: times are too long"} if measured.busy else {})


def text_lines(value: object) -> list[str]:
    """A value as lines of text."""
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, dict):
        return [f"{str(k).replace('_', ' ')}: {', '.join(text_lines(v))}" for k, v in value.items()] or ["none"]
    if isinstance(value, list):
        items = [", ".join(text_lines(v)) if isinstance(v, dict) else str(v) for v in value]
        joined = ", ".join(items)
        return [joined or "none"] if len(joined) < 100 else items
    return [str(value) or "none"]
