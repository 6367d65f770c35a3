"""Systems by the names that a user gives on the command line."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from mqlab.cli.terminal.completion import complete_system
from mqlab.cli.terminal.console import Exit, fail
from mqlab.runner.capability import driver_class
from mqlab.systems import SYSTEMS, System, SystemFailedError, SystemSettingError, system

_EMBEDDED: Final = "embedded"
# In place of a name: every system that can be measured here now.
_INSTALLED: Final = "installed"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
SystemArgument = Annotated[
    str, typer.Argument(metavar="NAME[:setting=value,...]", show_default=False, autocompletion=complete_system)
]


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


def installed_systems() -> list[System]:
    """The embedded broker first, and every system with its default settings that can be measured here now."""
    others = (load_default(name) for name in sorted(SYSTEMS) if name != _EMBEDDED)
    loaded = (system for system in others if not isinstance(system, str))
    return [SYSTEMS[_EMBEDDED]({}), *(system for system in loaded if not not_ready(system))]


def with_installed(names: Sequence[str]) -> list[str]:
    """The names of systems as the user gave them, with those of all installed systems for the word `installed`."""
    if _INSTALLED not in names:
        return [*names]
    return list(
        dict.fromkeys([*(name for name in names if name != _INSTALLED), *(s.name for s in installed_systems())])
    )
