"""`mqlab broker transactions`: list and resolve prepared transactions."""

from enum import StrEnum
from typing import Annotated

import typer

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import cell, show_plain_json, show_result
from mqlab.cli.terminal.console import Exit, fail, say, show, table_of


class TransactionAction(StrEnum):
    LIST = "list"
    COMMIT = "commit"
    ROLLBACK = "rollback"


@broker_command
async def transactions(
    broker: BrokerAdmin,
    action: Annotated[TransactionAction, typer.Argument(help="The operation.")] = TransactionAction.LIST,
    xid: Annotated[str | None, typer.Argument(metavar="[XID]", help="The transaction to commit or roll back.")] = None,
    as_json: AsJson = False,
) -> None:
    """List prepared transactions, or commit or roll back one whose transaction manager is gone for good."""
    if (xid is None) != (action is TransactionAction.LIST):
        fail("write: transactions list, transactions commit XID or transactions rollback XID", Exit.USAGE)
    if xid is None:
        await _list(broker, as_json)
        return
    response = await broker.ask(action.value, xid=xid)
    show_result(
        response, f"{xid} is {'committed' if action is TransactionAction.COMMIT else 'rolled back'}", as_json=as_json
    )


async def _list(broker: BrokerAdmin, as_json: bool) -> None:
    response = await broker.ask("prepared")
    if as_json:
        show_plain_json(response)
        return
    if not response["prepared"]:
        say("No prepared transaction waits for a decision.")
        return
    rows = ([cell(prepared[key]) for key in ("xid", "sent", "received")] for prepared in response["prepared"])
    show(table_of(("transaction", "messages sent", "messages received"), rows))
