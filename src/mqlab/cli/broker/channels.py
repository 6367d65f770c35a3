"""`mqlab broker channels`: the channels of a running broker to others."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from mqlab.broker.server.channels.receiving_end import read_password
from mqlab.cli.broker.connection import AsJson, Asked, over_the_wire
from mqlab.cli.broker.escaping import cell, plain, show_plain_json
from mqlab.cli.console import Exit, fail, say, show

_COLUMNS = ("to", "address", "state", "messages", "bytes", "batches", "batch_mean", "in_doubt", "refused", "lost")


class Action(StrEnum):
    LIST = "list"
    ADD = "add"
    START = "start"
    STOP = "stop"


@over_the_wire
async def channels(
    broker: Asked,
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    to: Annotated[str | None, typer.Argument(metavar="[BROKER]", help="The broker that the channel leads to.")] = None,
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="Where that one listens, for a channel that is added.")
    ] = None,
    login: Annotated[str, typer.Option(metavar="USER", help="How a new channel logs in there.")] = "",
    password_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Its password: the first line of a file here.")
    ] = None,
    trust: Annotated[str, typer.Option(metavar="PATH", help="Certificates a new channel trusts; a file there.")] = "",
    batch: Annotated[int | None, typer.Option(help="Messages that go together at most.")] = None,
    retry: Annotated[int | None, typer.Option(help="The longest pause between tries to connect, in seconds.")] = None,
    as_json: AsJson = False,
) -> None:
    """List channels; start or stop one; add one, which lasts until the broker ends (its settings make one that stays).

    A channel that is stopped keeps what is sent to the other broker. What was under way may have arrived or not: that
    is found out when it is started again.
    """
    if (to is None) != (action is Action.LIST) or (address is None) != (action is not Action.ADD):
        fail("write: channels list, channels start BROKER, channels stop BROKER or channels add BROKER ADDRESS",
             Exit.USAGE)  # fmt: skip
    if to is None:
        await _list(broker, as_json)
        return
    said: dict[str, Any] = {}
    if action is Action.ADD:
        try:
            password = read_password(password_file)
        except (OSError, ValueError) as error:
            fail(f"--password-file: {password_file}: {getattr(error, 'strerror', '') or 'is not UTF-8'}", Exit.USAGE)
        said = {"address": address, "user": login, "password": password, "ca": trust, "batch": batch, "retry": retry}
    found = await broker.ask(f"{action.value}_channel", to=to, **said)
    if as_json:
        show_plain_json(found)
    else:
        done = {Action.ADD: "added", Action.START: "started", Action.STOP: "stopped"}[action]
        say(plain(f"the channel to {to} is {done}"))


async def _list(broker: Asked, as_json: bool) -> None:
    found = await broker.ask("channels")
    if as_json:
        show_plain_json(found)
        return
    if not found["channels"]:
        say("There is no channel.")
        return
    table = Table(*(name.replace("_", " ") for name in _COLUMNS), "round trip", "why", box=None)
    for one in found["channels"]:
        watched = one["monitoring"]
        trip = f"{watched['round_trip_short_us'] / 1000:.2f} ms" if watched and watched["looks"] else ""
        table.add_row(*(cell(one[name]) for name in _COLUMNS), cell(trip), cell(one["reason"]))
    show(table)
