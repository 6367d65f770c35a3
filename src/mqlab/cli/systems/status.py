"""`mqlab systems status`: list the running systems."""

from mqlab.cli.systems.names import AsJson
from mqlab.cli.systems.started import running_systems
from mqlab.cli.terminal.console import say, show, show_json, table_of


def show_status(as_json: AsJson = False) -> None:
    """List the systems that `mqlab systems start` runs, with their addresses."""
    started = running_systems()
    if as_json:
        show_json({"started": [system.document() for system in started]})
        return
    if not started:
        say("`mqlab systems start` runs no system")
        return
    addresses = [", ".join(map(" ".join, system.addresses.items())) for system in started]
    rows = ((str(system.pid), system.system, text) for system, text in zip(started, addresses, strict=True))
    show(table_of(("pid", "system", "addresses"), rows))
