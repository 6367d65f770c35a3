"""`mqlab broker channels`: list, start, stop and add the channels of a running broker."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from mqlab.broker.server.channels.receiving_end import read_password
from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import cell, show_plain_json, show_result
from mqlab.cli.terminal.console import Exit, fail, say, show

_COLUMNS = ("to", "address", "state", "messages", "bytes", "batches", "batch_mean", "in_doubt", "refused", "lost")


class ChannelAction(StrEnum):
    LIST = "list"
    ADD = "add"
    START = "start"
    STOP = "stop"


@broker_command
async def channels(
    broker: BrokerAdmin,
    action: Annotated[ChannelAction, typer.Argument(help="The operation.")] = ChannelAction.LIST,
    to: Annotated[str | None, typer.Argument(metavar="[BROKER]", help="The broker that the channel leads to.")] = None,
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="The address of that broker; only with add.")
    ] = None,
    login: Annotated[str, typer.Option(metavar="USER", help="The user that a new channel logs in as.")] = "",
    password_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A local file whose first line is the password.")
    ] = None,
    trust: Annotated[
        str, typer.Option(metavar="PATH", help="A file on the broker's machine: certificates to trust.")
    ] = "",
    batch: Annotated[int | None, typer.Option(help="The most messages in one batch.")] = None,
    retry: Annotated[
        int | None, typer.Option(help="The longest pause between connection attempts, in seconds.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List, start, stop or add channels. An added channel exists until the broker ends; settings make a permanent one.

    While a channel is stopped, the broker keeps the messages for the other broker. A batch that was in transfer stays
    in doubt until the channel starts again.
    """
    if (to is None) != (action is ChannelAction.LIST) or (address is None) != (action is not ChannelAction.ADD):
        fail("write: channels list, channels start BROKER, channels stop BROKER or channels add BROKER ADDRESS",
             Exit.USAGE)  # fmt: skip
    if to is None:
        await _list(broker, as_json)
        return
    settings: dict[str, object] = {}
    if action is ChannelAction.ADD:
        try:
            password = read_password(password_file)
        except (OSError, ValueError) as error:
            fail(f"--password-file: {password_file}: {getattr(error, 'strerror', '') or 'is not UTF-8'}", Exit.USAGE)
        settings = {
            "address": address, "user": login, "password": password, "ca": trust, "batch": batch, "retry": retry,
        }  # fmt: skip
    response = await broker.ask(f"{action.value}_channel", to=to, **settings)
    done = {ChannelAction.ADD: "added", ChannelAction.START: "started", ChannelAction.STOP: "stopped"}[action]
    show_result(response, f"the channel to {to} is {done}", as_json=as_json)


async def _list(broker: BrokerAdmin, as_json: bool) -> None:
    response = await broker.ask("channels")
    if as_json:
        show_plain_json(response)
        return
    if not response["channels"]:
        say("The broker has no channels.")
        return
    table = Table(*(name.replace("_", " ") for name in _COLUMNS), "round trip", "why", box=None)
    for channel in response["channels"]:
        monitoring = channel["monitoring"]
        trip = f"{monitoring['round_trip_short_us'] / 1000:.2f} ms" if monitoring and monitoring["looks"] else ""
        table.add_row(*(cell(channel[name]) for name in _COLUMNS), cell(trip), cell(channel["reason"]))
    show(table)
