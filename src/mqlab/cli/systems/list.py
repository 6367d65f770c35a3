"""`mqlab systems`: all of them."""

from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from mqlab.cli.console import Exit, fail, show, show_json
from mqlab.cli.systems.names import AsJson, loaded, not_ready
from mqlab.systems import SYSTEMS


def list_all(context: typer.Context, as_json: AsJson = False) -> None:
    """List the systems; with a command, look at one, get it, or start it to try it."""
    if context.invoked_subcommand is not None:
        if as_json:
            fail(f"write --json after `{context.invoked_subcommand}`", Exit.USAGE)
        return
    found = [_entry(name) for name in sorted(SYSTEMS)]
    if as_json:
        show_json({"systems": found})
        return
    table = Table("system", "what it is", "version", "drivers", "ready", box=None)
    for one in found:
        ready = f"no: {one['missing']}" if one["missing"] else "yes"
        cells = (one["name"], one["title"], one["version"], ", ".join(one["drivers"]), ready)
        table.add_row(*map(Text, cells))
    show(table)


def _entry(name: str) -> dict[str, Any]:
    one = loaded(name)
    if isinstance(one, str):
        return {"name": name, "title": "", "version": "", "drivers": [], "missing": one, "settings": {}, "stamps": []}
    return {**one.describe(), "title": one.title, "drivers": list(one.drivers), "missing": not_ready(one)}
