"""``python -m bench.speed``, which is ``make speed``."""

import os
import sys
from pathlib import Path
from typing import Annotated

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # before numpy and torch load

import typer

from .plan import FULL, QUICK, SECTIONS, Plan

PAGE = Path(__file__).parents[1] / "SPEED.md"


def speed(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds, whose numbers mean nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="SECTION", help=f"Of {', '.join(SECTIONS)} (repeatable).")] = None,
    encodings: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Whose growth with T is measured (repeatable) [default: all].")
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --only: put those sections in place of these numbers' own.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="All numbers [default: runs/speed.json].")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The page [default: bench/SPEED.md].")] = None,
    render: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Measure nothing: make the page from these numbers.")
    ] = None,
) -> None:
    """How fast we are beside x-transformers, Hugging Face transformers and the machine's own limit. Wants an idle machine."""
    from bench.files import write_atomic
    from tasks import InputError, unknown

    from . import page as pages
    from .run import measure, read

    for name in only or []:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    if into and not only:
        raise InputError("--into takes the place of some sections; expected --only SECTION beside it")
    if render:
        record = read(render)
    elif into:
        before = read(into)  # before minutes of work, not after
        record = before.renew(only or [], measure(chosen(QUICK if quick else FULL, encodings), only or [], say))
        write_atomic(into, record.model_dump_json(indent=1) + "\n")
    else:
        record = measure(chosen(QUICK if quick else FULL, encodings), only or SECTIONS, say)
        # A smoke run or a part of one must not take the place of real numbers.
        partial = quick or bool(only) or bool(encodings)
        write_atomic(
            out or Path("runs/speed-partial.json" if partial else "runs/speed.json"), record.model_dump_json(indent=1) + "\n"
        )
        if partial and page is None:
            print(pages.terminal(record))
            return
    write_atomic(page or PAGE, pages.page(record))
    print(pages.terminal(record))


def chosen(plan: Plan, encodings: list[str] | None) -> Plan:
    """The plan, with only these encodings in its table of growth."""
    if not encodings:
        return plan
    from dataclasses import replace

    from bench import encodings as known

    return replace(plan, encodings=tuple(known.get(name).info.name for name in encodings))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input is one line on stderr and exit code 2."""
    from tasks import InputError

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(speed)
    try:
        app(arguments, standalone_mode=False, prog_name="python -m bench.speed")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # The parser's own errors format themselves; what cannot is a defect and keeps its traceback.
        if not (isinstance(error, InputError) or hasattr(error, "format_message")):
            raise
        message = str(error) if isinstance(error, InputError) else error.format_message()
        print(f"speed: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
