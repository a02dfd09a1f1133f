"""The command line, ``lprime``: one module per command. Heavy imports are inside the commands, so that help is instant."""

import errno
import gc
import os
import re
import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from .author import check, new, submit
from .board import board, compare, publish
from .export import data, export
from .probe import probe, reproduce
from .run import run, status
from .show import show, show_list

app = typer.Typer(
    name="lprime",
    help="Train at L, test at L′: a benchmark of length generalisation by positional encodings.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"lprime {version('lprime')}")
        raise typer.Exit


@app.callback()
def common_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


for command in (run, status, probe, board, publish, show, compare, reproduce, export, data, new, check, submit):
    app.command()(command)
app.command("list")(show_list)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input of any kind is one line on stderr and exit code 2; Ctrl-C is 130, SIGTERM 143. Damaged results are
    skipped, with a line each and exit code 1."""
    damaged, show = [], warnings.showwarning

    def note(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if category.__name__ != "Damaged":  # its module takes long to import
            return show(message, category, *where)
        damaged.append(message)
        print(f"lprime: {message}; skipped", file=sys.stderr)

    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see __main__
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        gc.set_threshold(200_000)  # commands read thousands of results at once, hardly any of them garbage
        arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
        if any(re.fullmatch(r"(--[a-z-]+=)?\s*", given) for given in arguments):
            raise typer.BadParameter(f"an empty value in {' '.join(map(repr, arguments))}; is a variable of the shell not set?")
        with warnings.catch_warnings():
            warnings.showwarning = note  # type: ignore[assignment]
            code = app(arguments, prog_name="lprime", standalone_mode=False)
        print(end="", flush=True)  # at the interpreter's exit, an error could not be answered
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `lprime list suites | true`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter would try again at its exit
        sys.exit(1)
    except Exception as error:
        from tasks import InputError  # not at the top: it loads numpy

        if isinstance(error, InputError):
            message = str(error)
        elif hasattr(error, "format_message"):  # of the parser
            message = error.format_message()
            if "unexpected extra argument" in message:
                message += "; to give an option several values, repeat it"
        elif isinstance(error, OSError) and error.filename:  # a folder without permission, a name that is too long
            message = f"{error.filename!s:.200}: {error.strerror or error}"
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
            message = f"cannot write the output: {error.strerror}"
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        else:
            raise  # a defect, which keeps its traceback
        print(f"lprime: {' '.join(message.split())}", file=sys.stderr)  # always one line
        sys.exit(2)
    else:
        sys.exit(code or int(bool(damaged)))
