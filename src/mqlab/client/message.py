"""Messages as a consumer gets them: one by one, or as they came together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mqlab.wire.native.bodies import COLUMNS, SINGLE, Bodies, Payload, decode, select_rows
from mqlab.wire.native.columns import PROPERTY, Value, column, column_names, decode_batch, decode_single
from mqlab.wire.templates import MessageTemplate

DEFAULT_PRIORITY: Final = 4
ID_PREFIX: Final = "ID:"


class Delivery:
    """Messages that came together. Their headers are read when somebody asks for one."""

    __slots__ = ("_columns", "_single", "delivered", "destination", "first", "payload", "persistent")

    def __init__(self, first: int, payload: Payload, delivered: int, persistent: bool, destination: str) -> None:
        # Delivery id of the first of them.
        self.first = first
        self.payload = payload
        # How often they may have been delivered before, to this consumer or another.
        self.delivered = delivered
        self.persistent = persistent
        # Where they were sent.
        self.destination = destination
        self._columns: dict[str, list[Any]] = {}
        # Of a single message, once it was taken apart: all it says beside its body.
        self._single: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int:
        return self.payload.rows

    @property
    def redelivered(self) -> bool:
        return self.delivered > 0

    def bodies(self) -> Bodies:
        return decode(self.payload)

    def column(self, name: str) -> pa.Array | None:
        """A header, or a property (its name with a full stop in front), of all of them; None if none has it."""
        return column(self.payload, name)

    def batch(self) -> pa.RecordBatch:
        """Bodies and columns as Arrow has them."""
        return decode_batch(self.payload)

    def message(self, like: MessageTemplate | None = None, text: str = "") -> Message:
        """The only one; it is probably of this form, with that text."""
        body = None if like is None else like.body(self.payload, text)
        if like is not None and body is not None:
            self._single = {like.name: text}
            return _message((body, 0, self))
        if not self.payload.form & SINGLE:
            return self.messages()[0]
        single = decode_single(self.payload)
        self._single = single.values
        return _message((single.own_body(), 0, self))

    def messages(self) -> list[Message]:
        if self.payload.form & SINGLE:
            return [self.message()]
        return list(map(Message, self.bodies().tolist(), range(self.rows), repeat(self)))

    def after(self, rows: int) -> Delivery:
        """Without the first `rows` messages."""
        rest = select_rows(self.payload, range(rows, self.rows))
        return Delivery(self.first + rows, rest, self.delivered, self.persistent, self.destination)

    def header(self, name: str, row: int) -> Any:
        if self._single is not None:
            return self._single.get(name)
        if not self.payload.form & COLUMNS:
            return None
        values = self._columns.get(name)
        if values is None:
            found = self.column(name)
            values = self._columns[name] = [None] * self.rows if found is None else found.to_pylist()
        return values[row]

    def properties(self, row: int) -> dict[str, Value]:
        names = [name for name in column_names(self.payload) if name.startswith(PROPERTY)]
        found = {name.removeprefix(PROPERTY): self.header(name, row) for name in names}
        return {name: value for name, value in found.items() if value is not None}


class Message(NamedTuple):
    """One message: its body, and its place in the delivery it came with."""

    body: bytes
    row: int
    source: Delivery

    @property
    def delivery_id(self) -> int:
        return self.source.first + self.row

    @property
    def destination(self) -> str:
        """Where it was sent: of interest where a consumer receives from many topics."""
        return self.source.destination

    @property
    def redelivered(self) -> bool:
        """It may have been delivered before, to this consumer or another."""
        return self.source.delivered > 0

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered, this time included."""
        return self.source.delivered + 1

    @property
    def persistent(self) -> bool:
        return self.source.persistent

    @property
    def id(self) -> str | None:
        """None, if its producer leaves ids out."""
        found = self.source.header("id", self.row)
        return None if found is None else ID_PREFIX + found.hex()

    @property
    def timestamp(self) -> int | None:
        """When it was sent, in ms since 1970; None, if its producer leaves that out."""
        found: int | None = self.source.header("timestamp", self.row)
        return found

    @property
    def correlation_id(self) -> str | None:
        found: str | None = self.source.header("correlation_id", self.row)
        return found

    @property
    def reply_to(self) -> str | None:
        found: str | None = self.source.header("reply_to", self.row)
        return found

    @property
    def type(self) -> str | None:
        found: str | None = self.source.header("type", self.row)
        return found

    @property
    def priority(self) -> int:
        found = self.source.header("priority", self.row)
        return DEFAULT_PRIORITY if found is None else int(found)

    @property
    def expiration(self) -> int:
        """When it expires, in ms since 1970; 0: never."""
        return self.source.header("expiration", self.row) or 0

    @property
    def deliver_at(self) -> int:
        """When it could be delivered at the earliest, in ms since 1970; 0: at once."""
        return self.source.header("deliver_at", self.row) or 0

    @property
    def group(self) -> str | None:
        found: str | None = self.source.header("group", self.row)
        return found

    @property
    def properties(self) -> dict[str, Value]:
        return self.source.properties(self.row)


# The same in a third of the time: that counts where a message is alone.
_message: Callable[[tuple[bytes, int, Delivery]], Message] = partial(tuple.__new__, Message)
