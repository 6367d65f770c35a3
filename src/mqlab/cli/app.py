"""The command line: one file a command, put together here."""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

import typer

from mqlab.cli.console import Exit
from mqlab.cli.interrupt import leave_at_once

COMMANDS: Final = (
    "studies", "systems", "plan", "init", "run", "overhead", "measure", "report", "conformance", "broker",
)  # fmt: skip


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
    try:
        app_with(wanted if wanted and wanted[0] in COMMANDS else COMMANDS)()
    except SystemExit as end:
        if end.code == Exit.INTERRUPTED:
            leave_at_once()
        raise

