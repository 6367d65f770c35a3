"""What a role holds of a STOMP connection to send or to receive."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mqlab.drivers.api import Matrix, Properties, ReceivedBatch, Receiver, ReceiverOptions, Sender
from mqlab.drivers.stomp.client import StompClient
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import equal_offsets
from mqlab.wire.stomp import FrameRun, StompFrame, decimals, encode, encode_head, equal_widths, escape, paste

VERSION: Final = "1.2"
# Numbers for each message by what stands before them: the name of a header, a colon, and the begin of its value.
Columns = Mapping[bytes, "np.ndarray[tuple[int], np.dtype[Any]]"]
# One transaction is open at a time, so all can have the same name.
_TRANSACTION: Final = {"transaction": "t"}


class StompSender(Sender):
    def __init__(self, client: StompClient, destination: str, *, persistent: bool, transacted: bool) -> None:
        self._client = client
        headers = client.flavour.send_headers(destination, persistent=persistent)
        self._head = encode_head("SEND", headers | (_TRANSACTION if transacted else {}), VERSION)
        self._transacted = transacted
        self._in_transaction = False
        # Once somebody wants to know what is taken, each send asks for a receipt: the messages of each, and of all.
        self._wants_receipts = False
        self._receipts: deque[int] = deque()
        self._pending = 0
        # A message that need not be safe is confirmed by having been read, which happens in order.
        self._receipt_each = persistent and client.flavour.receipts == "each"

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        client = self._client
        if self._transacted and not self._in_transaction:
            client.write(encode(StompFrame("BEGIN", _TRANSACTION), VERSION))
            self._in_transaction = True
        columns = _columns(properties) if properties else {}
        if not (wait or self._wants_receipts):
            client.write(frames_of(self._head, bodies, columns))
        elif self._receipt_each and wait:
            first = client.reserve_receipts(len(bodies))
            client.write(frames_of(self._head, bodies, {**columns, b"receipt:": np.arange(first, first + len(bodies))}))
        else:
            client.write(self._with_last_receipt(bodies, columns))
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
        # RabbitMQ forgets the receipts that it owes to one that leaves.
        await self._client.wait_receipts()
        await self._client.close()

    def _with_last_receipt(self, bodies: Matrix, columns: Columns) -> bytes:
        last = len(bodies) - 1
        before = {name: values[:last] for name, values in columns.items()}
        after = {name: values[last:] for name, values in columns.items()}
        asking = self._head + b"receipt:%d\n" % self._client.reserve_receipts()
        end = frames_of(asking, bodies[last:], after)
        return frames_of(self._head, bodies[:last], before) + end if last else end


class StompReceiver(Receiver):
    def __init__(self, client: StompClient, destination: str, options: ReceiverOptions) -> None:
        self._client = client
        # What it should hold to; a broker that does not is kept waiting.
        client.capacity = 2 * max(1, options.prefetch)
        self._destination = destination
        self._options = options
        self._transacted = options.acknowledge == "transacted"
        # Of what was handed out and not acknowledged: how many, and what acknowledges them all.
        self._unacknowledged = 0
        self._last_ack = b""
        # Lazily: not before half of the room is taken, unless nothing else is there.
        self._ack_delay = options.prefetch // 2 if options.acknowledge == "dups_ok" else 0
        self._id = ""

    async def subscribe(self) -> None:
        """Returns when the broker knows of it."""
        client, options = self._client, self._options
        headers = client.flavour.subscribe_headers(
            self._destination, options.prefetch, client.flavour.selector(options.selector)
        )
        headers |= client.flavour.durable_headers(options.durable)
        await client.command(StompFrame("SUBSCRIBE", headers))
        self._id = headers["id"]

    async def receive(self) -> ReceivedBatch:
        client = self._client
        if (
            self._unacknowledged
            and not self._transacted
            and (self._unacknowledged > self._ack_delay or not client.inbox)
        ):
            self._acknowledge()
        await client.wait_message()
        messages = take_messages(client)
        batch = ReceivedBatch(bodies_of(messages), _redelivered(messages[0]))
        self._unacknowledged += len(batch.bodies)
        self._last_ack = ack_of(messages[-1])
        return batch

    async def commit(self) -> None:
        """As a transaction of its own, or, where there is no such thing, with one acknowledgement for all."""
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
        # A client that says when it is done, by asking for more or by a commit, has not said so.
        if self._unacknowledged and self._options.acknowledge in ("auto", "dups_ok"):
            self._acknowledge()
        if self._options.durable and self._id:
            # A broker may answer a DISCONNECT before it has taken the consumer off: whoever wants the subscription next
            # would find it in use. Without the headers that made it durable, this ends no more than the consumer.
            await self._client.command(StompFrame("UNSUBSCRIBE", {"id": self._id}))
        await self._client.close()

    def _acknowledge(self) -> None:
        self._client.write(b"ACK\nid:%b\n\n\0" % self._last_ack)
        self._unacknowledged = 0


def frames_of(head: bytes, bodies: Matrix, columns: Columns) -> bytes:
    """SEND frames with the same head, and each with its own body and numbers at the ends of further headers."""
    rows, size = bodies.shape
    length = b"content-length:%d\n\n" % size
    if not columns:
        return paste(rows, (head, length, bodies, b"\0"))
    written = []
    for begin, end in equal_widths(*columns.values()):
        parts: list[bytes | Matrix] = [head]
        for before, values in columns.items():
            parts += [before, decimals(values[begin:end]), b"\n"]
        written.append(paste(end - begin, (*parts, length, bodies[begin:end], b"\0")))
    return b"".join(written)


def _columns(properties: Properties) -> Columns:
    return {f"{escape(name, VERSION)}:".encode(): values for name, values in properties.items()}


def take_messages(client: StompClient) -> list[StompFrame | FrameRun]:
    """Takes what came first and all that is like it: come again, or not."""
    inbox = client.inbox
    redelivered = _redelivered(inbox[0])
    count = next((at for at, found in enumerate(inbox) if _redelivered(found) != redelivered), len(inbox))
    some = inbox[:count]
    del inbox[:count]
    client.resume_when_drained()
    return some


def ack_of(message: StompFrame | FrameRun) -> bytes:
    """What an ACK for it says, as it is written."""
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
