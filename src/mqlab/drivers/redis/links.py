"""Links of the Redis driver: sender and receiver."""

from collections.abc import Mapping
from typing import Final

from mqlab.drivers.api import (
    NOT_TRANSACTED,
    DriverError,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    Sender,
)
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.streams import StreamReader
from mqlab.wire import resp
from mqlab.wire.equal_frames import FrameTemplate

# Unconfirmed messages and bytes of one sender before it waits.
_MAX_UNCONFIRMED: Final = 65_536
_MAX_UNCONFIRMED_BYTES: Final = 8 << 20

LACKS: Final[Mapping[str, str]] = {
    "properties": "a message of a Redis channel is its body; the driver's entries of streams are the same",
    "priority": "Redis has no priorities",
    "expiry": "entries of a Redis stream do not expire",
    "keys": "Redis messages have no keys",
}


class RedisSender(Sender):
    """Sends a command for each message: `words` and the body.

    Redis replies to every command, so every message is confirmed even if the role does not wait.
    """

    def __init__(self, client: RedisClient, words: tuple[bytes, ...], *, transacted: bool) -> None:
        self._client = client
        self._words = words
        self._templates: dict[int, FrameTemplate] = {}
        self._confirmations = ConfirmationCounter()
        self._transacted = transacted
        self._in_transaction = False
        client.on_lost(self._confirmations.fail)

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        if properties is not None:
            raise DriverError(LACKS["properties"])
        if headers is not None:
            headers.check(LACKS)
        if self._transacted and not self._in_transaction:
            self._in_transaction = True
            # EXEC reports an error of MULTI.
            self._client.submit(resp.command(b"MULTI"))
        size = bodies.shape[1]
        template = self._templates.get(size)
        if template is None:
            template = self._templates[size] = resp.template(*self._words, size=size)
        max_rows = max(1, min(_MAX_UNCONFIRMED, _MAX_UNCONFIRMED_BYTES // (size + 64)))
        for first in range(0, len(bodies), max_rows):
            rows = bodies[first : first + max_rows]
            await self._confirmations.reserve(len(rows), max_rows)
            self._client.write_counted(template.filled(rows), len(rows), self._confirmations)
            await self._client.wait_writable()
        if wait:
            await self._confirmations.wait_confirmed()

    async def wait_accepted(self, max_pending: int) -> None:
        await self._confirmations.wait_confirmed(max_pending)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError(NOT_TRANSACTED)
        if not self._in_transaction:
            return
        self._in_transaction = False
        results = await self._client.call(b"EXEC")
        if not isinstance(results, list):
            raise DriverError("Redis did not commit: the transaction was discarded")
        refused = next((result for result in results if isinstance(result, resp.ErrorReply)), None)
        if refused is not None:
            raise DriverError(f"Redis did not commit: {refused.words}")

    async def close(self) -> None:
        """Roll back an open transaction; wait for the confirmations of all other messages."""
        if self._in_transaction:
            self._in_transaction = False
            await self._client.call(b"DISCARD")
        await self._confirmations.wait_confirmed()
        await self._client.close()


class RedisReceiver(Receiver):
    """Messages come from the stream of `reader`, and from the topic that the client `subscribed` has subscribed to."""

    def __init__(
        self,
        inbox: Inbox[bytes],
        reader: StreamReader,
        subscribed: RedisClient | None,
        *,
        acknowledges: bool,
        transacted: bool,
    ) -> None:
        self._inbox = inbox
        self._reader = reader
        self._subscribed = subscribed
        self._acknowledges = acknowledges
        self._transacted = transacted
        self._unacknowledged: list[bytes] = []
        self._closed = False

    async def receive(self) -> ReceivedBatch:
        if self._acknowledges:
            if self._transacted:
                self._reader.read_next([])
            else:
                done, self._unacknowledged = self._unacknowledged, []
                self._reader.read_next(done)
        bodies, tags, redelivered = await self._inbox.take()
        self._unacknowledged += tags
        return ReceivedBatch(bodies, redelivered)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError(NOT_TRANSACTED)
        done, self._unacknowledged = self._unacknowledged, []
        if done:
            await self._reader.acknowledge_all(done)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._reader.close(self._unacknowledged)
        if self._subscribed is not None:
            await self._subscribed.close()
