"""The command line, ``lprime``: one module per command. Heavy imports are inside the commands, so that help is instant."""

import errno
import gc
import io
import os
import sys
from typing import Annotated, Any

import typer

from . import (
    board,
    cancel,
    check,
    compare,
    data,
    export,
    listing,
    logs,
    new,
    probe,
    publish,
    reproduce,
    run,
    show,
    status,
    submit,
)

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


for module in (
    run,
    status,
    logs,
    cancel,
    probe,
    board,
    publish,
    listing,
    show,
    compare,
    reproduce,
    export,
    data,
    new,
    check,
    submit,
):
    name = module.__name__.rpartition(".")[2]
    app.command("list" if module is listing else name)(getattr(module, name))


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input of any kind is one line on stderr and exit code 2; Ctrl-C is 130."""
    gc.set_threshold(200_000)  # commands read thousands of results at once, hardly any of them garbage
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if os.environ.get("COLUMNS") == "0":  # a terminal of unknown width; rich would print nothing
        del os.environ["COLUMNS"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ?
    try:
        code = app(arguments, prog_name="lprime", standalone_mode=False)
        print(end="", flush=True)  # at the interpreter's exit, an error could not be answered
    except KeyboardInterrupt as stopped:
        sys.exit(143 if type(stopped).__name__ == "Terminated" else 130)
    except BrokenPipeError:  # `lprime list suites | true`
        discard_output()
        sys.exit(1)
    except Exception as error:
        from tasks import InputError  # not at the top: it loads numpy

        if isinstance(error, InputError):
            message = str(error)
        elif hasattr(error, "format_message"):
            message = parser_message(error, arguments)
        elif isinstance(error, OSError) and error.filename:  # a folder without permission, a name that is too long
            message = f"{error.filename!s:.200}: {error.strerror or error}"
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):  # `lprime list > file`
            discard_output()
            message = f"cannot write: {error.strerror}"
        else:
            raise  # a defect, which keeps its traceback
        print(f"lprime: {' '.join(message.split())}", file=sys.stderr)  # always one line
        sys.exit(2)
    else:
        sys.exit(code or 0)


def discard_output() -> None:
    """Discard what is still to be written to stdout: the interpreter would try again at its exit, and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def parser_message(error: Any, arguments: list[str]) -> str:
    """The parser's message, followed by the refused value of an option and the command that prints the help."""
    options = getattr(getattr(error, "param", None), "opts", [])
    positions = [i for i, argument in enumerate(arguments[:-1]) if argument in options]
    value = f", got {arguments[positions[-1] + 1]!r}" if positions else ""
    message = error.format_message().rstrip(".") + value
    return message if message.endswith("?") or error.ctx is None else f"{message}; see {error.ctx.command_path} --help"
