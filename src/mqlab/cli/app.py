"""The command line program, assembled from one module per command."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

import typer

from mqlab.cli.console import Exit, io_reason, print_error
from mqlab.cli.interrupt import exit_at_once

COMMANDS: Final = (
    "studies", "systems", "plan", "init", "run", "overhead", "measure", "report", "conformance", "broker",
    "serve", "docs",
)  # fmt: skip
_NO_OUTPUT: Final = "the output cannot be written"


def app_with(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the program with these commands; the modules of other commands are not imported."""
    app = typer.Typer(name="mqlab", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_about)
    for name in commands:
        command = getattr(import_module(f"mqlab.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(command)
    return app


def _about() -> None:
    """A messaging performance lab: runs published broker studies and your own, and accounts for every message."""


def main() -> None:
    # Import only the modules of the command: a broker, for example, needs neither Spark nor charts.
    command = sys.argv[1:2]
    code: str | int | None = Exit.OK
    try:
        app_with(command if command and command[0] in COMMANDS else COMMANDS)()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # while the command is imported
        print_error("interrupted")
        code = Exit.INTERRUPTED
    except OSError as error:
        code = Exit.INTERNAL
        print_error(f"{'a file cannot be used' if error.filename else _NO_OUTPUT}: {io_reason(error)}")
    if code == Exit.INTERRUPTED:
        exit_at_once()
    sys.exit(code if _flushed() else Exit.INTERNAL)


def _flushed() -> bool:
    """Return whether stdout could be flushed. Python itself would print a traceback."""
    try:
        sys.stdout.flush()
        return True
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader, such as `head`, has ended
            print_error(f"{_NO_OUTPUT}: {io_reason(error)}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
