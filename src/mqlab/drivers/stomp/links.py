"""Links of the STOMP driver: sender and receiver."""

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np

from mqlab.drivers.api import (
    Integers,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    ReceiverOptions,
    Sender,
    Texts,
)
from mqlab.drivers.stomp.client import StompClient
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import equal_offsets
from mqlab.wire.stomp.batch_encoder import Column, equal_widths, paste, written
from mqlab.wire.stomp.frames import StompFrame, encode, encode_head, escape
from mqlab.wire.stomp.runs import FrameRun

VERSION: Final = "1.2"
# A value for each message, by the text before it: a header's name, a colon, and the start of its value.
Columns = Mapping[bytes, Column]
_NO_COLUMNS: Final[Columns] = {}
# A session has one transaction at a time, so all can have the same name.
_TRANSACTION: Final = {"transaction": "t"}


class StompSender(Sender):
    def __init__(self, client: StompClient, destination: str, *, persistent: bool, transacted: bool) -> None:
        self._client = client
        headers = client.flavour.send_headers(destination, persistent=persistent)
        self._head = encode_head("SEND", headers | (_TRANSACTION if transacted else {}), VERSION)
        self._transacted = transacted
        self._in_transaction = False
        # After the first `wait_accepted` every send requests a receipt. Messages of each missing receipt, and in all.
        self._wants_receipts = False
        self._receipts: deque[int] = deque()
        self._pending = 0
        # Non-persistent messages need no receipt each: the broker reads them in order.
        self._receipt_each = persistent and client.flavour.receipts == "each"

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        client, head, columns = self._client, self._head, _NO_COLUMNS
        if self._transacted and not self._in_transaction:
            client.write(encode(StompFrame("BEGIN", _TRANSACTION), VERSION))
            self._in_transaction = True
        if properties is not None:
            columns = {_before(name): _written(values) for name, values in properties.items()}
        if headers is not None:
            headers.check(client.flavour.lacks)
            head += client.flavour.expiry(headers.expires_s)
            columns = {**columns, **_header_columns(headers)}
        if not (wait or self._wants_receipts):
            client.write(encode_sends(head, bodies, columns))
        elif self._receipt_each and wait:
            first = client.reserve_receipts(len(bodies))
            client.write(encode_sends(head, bodies, {**columns, b"receipt:": np.arange(first, first + len(bodies))}))
        else:
            client.write(self._with_last_receipt(head, bodies, columns))
            self._receipts.append(len(bodies))
            self._pending += len(bodies)
        if wait:
            await client.wait_receipts()
            self._receipts.clear()
            self._pending = 0
        else:
            await client.wait_writable()

    async def wait_accepted(self, max_pending: int) -> None:
        self._wants_receipts = True
        while self._pending > max_pending:
            await self._client.wait_receipts(max_missing=len(self._receipts) - 1)
            self._pending -= self._receipts.popleft()

    async def commit(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            await self._client.command(StompFrame("COMMIT", _TRANSACTION))

    async def close(self) -> None:
        # RabbitMQ drops missing receipts of a client that disconnects.
        await self._client.wait_receipts()
        await self._client.close()

    def _with_last_receipt(self, head: bytes, bodies: Matrix, columns: Columns) -> bytes:
        last = len(bodies) - 1
        before = {name: values[:last] for name, values in columns.items()}
        after = {name: values[last:] for name, values in columns.items()}
        end = encode_sends(head + b"receipt:%d\n" % self._client.reserve_receipts(), bodies[last:], after)
        return encode_sends(head, bodies[:last], before) + end if last else end


class StompReceiver(Receiver):
    def __init__(self, client: StompClient, destination: str, options: ReceiverOptions) -> None:
        self._client = client
        # Twice the prefetch: the client stops reading from a broker that exceeds it.
        client.capacity = 2 * max(1, options.prefetch)
        self._destination = destination
        self._options = options
        self._transacted = options.acknowledge == "transacted"
        # Received messages that are not acknowledged, and the ack id that acknowledges them all.
        self._unacknowledged = 0
        self._last_ack = b""
        # dups_ok: acknowledge when more than this is unacknowledged, or when the inbox is empty.
        self._ack_delay = options.prefetch // 2 if options.acknowledge == "dups_ok" else 0
        self._id = ""

    async def subscribe(self) -> None:
        """Return when the broker has confirmed the subscription."""
        client, options = self._client, self._options
        headers = client.flavour.subscribe_headers(
            self._destination, options.prefetch, client.flavour.selector(options.selector)
        )
        headers |= client.flavour.durable_headers(options.durable)
        await client.command(StompFrame("SUBSCRIBE", headers))
        self._id = headers["id"]

    async def receive(self) -> ReceivedBatch:
        client = self._client
        unacknowledged = 0 if self._transacted else self._unacknowledged
        if unacknowledged and (unacknowledged > self._ack_delay or not client.inbox):
            self._acknowledge()
        await client.wait_message()
        messages = take_messages(client)
        batch = ReceivedBatch(bodies_of(messages), _redelivered(messages[0]))
        self._unacknowledged += len(batch.bodies)
        self._last_ack = ack_of(messages[-1])
        return batch

    async def commit(self) -> None:
        """Acknowledge in a transaction, or by one cumulative ACK where the broker has no transacted ACKs."""
        if not self._unacknowledged:
            return
        self._unacknowledged = 0
        if self._client.flavour.transacted_acks:
            self._client.write(b"BEGIN\ntransaction:t\n\n\0ACK\nid:%b\ntransaction:t\n\n\0" % self._last_ack)
            await self._client.command(StompFrame("COMMIT", _TRANSACTION))
        else:
            self._client.write(b"ACK\nid:%b\nreceipt:%d\n\n\0" % (self._last_ack, self._client.reserve_receipts()))
            await self._client.wait_receipts()

    async def close(self) -> None:
        if self._client.closed:
            return
        # In the modes client and transacted, only `receive` or `commit` acknowledges.
        if self._unacknowledged and self._options.acknowledge in ("auto", "dups_ok"):
            self._acknowledge()
        if self._options.durable and self._id:
            # A broker may answer DISCONNECT before it has removed the consumer, and the next subscriber would find the
            # subscription in use. Without the durable headers, UNSUBSCRIBE removes the consumer only.
            await self._client.command(StompFrame("UNSUBSCRIBE", {"id": self._id}))
        await self._client.close()

    def _acknowledge(self) -> None:
        self._client.write(b"ACK\nid:%b\n\n\0" % self._last_ack)
        self._unacknowledged = 0


def encode_sends(head: bytes, bodies: Matrix, columns: Columns) -> bytes:
    """Encode SEND frames with the same head; `columns` are headers that differ in a value."""
    rows, size = bodies.shape
    length = b"content-length:%d\n\n" % size
    if not columns:
        return paste(rows, (head, length, bodies, b"\0"))
    frames = []
    for begin, end in equal_widths(*columns.values()):
        parts: list[bytes | Matrix] = [head]
        for before, values in columns.items():
            parts += [before, written(values[begin:end]), b"\n"]
        frames.append(paste(end - begin, (*parts, length, bodies[begin:end], b"\0")))
    return b"".join(frames)


def _header_columns(headers: MessageHeaders) -> Columns:
    columns: dict[bytes, Column] = {}
    if headers.priority is not None:
        columns[b"priority:"] = headers.priority
    if headers.key is not None:
        columns[b"JMSXGroupID:"] = _written(headers.key)
    return columns


def _before(name: str) -> bytes:
    return f"{escape(name, VERSION)}:".encode()


def _written(values: Integers | Texts) -> Column:
    if values.dtype.kind != "U":
        return values
    different, places = np.unique(values, return_inverse=True)
    encoded: Column = np.array([escape(text, VERSION).encode() for text in different.tolist()])[places]
    return encoded


def take_messages(client: StompClient) -> list[StompFrame | FrameRun]:
    """Take the first messages of the inbox, up to a change between redelivered and not."""
    inbox = client.inbox
    redelivered = _redelivered(inbox[0])
    count = next((at for at, message in enumerate(inbox) if _redelivered(message) != redelivered), len(inbox))
    messages = inbox[:count]
    del inbox[:count]
    client.resume_when_drained()
    return messages


def ack_of(message: StompFrame | FrameRun) -> bytes:
    """Return the encoded ack id of the message, or of the last one of a run."""
    if isinstance(message, FrameRun):
        return bytes(message.written("ack")[-1])
    return escape(message.headers["ack"], VERSION).encode()


def bodies_of(messages: list[StompFrame | FrameRun]) -> Bodies:
    if len(messages) == 1:
        [message] = messages
        if isinstance(message, FrameRun):
            table = message.bodies()
            return Bodies(np.ascontiguousarray(table).reshape(-1), equal_offsets(*table.shape))
        body = np.frombuffer(message.body, dtype=np.uint8)
        return Bodies(body, equal_offsets(1, len(body)))
    bodies, sizes = [], []
    for message in messages:
        if isinstance(message, FrameRun):
            table = message.bodies()
            bodies.append(table.tobytes())
            sizes += [table.shape[1]] * table.shape[0]
        else:
            bodies.append(message.body)
            sizes.append(len(message.body))
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return Bodies(np.frombuffer(b"".join(bodies), dtype=np.uint8), offsets)


def _redelivered(message: StompFrame | FrameRun) -> bool:
    return message.headers.get("redelivered") == "true"
