"""``python -m bench.speed``, which is ``make speed``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .plan import FULL, QUICK, SECTIONS

PAGE = Path(__file__).parents[1] / "SPEED.md"


def speed(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds, whose numbers mean nothing.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="SECTION", help=f"Measure only these: {', '.join(SECTIONS)} (repeatable).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="All numbers [default: runs/speed.json].")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The page [default: bench/SPEED.md].")] = None,
    render: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Measure nothing: write the page from these numbers.")
    ] = None,
) -> None:
    """Measure our speed next to x-transformers and Hugging Face transformers. Needs an idle machine."""
    from bench.files import write_atomic
    from tasks import InputError, unknown

    from .page import render_page, render_terminal
    from .run import measure_sections, read_record

    for name in only or []:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    if render and (only or quick or out):
        raise InputError("--from measures nothing; expected only --page with it")
    if render:
        record = read_record(render)
    else:
        record = measure_sections(QUICK if quick else FULL, only or SECTIONS)
        default = Path("runs/speed-partial.json" if record.partial else "runs/speed.json")
        write_atomic(out or default, record.model_dump_json(indent=1) + "\n")
    print(render_terminal(record))
    if page is None and record.partial:
        print(f"not the numbers of a full run, so {PAGE.name} stays as it is; --page FILE writes them to another page")
    else:
        write_atomic(page or PAGE, render_page(record))


def main(arguments: list[str] | None = None) -> None:
    from .command import run_command

    run_command(speed, "speed", arguments)


def restart_as_worker() -> None:
    """Restart this process with the environment of a worker, whose allocator keeps freed memory, unless it has it."""
    from bench.runs.pool import worker_environment

    environment = os.environ | worker_environment()
    if environment != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


if __name__ == "__main__":
    restart_as_worker()
    main()
