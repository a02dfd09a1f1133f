"""Arguments and options that several commands share, and checks of their values."""

import json
import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .completion import complete_encodings, complete_suite, complete_task, suite_names

SUITE_HELP = f"A suite's name ({', '.join(suite_names())}), or the path of its YAML file."

Suite = Annotated[str, typer.Argument(metavar="SUITE", help=SUITE_HELP, autocompletion=complete_suite)]
OfSuite = Annotated[str, typer.Option("--suite", metavar="SUITE", help=SUITE_HELP, autocompletion=complete_suite)]
Encodings = Annotated[
    list[str] | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        autocompletion=complete_encodings,
        help="Only these encodings (repeatable): names, files, all built-in ones (all), or a family (family:rotary).",
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="NAME", autocompletion=complete_task, help="Only these tasks (repeatable)."),
]
Seeds = Annotated[list[int] | None, typer.Option("--seed", metavar="N", help="Only these seeds (repeatable).")]
Rates = Annotated[
    list[float] | None,
    typer.Option("--rate", metavar="R", help="Only these learning rates (repeatable), in suites that sweep it."),
]


def folder(text: str) -> Path:
    """The value of ``--out``; an empty one would be the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("is empty; expected a folder, such as runs")
    return Path(text)


Out = Annotated[Path, typer.Option("--out", metavar="DIR", envvar="LPRIME_OUT", parser=folder, help="Folder of your runs.")]
OutOrShared = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        envvar="LPRIME_OUT",
        parser=folder,
        help="Folder of your runs [default: runs].",
    ),
]
"""``Out`` of a command that also takes ``On``: the cluster file may say where runs are."""
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
Published = Annotated[bool, typer.Option("--published", help="Read the published results instead of your runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what needs attention.")]


def check_positive(option: str, value: float, most: float = float("inf")) -> None:
    """Refuse a number that is not above 0, not finite, or above ``most``."""
    from tasks import InputError

    if not 0 < value <= most or value == float("inf"):
        bound = f" and at most {most:g}" if most < float("inf") else " and finite"
        raise InputError(f"{option} must be more than 0{bound}, got {value:g}")


def runs_folder(out: Path) -> Path:
    """``--out`` as an absolute path, which need not exist.

    Raises:
        InputError: it is a file, or a link to nothing.
    """
    from tasks import InputError

    if os.path.lexists(out) and not os.path.isdir(out):
        what = "a link to nothing" if os.path.islink(out) and not os.path.exists(out) else "a file"
        raise InputError(f"--out {out} is {what}; expected the folder of the runs, such as runs")
    return out.expanduser().resolve()


def printable(text: str) -> str:
    """Text of a stranger without control and format characters, which could move the cursor or hide other text."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def command_line(*words: object) -> str:
    """A command to show to the user, quoted for the shell."""
    return shlex.join(["lprime", *map(str, words)])


def print_json(value: Any) -> None:
    """Print plain data as JSON, with null for numbers that are not finite, which JSON does not have."""
    print(json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finding_printer(as_json: bool, quiet: bool) -> Callable[[Any], None]:
    """Prints the findings of checks as they arrive: those that passed unless ``quiet``, and none that were not run."""

    def print_finding(finding: Any) -> None:
        if not as_json and (finding.status in ("failed", "undecided") or (finding.status == "passed" and not quiet)):
            print("\n".join(map(printable, finding.lines())), flush=True)

    return print_finding


def print_report(report: Any, as_json: bool, quiet: bool) -> int:
    """Print the end of a report of checks. Returns the exit code of the command."""
    if as_json:
        print(report.model_dump_json(indent=1))
    elif not (quiet and report.passed):
        print(f"\n{printable(report.summary())}")
    return 0 if report.passed else 1
