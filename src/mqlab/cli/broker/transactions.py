"""`mqlab broker transactions`: those that were prepared and wait for a decision."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from mqlab.cli.broker.connection import AsJson, Asked, over_the_wire
from mqlab.cli.broker.escaping import cell, plain, show_plain_json
from mqlab.cli.console import Exit, fail, say, show


class Action(StrEnum):
    LIST = "list"
    COMMIT = "commit"
    ROLLBACK = "rollback"


@over_the_wire
async def transactions(
    broker: Asked,
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    xid: Annotated[str | None, typer.Argument(metavar="[XID]", help="Which one to commit or roll back.")] = None,
    as_json: AsJson = False,
) -> None:
    """List prepared transactions, or decide one whose transaction manager will not come back."""
    if (xid is None) != (action is Action.LIST):
        fail("write: transactions list, transactions commit XID or transactions rollback XID", Exit.USAGE)
    if xid is None:
        await _list(broker, as_json)
        return
    found = await broker.ask(action.value, xid=xid)
    if as_json:
        show_plain_json(found)
    else:
        say(plain(f"{xid} is {'committed' if action is Action.COMMIT else 'rolled back'}"))


async def _list(broker: Asked, as_json: bool) -> None:
    found = await broker.ask("prepared")
    if as_json:
        show_plain_json(found)
        return
    if not found["prepared"]:
        say("No transaction waits for a decision.")
        return
    table = Table("transaction", "messages sent", "messages received", box=None)
    for one in found["prepared"]:
        table.add_row(cell(one["xid"]), cell(one["sent"]), cell(one["received"]))
    show(table)
