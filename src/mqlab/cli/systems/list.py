"""`mqlab systems`: list all systems."""

import typer

from mqlab.cli.systems.names import AsJson, load_default, not_ready
from mqlab.cli.terminal.console import Exit, fail, show, show_json, table_of
from mqlab.json_values import JsonObject
from mqlab.systems import SYSTEMS


def list_all(context: typer.Context, as_json: AsJson = False) -> None:
    """List the systems. A command shows, installs, starts or stops one."""
    if context.invoked_subcommand is not None:
        if as_json:
            fail(f"write --json after `{context.invoked_subcommand}`", Exit.USAGE)
        return
    entries = [_entry(name) for name in sorted(SYSTEMS)]
    if as_json:
        show_json({"systems": entries})
        return
    show(table_of(("system", "what it is", "version", "drivers", "ready"), map(_cells, entries)))


def _cells(entry: JsonObject) -> tuple[str, ...]:
    ready = f"no: {entry['missing']}" if entry["missing"] else "yes"
    return (entry["name"], entry["title"], entry["version"], ", ".join(entry["drivers"]), ready)


def _entry(name: str) -> JsonObject:
    system = load_default(name)
    if isinstance(system, str):
        return {
            "name": name, "title": "", "version": "", "drivers": [], "missing": system, "settings": {}, "stamps": [],
        }  # fmt: skip
    return {**system.describe(), "title": system.title, "drivers": list(system.drivers), "missing": not_ready(system)}
