"""The entry point of ``python -m bench.speed`` and ``python -m bench.gpu``."""

import sys
from collections.abc import Callable

import typer

from tasks import InputError


def run_command(function: Callable[..., None], name: str, arguments: list[str] | None = None) -> None:
    """Run a function as a command. Bad input is one line on stderr and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(function)
    try:
        app(arguments, standalone_mode=False, prog_name=f"python -m bench.{name}")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # The parser's errors format themselves; any other exception is a bug and keeps its traceback.
        if not (isinstance(error, InputError) or hasattr(error, "format_message")):
            raise
        message = str(error) if isinstance(error, InputError) else error.format_message()
        print(f"{name}: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)
