"""`mqlab systems install`: install systems with Maven, Go or apt-get."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from mqlab.cache import cache
from mqlab.cli.systems.names import AsJson, load_default, parse_or_fail
from mqlab.cli.terminal.completion import complete_system
from mqlab.cli.terminal.console import Exit, fail, say, show_json
from mqlab.systems import SYSTEMS, System, SystemFailedError


def install_some(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", show_default=False, autocompletion=complete_system)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All systems.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install systems with Maven, Go or apt-get. Installed ones stay as they are; a failure does not stop the others.

    Maven and Go install into a cache folder of the user. apt-get installs packages for the whole machine.
    """
    if bool(names) == every:
        fail("name systems, or pass --all", Exit.USAGE)
    chosen = [system for name in sorted(SYSTEMS) if isinstance(system := load_default(name), System)] if every else []
    chosen += [parse_or_fail(name) for name in names or ()]
    chosen = [system for system in chosen if not every or system.name != "external"]
    for text in _plan(chosen, details=dry_run):
        say(text)
    if dry_run:
        return
    results = [_install(system) for system in chosen]
    if as_json:
        show_json({"systems": results})
    failed = [result["name"] for result in results if result["error"]]
    if failed:
        fail(f"not installed: {', '.join(failed)}", Exit.SYSTEM_UNAVAILABLE)


def _plan(chosen: Sequence[System], *, details: bool) -> Iterator[str]:
    """Yield the changes to the machine before they are made; with `details`, the state of each system too."""
    absent = [system for system in chosen if system.missing()]
    if details:
        for system in chosen:
            yield f"{system.name}: {system.missing() or 'already installed'}"
    packages = list(dict.fromkeys(name for system in absent for name in system.machine_packages()))
    if packages:
        yield f"apt-get changes the machine for all users: it installs {', '.join(packages)}"
    if absent:
        yield f"everything else goes into {cache()}"


def _install(system: System) -> dict[str, str]:
    error = ""
    if not system.missing():
        say(f"{system.name}: already installed")
    else:
        try:
            system.install(lambda step: say(f"{system.name}: {step}"))
            say(f"{system.name}: installed")
        except SystemFailedError as failure:
            error = str(failure)
            say(f"{system.name}: {error}")
    return {"name": system.name, "error": error}
