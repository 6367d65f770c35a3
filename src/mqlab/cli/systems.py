"""`mqlab systems`: what can be measured here."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from mqlab.cli.console import show, show_json
from mqlab.systems import SYSTEMS


def systems(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """List the systems, with their settings as they are if nothing is chosen."""
    found = [kind({}).describe() for kind in SYSTEMS.values()]
    if as_json:
        show_json({"systems": found})
        return
    table = Table("system", "version", "settings (choose with NAME:setting=value,...)", box=None)
    for one in found:
        chosen = ", ".join(f"{key}={value}" for key, value in one["settings"].items() if value is not None)
        table.add_row(Text(one["name"]), Text(one["version"]), Text(chosen))
    show(table)
