"""`mqlab systems stop`: end what was started to be tried."""

from typing import Annotated

import typer

from mqlab.cli.console import Exit, fail, say, show_json
from mqlab.cli.systems.names import AsJson
from mqlab.cli.systems.started import all_started


def stop_some(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME|PID...", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All that are up.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop systems that `mqlab systems start` has up."""
    if bool(names) == every:
        fail("name what is to be stopped, or say --all", Exit.USAGE)
    up = all_started()
    for name in names or ():
        if not any(name in (str(one.pid), one.system, one.system.partition(":")[0]) for one in up):
            fail(f"{name} is not up: see `mqlab systems status`", Exit.USAGE)
    wanted = [one for one in up if every or {str(one.pid), one.system, one.system.partition(":")[0]} & set(names or ())]
    for one in wanted:
        say(f"{one.system} ({one.pid}): " + ("stopped" if one.end() else "killed, since it did not stop"))
    all_started()
    if as_json:
        show_json({"stopped": [one.shown() for one in wanted]})
