"""The command line: ``lprime``. It joins the packages; heavy imports happen inside the commands, so that help is instant."""

import gc
import io
import sys

import typer

from . import board, check, compare, data, export, inspect, jobs, new, publish, run, submit, verify

app = typer.Typer(
    name="lprime",
    help="Train at L, test at L′: how far each positional encoding carries a transformer past its training lengths.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)
for module in (run, jobs, board, publish, inspect, compare, export, data, new, check, submit, verify):
    module.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input of any kind is one line on stderr and exit code 2; Ctrl-C is 130."""
    gc.set_threshold(200_000)  # thousands of results are read in one go, and hardly any is garbage
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ?
    try:
        check_command(arguments)
        code = app(arguments, standalone_mode=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `lprime list | head`
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        from tasks import InputError  # not at the top: it loads numpy, and help is to be instant

        # The parser's own errors (bad option, bad value) format themselves; what cannot is a defect and keeps its traceback.
        if not (isinstance(error, InputError) or hasattr(error, "format_message")):
            raise
        message = str(error) if isinstance(error, InputError) else error.format_message() + given(error, arguments)
        # One line, whatever the message holds.
        print(f"lprime: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)
    else:
        sys.exit(code or 0)


def given(error: Exception, arguments: list[str]) -> str:
    """What the user gave for the option that the parser refused, which its message leaves out."""
    options = getattr(getattr(error, "param", None), "opts", [])
    places = [i for i, argument in enumerate(arguments[:-1]) if argument in options]
    return f", got {arguments[places[-1] + 1]!r}" if places else ""


def check_command(arguments: list[str]) -> None:
    """A misspelt command gets the nearest one, which the parser does not offer."""
    names = [command.name or command.callback.__name__ for command in app.registered_commands]  # type: ignore[union-attr]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        from tasks import unknown

        raise unknown("command", arguments[0], names)
