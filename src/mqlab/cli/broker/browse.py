"""`mqlab broker browse NAME`: show the messages of a queue and leave them there."""

from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, SelectorOption, broker_command
from mqlab.cli.broker.common.safe_output import body_text, cell, show_plain_json
from mqlab.cli.terminal.console import say, show
from mqlab.client.message import Message
from mqlab.client.message_document import message_document

_BODY_WIDTH: Final = 80


@broker_command
async def browse(
    broker: BrokerAdmin,
    name: Annotated[str, typer.Argument(metavar="NAME", help="queue:NAME.")],
    selector: SelectorOption = "",
    limit: Annotated[
        int, typer.Option(min=0, help="Show at most this many messages, from the first one (0: all).")
    ] = 100,
    bodies: Annotated[bool, typer.Option("--bodies", help="Show the bodies of the messages, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the messages of a queue that the broker could deliver now. They stay in the queue."""
    # The broker creates a queue when a browser opens it; `show` fails instead when the queue does not exist.
    await broker.ask("show", name=name)
    session = await broker.connection.session()
    messages: list[Message] = []
    more = False
    async for message in await session.browser(name, selector=selector):
        more = bool(limit) and len(messages) == limit
        if more:
            break
        messages.append(message)
    if as_json:
        show_plain_json(
            {
                "messages": [message_document(message, most_body_bytes=None if bodies else 0) for message in messages],
                "more": more,
            }
        )
    else:
        show(_table(messages, bodies))
    if more:
        say(f"The queue has more than these {limit:,} messages. Use --limit to show more.")


def _table(messages: list[Message], bodies: bool) -> Table:
    """Return a table with one line per message; long texts are cut."""
    columns = ("id", "sent", "priority", "persistent", "deliveries", "correlation id", "type", "properties", "size")
    table = Table(box=None)
    for name in (*columns, *(("body",) if bodies else ())):
        min_width = max((len(message.id or "") for message in messages), default=0) if name == "id" else len(name)
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=min_width)
    for message in messages:
        properties = ", ".join(f"{key}={value!r}" for key, value in message.properties.items())
        cells = (message.id, _time(message.timestamp), message.priority, message.persistent, message.delivery_count - 1,
                 message.correlation_id, message.type, properties, len(message.body))  # fmt: skip
        table.add_row(*map(cell, cells), *((cell(body_text(message.body, _BODY_WIDTH)),) if bodies else ()))
    return table


def _time(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        # The sending client chose the timestamp, so it may be out of range.
        return str(timestamp_ms)
