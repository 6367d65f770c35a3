"""`mqlab broker list`, `show`, `purge`, `move` and `delete`: the queues and subscriptions of a running broker."""

from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from mqlab.cli.broker.common.connection import (
    AsJson,
    BrokerAdmin,
    NameArgument,
    SelectorOption,
    YesOption,
    broker_command,
    confirm,
)
from mqlab.cli.broker.common.safe_output import cell, show_plain_json, show_result, values_table
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


@broker_command
async def show_one(broker: BrokerAdmin, name: NameArgument, as_json: AsJson = False) -> None:
    """Show the depth, counters, limits and flow control history of a queue or subscription."""
    response = await broker.ask("show", name=name)
    if as_json:
        show_plain_json(response)
        return
    show(values_table({**response, "episodes": _held_back(response.get("episodes", []))}))


def _held_back(episodes: list[JsonObject]) -> str:
    if not episodes:
        return "producers were never held back"
    last = episodes[-1]
    began = datetime.fromtimestamp(last["began"] / 1000).astimezone().isoformat(timespec="milliseconds")
    lasted = last["ended"] - last["began"]
    return f"producers were held back {len(episodes)} times, the last from {began} for {lasted} ms"


@broker_command
async def purge(
    broker: BrokerAdmin,
    name: NameArgument,
    selector: SelectorOption = "",
    yes: YesOption = False,
    as_json: AsJson = False,
) -> None:
    """Remove the messages of a queue or subscription for good, except those delivered to a consumer."""
    which = f"the messages of {name} where {selector}" if selector else f"all messages of {name}"
    confirm(f"Remove {which}? They are lost.", yes=yes)
    response = await broker.ask("purge", name=name, selector=selector)
    show_result(response, f"{response['messages']:,} messages removed from {name}", as_json=as_json)


@broker_command
async def move(
    broker: BrokerAdmin,
    name: NameArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="queue:NAME; the broker creates it if it does not exist.")],
    selector: SelectorOption = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Move at most this many messages, from the first one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Move messages to another queue in order, except those delivered to a consumer."""
    response = await broker.ask("move", name=name, to=to, selector=selector, most=limit)
    show_result(response, f"{response['messages']:,} messages moved from {name} to {to}", as_json=as_json)


@broker_command
async def delete(broker: BrokerAdmin, name: NameArgument, yes: YesOption = False, as_json: AsJson = False) -> None:
    """Delete a queue or subscription that has no consumers, with the messages in it."""
    confirm(f"Delete {name}? The messages in it are lost.", yes=yes)
    response = await broker.ask("delete", name=name)
    show_result(response, f"{name} is deleted", as_json=as_json)
