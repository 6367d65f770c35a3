"""`mqlab broker move NAME TO`: move messages to another queue."""

from typing import Annotated

import typer

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, NameArgument, SelectorOption, broker_command
from mqlab.cli.broker.common.safe_output import show_result


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
