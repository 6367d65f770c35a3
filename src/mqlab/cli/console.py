"""What all commands share: where they write, how they fail and what their exit codes mean."""

import json
import sys
from enum import IntEnum
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

# A table that is piped must not be cut to the width of no terminal.
_WIDE: Final = 200


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


def words() -> Console:
    """For people: stderr. Made anew each time, so that it follows a stderr that was replaced."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    words().print(Text(message))


def fail(message: str, code: Exit) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    words().print(Text.assemble(("mqlab: ", "bold red"), message))


def io_reason(error: OSError) -> str:
    """What the machine refused, and where: for errors that are not mqlab's own."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def show(table: Table) -> None:
    """A table as data: stdout."""
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDE)
    console.print(table)


def show_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
