"""`mqlab broker browse NAME`: look at messages without taking them."""

import base64
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from mqlab.cli.broker.connection import AsJson, Asked, SelectorOption, over_the_wire
from mqlab.cli.broker.escaping import body_text, cell, show_plain_json
from mqlab.cli.console import say, show
from mqlab.client.message import Message
from mqlab.wire.native.columns import Value

_BODY_WIDTH: Final = 80


@over_the_wire
async def browse(
    broker: Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="queue:NAME.")],
    selector: SelectorOption = "",
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many, the first ones (0: all).")] = 100,
    bodies: Annotated[bool, typer.Option("--bodies", help="Show what is in them, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the messages of a queue that could be delivered now, without taking them."""
    # A queue is made when it is first named; a look must not make one.
    await broker.ask("show", name=name)
    session = await broker.connection.session()
    found: list[Message] = []
    more = False
    async for message in await session.browser(name, selector=selector):
        more = bool(limit) and len(found) == limit
        if more:
            break
        found.append(message)
    if as_json:
        show_plain_json({"messages": [_document(message, bodies) for message in found], "more": more})
    else:
        show(_table(found, bodies))
    if more:
        say(f"There are more than these {limit:,} messages: --limit shows them.")


def _table(messages: list[Message], bodies: bool) -> Table:
    """A line a message, however long its texts are."""
    columns = ("id", "sent", "priority", "persistent", "deliveries", "correlation id", "type", "properties", "size")
    table = Table(box=None)
    for name in (*columns, *(("body",) if bodies else ())):
        whole = max((len(one.id or "") for one in messages), default=0) if name == "id" else len(name)
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=whole)
    for one in messages:
        properties = ", ".join(f"{key}={value!r}" for key, value in one.properties.items())
        cells = (one.id, _time(one.timestamp), one.priority, one.persistent, one.delivery_count - 1, one.correlation_id,
                 one.type, properties, len(one.body))  # fmt: skip
        table.add_row(*map(cell, cells), *((cell(body_text(one.body, _BODY_WIDTH)),) if bodies else ()))
    return table


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        # A client may say anything.
        return str(milliseconds)


def _document(message: Message, bodies: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        name: getattr(message, name)
        for name in ("id", "timestamp", "destination", "priority", "persistent", "redelivered", "delivery_count",
                     "correlation_id", "reply_to", "type", "expiration", "deliver_at", "group")
    }  # fmt: skip
    document["properties"] = {key: _json_value(value) for key, value in message.properties.items()}
    document["size"] = len(message.body)
    if bodies:
        document |= _body(message.body)
    return document


def _json_value(value: Value) -> Value:
    """JSON has no word for what is not a number."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _body(body: bytes) -> dict[str, str]:
    """As text where it is text; else in base64, under another name."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
