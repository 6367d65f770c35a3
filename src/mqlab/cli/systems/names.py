"""Systems by the names that a user gives."""

from typing import Annotated

import typer

from mqlab.cli.console import Exit, fail
from mqlab.runner.unsupported import driver_of
from mqlab.systems import SYSTEMS, System, SystemFailedError, SystemSettingError, system

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Named = Annotated[str, typer.Argument(metavar="NAME[:setting=value,...]", show_default=False)]


def named(text: str) -> System:
    """Ends the command with one sentence if there is no such system, or no such setting."""
    try:
        return system(text)
    except SystemSettingError as error:
        fail(str(error), Exit.USAGE)
    except Exception as error:
        fail(f"{text}: it cannot be loaded: {error}", Exit.SYSTEM_UNAVAILABLE)


def loaded(name: str) -> System | str:
    """With its default settings; or why it cannot be loaded. Other packages may bring whatever they like."""
    try:
        return SYSTEMS[name]({})
    except Exception as error:
        return f"cannot be loaded: {type(error).__name__}: {error}"


def not_ready(one: System) -> str:
    """Why it cannot be measured here now; "" if it can."""
    if why := one.missing():
        return why
    try:
        driver_of(one)
    except SystemFailedError as error:
        return str(error)
    return ""
