"""`mqlab broker list`: what there is in a running broker."""

from typing import Any

from rich.table import Table

from mqlab.cli.broker.connection import AsJson, Asked, over_the_wire
from mqlab.cli.broker.escaping import cell, show_plain_json
from mqlab.cli.console import say, show


@over_the_wire
async def list_all(broker: Asked, as_json: AsJson = False) -> None:
    """List queues and subscriptions, as far as you may read them."""
    found = await broker.ask("list")
    if as_json:
        show_plain_json(found)
        return
    if not found["destinations"]:
        say("There is no queue and no subscription.")
        return
    table = Table(box=None)
    for name in ("name", "messages", "bytes", "consumers", "producers"):
        table.add_column(name, justify="left" if name == "name" else "right")
    table.add_column("kind")
    for one in sorted(found["destinations"], key=lambda one: str(one["name"])):
        numbers = (one[key] for key in ("messages", "bytes", "consumers", "producers"))
        table.add_row(cell(one["name"]), *map(cell, numbers), cell(_kind(one)))
    show(table)


def _kind(one: dict[str, Any]) -> str:
    if "topic" not in one:
        return "temporary queue" if one["temporary"] else "queue"
    words = [word for word in ("durable", "shared") if one[word]]
    selected = f" where {one['selector']}" if one["selector"] else ""
    return " ".join([*words, f"subscription to {one['topic']}{selected}"])
