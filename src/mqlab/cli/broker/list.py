"""`mqlab broker list`: the queues and subscriptions of a running broker."""

from rich.table import Table

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import cell, show_plain_json
from mqlab.cli.terminal.console import say, show
from mqlab.json_values import JsonObject


@broker_command
async def list_all(broker: BrokerAdmin, as_json: AsJson = False) -> None:
    """List the queues and subscriptions that you have the right to read."""
    response = await broker.ask("list")
    if as_json:
        show_plain_json(response)
        return
    if not response["destinations"]:
        say("The broker has no queue or subscription that you may read.")
        return
    table = Table(box=None)
    for name in ("name", "messages", "bytes", "consumers", "producers"):
        table.add_column(name, justify="left" if name == "name" else "right")
    table.add_column("kind")
    for destination in sorted(response["destinations"], key=lambda destination: str(destination["name"])):
        numbers = (destination[key] for key in ("messages", "bytes", "consumers", "producers"))
        table.add_row(cell(destination["name"]), *map(cell, numbers), cell(_kind(destination)))
    show(table)


def _kind(destination: JsonObject) -> str:
    if "topic" not in destination:
        return "temporary queue" if destination["temporary"] else "queue"
    words = [word for word in ("durable", "shared") if destination[word]]
    selected = f" where {destination['selector']}" if destination["selector"] else ""
    return " ".join([*words, f"subscription to {destination['topic']}{selected}"])
