"""`mqlab systems status`: list the running systems."""

from rich.table import Table
from rich.text import Text

from mqlab.cli.console import say, show, show_json
from mqlab.cli.systems.names import AsJson
from mqlab.cli.systems.started import running_systems


def show_status(as_json: AsJson = False) -> None:
    """List the systems that `mqlab systems start` runs, with their addresses."""
    started = running_systems()
    if as_json:
        show_json({"started": [system.document() for system in started]})
        return
    if not started:
        say("`mqlab systems start` runs no system")
        return
    table = Table("pid", "system", "addresses", box=None)
    for system in started:
        addresses = ", ".join(f"{driver} {address}" for driver, address in system.addresses.items())
        table.add_row(str(system.pid), Text(system.system), Text(addresses))
    show(table)
