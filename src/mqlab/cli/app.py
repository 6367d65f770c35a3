"""The command line: one file a command, put together here."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

import typer

from mqlab.cli.console import Exit, complain, io_reason
from mqlab.cli.interrupt import leave_at_once

COMMANDS: Final = (
    "studies", "systems", "plan", "init", "run", "overhead", "measure", "report", "conformance", "broker",
)  # fmt: skip
_NO_OUTPUT: Final = "the output cannot be written"


def app_with(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; the files of others are not imported."""
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
    """A messaging performance lab: published broker studies, and your own, with every message accounted for."""


def main() -> None:
    # A broker that is started needs no Spark and no charts: import only what the command is for.
    wanted = sys.argv[1:2]
    code: str | int | None = Exit.OK
    try:
        app_with(wanted if wanted and wanted[0] in COMMANDS else COMMANDS)()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # while the command is imported
        complain("interrupted")
        code = Exit.INTERRUPTED
    except OSError as error:
        code = Exit.INTERNAL
        complain(f"{'a file cannot be used' if error.filename else _NO_OUTPUT}: {io_reason(error)}")
    if code == Exit.INTERRUPTED:
        leave_at_once()
    sys.exit(code if _flushed() else Exit.INTERNAL)


def _flushed() -> bool:
    """Whether all that was printed could be written. Python itself would say so with a traceback."""
    try:
        sys.stdout.flush()
        return True
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # a reader such as `head` that has read enough
            complain(f"{_NO_OUTPUT}: {io_reason(error)}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
