"""`mqlab broker move NAME TO`: messages from one queue to another."""

from typing import Annotated

import typer

from mqlab.cli.broker.connection import AsJson, Asked, NameArgument, SelectorOption, over_the_wire
from mqlab.cli.broker.escaping import plain, show_plain_json
from mqlab.cli.console import say


@over_the_wire
async def move(
    broker: Asked,
    name: NameArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="queue:NAME; made if there is none.")],
    selector: SelectorOption = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Move at most so many, the first ones.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move the messages that no consumer has in hand to another queue, in order."""
    found = await broker.ask("move", name=name, to=to, selector=selector, most=limit)
    if as_json:
        show_plain_json(found)
    else:
        say(plain(f"{found['messages']:,} messages moved from {name} to {to}"))
