"""Messages as a consumer receives them: one by one, or a delivery with many."""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import itemgetter, length_hint
from typing import Final, NamedTuple

import pyarrow as pa

from mqlab.wire.native.bodies import COLUMNS, SINGLE, Bodies, Payload, decode, select_rows
from mqlab.wire.native.columns import (
    AMQP_SECTIONS,
    PROPERTY,
    Decoded,
    Value,
    column,
    column_names,
    decode_batch,
    decode_single,
)

DEFAULT_PRIORITY: Final = 4
_SECTIONS: Final = PROPERTY + AMQP_SECTIONS
ID_PREFIX: Final = "ID:"


class Delivery:
    """Messages that the broker delivered together. Headers are decoded when they are read."""

    __slots__ = ("_columns", "_single", "delivered", "destination", "first", "payload", "persistent")

    def __init__(self, first: int, payload: Payload, delivered: int, persistent: bool, destination: str) -> None:
        # Delivery id of the first message.
        self.first = first
        self.payload = payload
        # How often the messages may have been delivered before, to any consumer.
        self.delivered = delivered
        self.persistent = persistent
        # The destination to which they were sent.
        self.destination = destination
        self._columns: dict[str, list[Decoded]] = {}
        # Headers and properties of a single message, once it is decoded.
        self._single: Mapping[str, Decoded] | None = None

    @property
    def rows(self) -> int:
        return self.payload.rows

    @property
    def redelivered(self) -> bool:
        return self.delivered > 0

    def bodies(self) -> Bodies:
        return decode(self.payload)

    def column(self, name: str) -> pa.Array | None:
        """A header, or a property (its name with a full stop in front), of all messages; None if none has it."""
        return column(self.payload, name)

    def batch(self) -> pa.RecordBatch:
        """Bodies and columns as an Arrow record batch."""
        return decode_batch(self.payload)

    def message(self) -> "Message":
        """The only message."""
        if not self.payload.form & SINGLE:
            return self.messages()[0]
        single = decode_single(self.payload)
        self._single = single.values
        return Message(single.own_body(), 0, self)

    def messages(self) -> "list[Message]":
        return [*UnreadMessages(self).messages]

    def own_bodies(self) -> list[bytes]:
        """A copy of each body."""
        if not self.payload.form & SINGLE:
            # With columns, the bodies are one of them already.
            bodies: list[bytes] = (self.batch().column(0) if self.payload.form & COLUMNS else self.bodies()).tolist()
            return bodies
        return [self.message().body]

    def after(self, rows: int) -> "Delivery":
        """Without the first `rows` messages."""
        rest = select_rows(self.payload, range(rows, self.rows))
        return Delivery(self.first + rows, rest, self.delivered, self.persistent, self.destination)

    def header(self, name: str, row: int) -> Decoded:
        if self._single is not None:
            return self._single.get(name)
        if not self.payload.form & COLUMNS:
            return None
        values = self._columns.get(name)
        if values is None:
            array = self.column(name)
            values = self._columns[name] = [None] * self.rows if array is None else array.to_pylist()
        return values[row]

    def properties(self, row: int) -> dict[str, Value]:
        names = [name for name in column_names(self.payload) if name[0] == PROPERTY and name != _SECTIONS]
        values = {name.removeprefix(PROPERTY): self.header(name, row) for name in names}
        return {name: value for name, value in values.items() if value is not None}


class Message(NamedTuple):
    """One message: its body, and its row in a delivery."""

    body: bytes
    row: int
    source: Delivery

    @property
    def delivery_id(self) -> int:
        return self.source.first + self.row

    @property
    def destination(self) -> str:
        """The destination to which it was sent; a consumer may receive from many topics."""
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
        """None if its producer sends no ids."""
        value = self.source.header("id", self.row)
        return None if value is None else ID_PREFIX + value.hex()

    @property
    def timestamp(self) -> int | None:
        """When it was sent, in ms since 1970; None if its producer sends no timestamps."""
        value: int | None = self.source.header("timestamp", self.row)
        return value

    @property
    def correlation_id(self) -> str | None:
        value: str | None = self.source.header("correlation_id", self.row)
        return value

    @property
    def reply_to(self) -> str | None:
        value: str | None = self.source.header("reply_to", self.row)
        return value

    @property
    def type(self) -> str | None:
        value: str | None = self.source.header("type", self.row)
        return value

    @property
    def priority(self) -> int:
        value = self.source.header("priority", self.row)
        return DEFAULT_PRIORITY if value is None else int(value)

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
        value: str | None = self.source.header("group", self.row)
        return value

    @property
    def properties(self) -> dict[str, Value]:
        return self.source.properties(self.row)


class UnreadMessages:
    """The messages of a delivery that the application has not received yet.

    `messages` and `bodies` both give the next one, the latter its body alone. No code of Python runs for a message, and
    a message is made when it is asked for. By code of Python, `plain` has 16 % fewer messages a second of processor
    time (`bench/cpu_time.py OLD --key plain`).
    """

    __slots__ = ("_rows", "bodies", "delivery", "messages")

    def __init__(self, delivery: Delivery | None = None) -> None:
        self.delivery = delivery
        bodies = iter(() if delivery is None else delivery.own_bodies())
        self._rows = iter(range(0 if delivery is None else delivery.rows))
        fields = zip(bodies, self._rows, repeat(delivery), strict=False)
        self.messages: Iterator[Message] = map(tuple.__new__, repeat(Message), fields)
        self.bodies: Iterator[bytes] = map(itemgetter(0), zip(bodies, self._rows, strict=False))

    def __len__(self) -> int:
        return length_hint(self._rows)

    def discard(self) -> None:
        """Leave nothing to receive, also to iterations over `messages` that go on now."""
        deque(self._rows, maxlen=0)

    def take_rest(self) -> Delivery:
        """All that is left, as a delivery. There must be something left."""
        assert self.delivery is not None
        rest = self.delivery.after(self.delivery.rows - len(self))
        self.discard()
        return rest
