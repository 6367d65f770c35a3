"""`mqlab systems status`: what was started to be tried, and is up."""

from rich.table import Table
from rich.text import Text

from mqlab.cli.console import say, show, show_json
from mqlab.cli.systems.names import AsJson
from mqlab.cli.systems.started import all_started


def show_status(as_json: AsJson = False) -> None:
    """List the systems that `mqlab systems start` has up, with their addresses."""
    found = all_started()
    if as_json:
        show_json({"started": [one.shown() for one in found]})
        return
    if not found:
        say("nothing is up that `mqlab systems start` has started")
        return
    table = Table("pid", "system", "addresses", box=None)
    for one in found:
        addresses = ", ".join(f"{driver} {address}" for driver, address in one.addresses.items())
        table.add_row(str(one.pid), Text(one.system), Text(addresses))
    show(table)
