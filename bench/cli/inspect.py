"""``lprime list``, ``lprime show``: what there is."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")]
KINDS = ("encodings", "tasks", "suites")


def register(app: typer.Typer) -> None:
    app.command(name="list")(list_)
    app.command()(show)


def describe(kind: str) -> list[dict[str, Any]]:
    """Everything of a kind, as plain data."""
    if kind == "tasks":
        import tasks

        return [
            {"name": t.name, "kind": "task", "title": t.title, "variants": dict(t.variants), "length": t.length_is}
            for t in tasks.catalogue().values()
        ]
    if kind == "suites":
        from bench.suite import load_suite, shipped

        suites = [load_suite(name) for name in shipped()]
        return [
            {"name": s.name, "kind": "suite", "version": s.version, "fingerprint": s.fingerprint, "about": s.about,
             "tasks": [f"{t.task} {t.variant}, L {t.train_length}, L′ {s.longest(t.task)}" for t in s.tasks],
             "encodings": s.encodings, "seeds": s.seeds}
            for s in suites
        ]  # fmt: skip
    from bench import encodings

    return [describe_encoding(cls) for cls in encodings.catalogue().values()] + plugged_in()


def plugged_in() -> list[dict[str, Any]]:
    """Encodings that installed packages announce; one that is broken says why, and nothing else suffers."""
    from bench import plugins
    from tasks import InputError

    found = []
    for name in plugins.entry_points():
        here: dict[str, Any] = {"name": name, "kind": "encoding", "distribution": plugins.distributions(name)}
        try:
            with redirect_stdout(sys.stderr):  # what a plugin prints is no part of ours
                found.append(describe_encoding(plugins.load_installed(name)) | here)
        except Exception as error:  # whatever it does when it is made
            reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            found.append(here | {"broken": " ".join(reason.split())})
    return found


def describe_encoding(cls) -> dict[str, Any]:
    """What an encoding declares and is made of, as plain data."""
    from dataclasses import asdict

    from bench import encodings
    from bench.card import extra_parameters
    from bench.modules import at_work

    with at_work(cls):
        made = {"hooks": encodings.hooks(cls), "settings": encodings.settings(cls), "parameters": extra_parameters(cls)}
    return asdict(cls.info) | {"kind": "encoding"} | made


def list_(
    kind: Annotated[str | None, typer.Argument(metavar="[encodings|tasks|suites]", help="One kind; all by default.")] = None,
    as_json: Json = False,
) -> None:
    """What can be run: encodings, tasks and suites."""
    from tasks import unknown

    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    kinds = [kind] if kind else list(KINDS)
    if as_json:
        print(json.dumps([item for k in kinds for item in describe(k)], indent=1, ensure_ascii=False))
        return
    from tabulate import tabulate

    columns: dict[str, tuple[str, ...]] = {
        "encodings": ("name", "family", "year", "hooks", "parameters"),
        "tasks": ("name", "length"),
        "suites": ("name", "version", "about"),
        "plugins": ("name", "distribution", "broken"),
    }
    for k in kinds:
        items = describe(k)
        broken = [item for item in items if "broken" in item]
        shown = columns[k] + (("distribution",) if any("distribution" in item for item in items if item not in broken) else ())
        tables = [(k[:-1], shown, [item for item in items if item not in broken])]
        tables += [("broken plugin", columns["plugins"], broken)] if broken else []
        for title, names, members in tables:
            rows = [[", ".join(v) if isinstance(v := item.get(c, ""), list) else v for c in names] for item in members]
            widths = [None] * (len(names) - 1) + [80]
            print(tabulate(rows, headers=[title, *names[1:]], tablefmt="simple", maxcolwidths=widths))
            print()


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An encoding (its name, or its file), a task or a suite.")],
    as_json: Json = False,
    measure: Annotated[bool, typer.Option(help="Measure an encoding's properties, step time and memory (seconds).")] = True,
) -> None:
    """Everything there is to know about one encoding, task or suite."""
    from bench.references import has_reference
    from tasks import InputError, unknown

    everything = {item["name"]: item for kind in KINDS for item in describe(kind)}
    if "(" in name or has_reference(name):  # a composition without a row of its own, other settings, or a file
        from bench import encodings

        everything[name] = describe_encoding(encodings.get(name))
    if name not in everything:
        raise unknown("name", name, [*everything, f"{name}.py"] if Path(f"{name}.py").is_file() else everything)
    item = everything[name]
    if "broken" in item:
        raise InputError(item["broken"])
    if measure and item["kind"] == "encoding":
        item = item | measured(name)
    if as_json:
        print(json.dumps([item], indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in item.items():
        table.add_row(key.replace("_", " "), Text("\n".join(lines(value))))
    Console().print(table)


def measured(name: str) -> dict[str, Any]:
    """The card of an encoding, measured here and now on one thread."""
    from dataclasses import asdict

    import torch

    from bench import encodings
    from bench.card import COST_SUITE, costs, properties
    from bench.modules import at_work

    torch.set_num_threads(1)
    cls = encodings.get(name)
    with at_work(cls):
        rows = [{k: round(v, 3) for k, v in asdict(cost).items()} for cost in costs(cls)]
        return {"properties": asdict(properties(cls)), f"cost_on_{COST_SUITE}": rows}


def lines(value: object) -> list[str]:
    """A value as lines of text."""
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, dict):
        return [f"{str(k).replace('_', ' ')}: {lines(v)[0]}" for k, v in value.items()] or ["none"]
    if isinstance(value, list):
        items = [", ".join(lines(v)) if isinstance(v, dict) else str(v) for v in value]
        joined = ", ".join(items)
        return [joined or "none"] if len(joined) < 100 else items
    return [str(value)]
