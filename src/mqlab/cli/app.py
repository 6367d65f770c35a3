"""The command line: one file a command, put together here."""

import atexit
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final, NoReturn

import typer

from mqlab.cli.console import Exit

COMMANDS: Final = ("studies", "systems", "plan", "run", "measure", "report", "broker")


def app_with(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; the files of others are not imported."""
    app = typer.Typer(name="mqlab", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_about)
    for name in commands:
        app.command()(getattr(import_module(f"mqlab.cli.{name}"), name))
    return app


def _about() -> None:
    """A messaging performance lab: published broker studies, and your own, with every message accounted for."""


def main() -> None:
    # A broker that is started needs no Spark and no charts: import only what the command is for.
    wanted = sys.argv[1:2]
    try:
        app_with(wanted if wanted and wanted[0] in COMMANDS else COMMANDS)()
    except SystemExit as end:
        if end.code == Exit.INTERRUPTED:
            _leave_at_once(Exit.INTERRUPTED)
        raise


def _leave_at_once(code: int) -> NoReturn:
    """Python's own way out may hang after Spark's bridge was interrupted: do what is ours to do, and go."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
