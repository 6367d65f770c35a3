"""`mqlab systems install`: get systems with the package clients of this machine."""

from typing import Annotated, Any

import typer

from mqlab.cli.console import Exit, fail, say, show_json
from mqlab.cli.systems.naming import AsJson, loaded, named
from mqlab.systems import SYSTEMS, System, SystemFailedError


def install_some(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Every system there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Get systems with Maven, apt-get or Go; what is there already is left alone. One that fails stops no other."""
    if bool(names) == every:
        fail("name systems, or say --all", Exit.USAGE)
    chosen = [one for name in sorted(SYSTEMS) if isinstance(one := loaded(name), System)] if every else []
    chosen += [named(name) for name in names or ()]
    results = [_installed(one) for one in chosen if not every or one.name != "external"]
    if as_json:
        show_json({"systems": results})
    failed = [one["name"] for one in results if one["error"]]
    if failed:
        fail(f"not installed: {', '.join(failed)}", Exit.SYSTEM_UNAVAILABLE)


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
