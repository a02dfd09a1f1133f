"""``lprime show``: show one encoding, task or suite in full."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .listing import KINDS, describe, describe_encoding
from .options import Json


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An encoding (its name, or its file), a task or a suite.")],
    as_json: Json = False,
    measure: Annotated[bool, typer.Option(help="Measure an encoding's properties, step time and memory (seconds).")] = True,
) -> None:
    """Show one encoding, task or suite in full."""
    from bench.plugins.references import has_reference
    from tasks import unknown

    everything: dict[str, dict[str, Any]] = {}
    for item in (item for kind in KINDS for item in describe(kind)):
        everything.setdefault(item["name"], item)
    # Not listed: another composition, other settings, or a file; a listed plugin is not loaded yet.
    if "(" in name or has_reference(name) or "distribution" in everything.get(name, ()):
        from bench.plugins.registry import get_encoding

        everything[name] = describe_encoding(get_encoding(name))
    if name not in everything:
        raise unknown("name", name, [*everything, f"{name}.py"] if Path(f"{name}.py").is_file() else everything)
    item = everything[name]
    if measure and item["kind"] == "encoding":
        item = item | measure_encoding(name)
    if as_json:
        print(json.dumps([item], indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from bench.result import SOURCE_MEANINGS

    if item["kind"] == "encoding":
        meaning = SOURCE_MEANINGS.get(item["source"])
        item = item | {"source": f"{item['source']}: {meaning}" if meaning else item["source"]}
    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in item.items():
        table.add_row(key.replace("_", " "), Text("\n".join(text_lines(value))))
    Console().print(table)


def measure_encoding(name: str) -> dict[str, Any]:
    """Properties and costs of an encoding, measured now on one thread."""
    from dataclasses import asdict

    import torch

    from bench.measure.cost import COST_SUITE, measure_costs
    from bench.measure.properties import measure_properties
    from bench.plugins.loading import one_line_errors
    from bench.plugins.registry import get_encoding

    torch.set_num_threads(1)
    cls = get_encoding(name)
    with one_line_errors(cls):
        rows = [{k: round(v, 3) for k, v in cost} for cost in measure_costs(cls)]
        return {"properties": asdict(measure_properties(cls)), f"cost_on_{COST_SUITE}": rows}


def text_lines(value: object) -> list[str]:
    """A value as lines of text."""
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, dict):
        return [f"{str(k).replace('_', ' ')}: {text_lines(v)[0]}" for k, v in value.items()] or ["none"]
    if isinstance(value, list):
        items = [", ".join(text_lines(v)) if isinstance(v, dict) else str(v) for v in value]
        joined = ", ".join(items)
        return [joined or "none"] if len(joined) < 100 else items
    return [str(value) or "none"]
