"""``lprime show``: show one encoding, task or suite in full."""

import json
import os
from typing import Annotated, Any

import typer

from leaderboard import PUBLISHED, published_folder

from .listing import KINDS, describe, describe_encoding, describe_suite
from .options import Json, print_json


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An encoding or a suite (its name, or its file), or a task.")],
    as_json: Json = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure properties and costs of an encoding here.")] = False,
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print the reference of an encoding only.")] = False,
) -> None:
    """Show one encoding, task or suite in full.

    Of a published encoding: its card and its line of the board.
    """
    items = published_encoding(name) or find(name)
    if bibtex:
        print("\n".join(reference(item) for item in items if item["kind"] == "encoding") or f"{name} is no encoding")
        return
    items = [item | measure_encoding(name) if measure and item["kind"] == "encoding" else item for item in items]
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


def published_encoding(name: str) -> list[dict[str, Any]]:
    """A published encoding as its card and the board describe it, without loading torch; empty if it is not published."""
    from leaderboard.results.cards import read_cards
    from leaderboard.results.facts import fact, family_title, known

    folder = published_folder(PUBLISHED)
    card = read_cards(folder).get(name) if known(name) else None
    lines = board_lines(name) if card and card.declared else {}
    if not (card and card.declared and lines):
        return []
    row, declared = next(iter(lines.values())), card.declared
    item: dict[str, Any] = {"name": name, "kind": "encoding", "gloss": fact(name, "gloss"), "title": row["title"]}
    item |= {"authors": declared.authors, "year": row["year"], "link": row["link"], "code": fact(name, "code")}
    item |= {"family": family_title(row["family"]), "ranking": row["ranking"], "source": declared.source}
    item |= {"formula": declared.formula, "past": declared.past, "provenance": declared.provenance, "hooks": declared.hooks}
    item |= {"settings": row["settings"], "parameters": row["parameters"], "fused_attention": fact(name, "fused")}
    item |= {"kv_cache": fact(name, "cache")}
    item = {key: value for key, value in item.items() if value not in ("", None)} | {"lengths": declared.lengths}
    for suite, own in lines.items():
        item[f"suite_{suite}"] = own["line"]
    if measured := card.measured:
        item |= {"properties": measured.properties, f"cost_on_{measured.suite}": [dict(cost) for cost in measured.costs]}
    return [item]


def board_lines(name: str) -> dict[str, dict[str, Any]]:
    """Suite → what the published board says of an encoding."""
    from leaderboard.render.columns import TERMINAL, parameters, shown
    from leaderboard.render.published import MAIN, build_board
    from leaderboard.results import read_published
    from leaderboard.results.file_names import file_name
    from leaderboard.results.files import RESULTS

    folder, found = published_folder(PUBLISHED), {}
    places = sorted((folder / RESULTS).glob("*/"), key=lambda place: (place.name != MAIN, place.name))
    for place in places:
        if not (place / file_name(name)).is_file() or any(place.name.startswith(f"{one.name}-") for one in places):
            continue
        board = build_board(read_published(folder, place.name), folder)
        own = board.rows[board.rows["encoding"] == name]
        for _, row in own.iterrows():
            columns = [column for column in shown(board.tasks, TERMINAL, own) if column.key != "encoding"]
            line = {column.title: column.show(row) for column in columns}
            runs = board.all_runs[board.all_runs["encoding"] == name]
            more = {"line": line, "settings": json.loads(runs["settings"].iloc[-1]), "parameters": parameters(row)}
            found[place.name] = {key: row[key] for key in ("title", "year", "link", "family", "ranking")} | more
        if found:
            break  # the first suite alone: others take seconds
    return found


def find(name: str) -> list[dict[str, Any]]:
    """Everything of that name, as plain data.

    Raises:
        InputError: there is nothing, with the nearest match.
    """
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
    return known


def reference(item: dict[str, Any]) -> str:
    from leaderboard.results.facts import bibtex

    return bibtex(item["name"], item)


def measure_encoding(name: str) -> dict[str, Any]:
    """Properties and costs of an encoding, measured now on one thread."""
    from bench.measure.measure import measure_encoding as measured_now
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
    if isinstance(value, float):
        return [f"{value:.4g}"]
    if isinstance(value, dict):
        return [f"{str(k).replace('_', ' ')}: {', '.join(text_lines(v))}" for k, v in value.items()] or ["none"]
    if isinstance(value, list):
        items = [", ".join(text_lines(v)) if isinstance(v, dict) else str(v) for v in value]
        joined = ", ".join(items)
        return [joined or "none"] if len(joined) < 100 else items
    return [str(value) or "none"]
