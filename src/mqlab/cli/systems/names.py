"""Systems by the names that a user gives on the command line."""

from typing import Annotated

import typer

from mqlab.cli.terminal.console import Exit, fail
from mqlab.runner.capability import driver_class
from mqlab.systems import SYSTEMS, System, SystemFailedError, SystemSettingError, system

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
SystemArgument = Annotated[str, typer.Argument(metavar="NAME[:setting=value,...]", show_default=False)]


def parse_or_fail(text: str) -> System:
    """Return the system. End the command if the lab does not know the system or the setting."""
    try:
        return system(text)
    except SystemSettingError as error:
        fail(str(error), Exit.USAGE)
    except Exception as error:
        fail(f"{text} cannot be loaded: {error}", Exit.SYSTEM_UNAVAILABLE)


def load_default(name: str) -> System | str:
    """Return the system with default settings, or the reason why it cannot be loaded.

    Systems of other packages may raise any exception.
    """
    try:
        return SYSTEMS[name]({})
    except Exception as error:
        return f"cannot be loaded: {type(error).__name__}: {error}"


def not_ready(chosen: System) -> str:
    """Return the reason why the system cannot be measured here now; "" if it can."""
    if reason := chosen.missing():
        return reason
    try:
        driver_class(chosen)
    except SystemFailedError as error:
        return str(error)
    return ""
