"""Shared by all commands: output, errors and exit codes."""

import atexit
import json
import os
import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NoReturn

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

# The width of a table without a terminal.
_PIPE_WIDTH: Final = 200


class Exit(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    AUDIT_FAILED = 3
    GOAL_MISSED = 4
    REGRESSION = 5
    INCONCLUSIVE = 6
    SYSTEM_UNAVAILABLE = 7
    NOTHING_MEASURED = 8
    INTERRUPTED = 130


def stderr_console() -> Console:
    """Return a console on the present stderr; tests replace sys.stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    stderr_console().print(Text(message))


def fail(message: str, code: Exit) -> NoReturn:
    """Print the message on stderr and end the command with this exit code."""
    print_error(message)
    raise typer.Exit(code)


def exit_at_once() -> NoReturn:
    """Run the exit handlers, flush the output and end the process without finalization."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)


def print_error(message: str) -> None:
    stderr_console().print(Text.assemble(("mqlab: ", "bold red"), message))


def io_reason(error: OSError) -> str:
    """Return the reason of the error, with the file name if it has one."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def table_of(head: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> Table:
    """Strings are shown as they are, without markup. A narrow terminal folds words that are too long, and cuts none."""
    table = Table(*(Column(text, overflow="fold") for text in head), box=None)
    for row in rows:
        table.add_row(*(Text(text) if isinstance(text, str) else text for text in row))
    return table


def show(table: Table) -> None:
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def show_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
