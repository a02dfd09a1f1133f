"""Arguments and options that several commands share, and what several commands print."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Annotated, Any

import typer

answer: IO[str] | None = None
"""Where ``print_json`` writes: stdout as it was before ``json_wanted``."""


def refuse_broken_link(folder: Path) -> Path:
    if folder.is_symlink() and not folder.exists():
        raise typer.BadParameter(f"{folder} is a link to nothing; expected the folder of the runs, such as runs")
    return folder


def one(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """The parser of an option that may be repeated: of ``0,1`` it says how to give both."""

    def parse(text: str) -> Any:
        values = re.split(r",(?![^(]*\))", str(text))  # not the commas in brackets
        if len(values) > 1 and all(values) and not os.path.exists(text):
            raise typer.BadParameter(f"expected one value, got {text!r}; repeat the option for each of {', '.join(values)}")
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"expected a {'whole ' * (kind is int)}number, got {text!r}") from None

    return parse


def json_wanted(context: typer.Context, wanted: bool) -> bool:
    """Of what is printed, also by plugins, libraries and child processes, leave ``print_json`` alone on stdout."""
    global answer
    if wanted:
        answer = sys.stdout
        if sys.stdout is sys.__stdout__:  # not a stand-in, as in tests
            answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
            os.dup2(2, 1)
        context.with_resource(redirect_stdout(sys.stderr))
    return wanted


SUITE_HELP = "A suite's name, as `lprime list suites` shows, or the path of its YAML file."

Suite = Annotated[str, typer.Argument(metavar="SUITE", help=SUITE_HELP)]
OfSuite = Annotated[str, typer.Option("--suite", metavar="SUITE", help=SUITE_HELP)]
Encodings = Annotated[
    list[str] | None,
    typer.Option(
        "--encoding", metavar="NAME", parser=one(str), help="Only these (repeatable): names, files, all (built-in ones)."
    ),
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", metavar="NAME", parser=one(str), help="Only these tasks (repeatable).")
]
Seeds = Annotated[list[int] | None, typer.Option("--seed", metavar="N", parser=one(int), help="Only these seeds (repeatable).")]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", envvar="LPRIME_OUT", file_okay=False, callback=refuse_broken_link, help="Folder of your runs."
    ),
]
On = Annotated[str | None, typer.Option("--on", metavar="FILE", help="Run on the SLURM cluster described by a YAML file.")]
Board = Annotated[
    Path, typer.Option("--board", metavar="DIR", help="Folder of the published board: results, pages and figures.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, envvar="LPRIME_WORKERS", help="Parallel runs [default: one per core, or two per GPU]."
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=json_wanted, help="Print JSON.")]


def command_line(*words: object) -> str:
    """A command to show to the user, quoted for the shell."""
    return shlex.join(["lprime", *map(str, words)])


def suite_command(command: str, suite: str, out: Path) -> str:
    """A command about a suite, by its name or path; the default folder of the runs is not in it."""
    from bench.suites.suite import shipped
    from bench.suites.yaml_config import is_path

    suite = suite if suite in shipped() or is_path(suite) or "+" in suite else f"{suite}.yaml"
    return command_line(command, suite, *([] if out == Path("runs") else ["--out", out]))


def print_json(value: Any) -> None:
    """Print plain data as JSON, with null for numbers that are not finite, which JSON does not have."""
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    print(json.dumps(finite, indent=1, ensure_ascii=False, allow_nan=False), file=answer, flush=True)


def full_name(name: str) -> str:
    """The name under which an encoding's results are stored, if it is given as a file or with settings."""
    from bench.plugins.references import references_in

    if not ("(" in name or references_in(name)):
        return name  # a look-up would load torch
    from bench.plugins.registry import get_encoding
    from tasks import InputError

    try:
        return get_encoding(name).info.name
    except InputError:
        if references_in(name):
            raise
        return name  # as a board shows it, of a plugin that is not loaded here


def try_encodings(names: list[str]) -> list[str]:
    """Load encodings and try the hooks of plugins and of encodings with settings; returns the names under which their results
    are stored. Prints a caution if a plugin has no hooks, or keeps something from one pass to the next.

    Arguments:
        names: ``all`` is all built-in ones.

    Raises:
        InputError: an unknown name, with the nearest match; a plugin that cannot be loaded, whose hooks cannot be called, or
            whose ``info`` or settings no result can hold.
    """
    from bench.check.contract import try_hooks
    from bench.check.subject import Subject, hidden_states, plugin_classes
    from bench.encodings import catalogue, hooks
    from bench.plugins.loading import one_line_errors
    from bench.plugins.record import encoding_record
    from bench.plugins.registry import get_encoding
    from bench.runs.progress import say

    encodings = [get_encoding(name) for given in names for name in (catalogue() if given == "all" else [given])]
    for cls in encodings:
        encoding_record(cls)  # caches the present source hash too, so that workers notice later changes
        if plugin_classes(cls) or "(" in cls.info.name:
            try_hooks(Subject(cls))
        if plugin_classes(cls):
            if not hooks(cls):
                say(f"caution: {cls.info.name} overrides no hook, so it trains as nope")
            with one_line_errors(cls):
                model, tokens = Subject(cls).model(), Subject(cls).sequences(2, 8, seed=0)
                same = (hidden_states(model, tokens) == hidden_states(model, tokens)).all()
            if not same:
                say(f"caution: {cls.info.name} gives other outputs in a second pass, so runs that resume get other numbers")
    return [cls.info.name for cls in encodings]
