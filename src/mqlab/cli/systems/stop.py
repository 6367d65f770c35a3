"""`mqlab systems stop`: stop running systems."""

from typing import Annotated

import typer

from mqlab.cli.systems.names import AsJson
from mqlab.cli.systems.started import StartedSystem, running_systems
from mqlab.cli.terminal.console import Exit, fail, say, show_json


def stop_some(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME|PID...", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All running systems.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop systems that `mqlab systems start` runs."""
    if bool(names) == every:
        fail("name the systems to stop, or pass --all", Exit.USAGE)
    running = running_systems()
    for name in names or ():
        if not any(name in _names(started) for started in running):
            fail(f"{name} is not running: see `mqlab systems status`", Exit.USAGE)
    chosen = [started for started in running if every or _names(started) & set(names or ())]
    for started in chosen:
        say(
            f"{started.system} ({started.pid}): " + ("stopped" if started.stop() else "killed, because it did not stop")
        )
    running_systems()
    if as_json:
        show_json({"stopped": [started.document() for started in chosen]})


def _names(started: StartedSystem) -> set[str]:
    return {str(started.pid), started.system, started.system.partition(":")[0]}
