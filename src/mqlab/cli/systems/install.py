"""`mqlab systems install`: get systems with the package clients of this machine."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from mqlab.cache import cache
from mqlab.cli.console import Exit, fail, say, show_json
from mqlab.cli.systems.names import AsJson, loaded, named
from mqlab.systems import SYSTEMS, System, SystemFailedError


def install_some(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Every system there is.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Get systems with Maven, Go or apt-get; what is there already is left alone. One that fails stops no other.

    What Maven and Go get goes into a cache folder of the user. Packages of apt-get are installed for the whole machine.
    """
    if bool(names) == every:
        fail("name systems, or say --all", Exit.USAGE)
    chosen = [one for name in sorted(SYSTEMS) if isinstance(one := loaded(name), System)] if every else []
    chosen += [named(name) for name in names or ()]
    chosen = [one for one in chosen if not every or one.name != "external"]
    for text in _plan(chosen, details=dry_run):
        say(text)
    if dry_run:
        return
    results = [_installed(one) for one in chosen]
    if as_json:
        show_json({"systems": results})
    failed = [one["name"] for one in results if one["error"]]
    if failed:
        fail(f"not installed: {', '.join(failed)}", Exit.SYSTEM_UNAVAILABLE)


def _plan(chosen: Sequence[System], *, details: bool) -> Iterator[str]:
    """What happens to the machine, before it happens; with `details`, what happens for each system."""
    absent = [one for one in chosen if one.missing()]
    if details:
        for one in chosen:
            yield f"{one.name}: {one.missing() or 'it is there'}"
    packages = list(dict.fromkeys(name for one in absent for name in one.machine_packages()))
    if packages:
        yield f"apt-get changes this whole machine, for all its users: it installs {', '.join(packages)}"
    if absent:
        yield f"all else goes into {cache()}"


def _installed(one: System) -> dict[str, Any]:
    error = ""
    if not one.missing():
        say(f"{one.name}: it is there")
    else:
        try:
            one.install(lambda step: say(f"{one.name}: {step}"))
            say(f"{one.name}: installed")
        except SystemFailedError as failure:
            error = str(failure)
            say(f"{one.name}: {error}")
    return {"name": one.name, "error": error}
