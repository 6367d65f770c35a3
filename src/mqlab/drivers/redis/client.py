"""A connection to a Redis server. The server replies to commands in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.wire import resp
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

# The limit of Redis itself.
_MAX_VALUE_BYTES: Final = 512 << 20

OnReplies = Callable[[list[resp.Value]], None]


class RedisClient:
    """`published` gets the messages of subscribed channels.

    A connection that blocks in a read or has subscribed can do nothing else, so every role has its own.
    """

    def __init__(self, published: Callable[[Bodies], None] | None = None) -> None:
        self._published = published
        self._transport = SocketTransport("Redis", self._parse, self._connection_lost)
        # For each pending command, in order: the number of missing replies, and their callback.
        self._pending: deque[tuple[int, OnReplies]] = deque()
        self._waiting: set[asyncio.Future[resp.Value]] = set()
        self._lost_callbacks: list[Callable[[str], None]] = []
        self._failure = ""
        self.pause_reading, self.resume_reading = self._transport.pause_reading, self._transport.resume_reading

    async def open(self, address: str, options: Mapping[str, str], name: str = "") -> None:
        await self._transport.open(address)
        if "password" in options:
            login = [options[key].encode() for key in ("user", "password") if key in options]
            await self.call(b"AUTH", *login)
        await self.call(b"CLIENT", b"SETNAME", "".join(name.split()).encode())

    def on_lost(self, callback: Callable[[str], None]) -> None:
        self._lost_callbacks.append(callback)

    async def call(self, *words: bytes) -> resp.Value:
        """Send one command and return its reply. Raise DriverError if that is an error."""
        return await with_timeout(self.submit(resp.command(*words)), failure="the Redis server did not answer")

    def submit(self, commands: bytes, replies: int = 1) -> "asyncio.Future[resp.Value]":
        """Send commands; the future has the last reply, or DriverError if any reply is an error."""
        answer: asyncio.Future[resp.Value] = asyncio.get_running_loop().create_future()
        missing = replies

        def take(values: list[resp.Value]) -> None:
            nonlocal missing
            missing -= len(values)
            refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
            if refused is not None:
                fail_all((answer,), DriverError(f"Redis refused: {refused.words}"))
            elif missing == 0:
                settle(answer, values[-1])

        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        self.write(commands, replies, take)
        return answer

    def write(self, commands: bytes, replies: int, take: OnReplies) -> None:
        """Send commands; `take` is called with their replies, several at a time."""
        self._transport.write(commands)
        self._pending.append((replies, take))

    def write_counted(self, commands: bytes, replies: int, confirmations: ConfirmationCounter) -> None:
        """Send commands; each reply confirms a message, and an error reply fails the counter."""

        def take(values: list[resp.Value]) -> None:
            refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
            if refused is not None:
                confirmations.fail(f"Redis refused: {refused.words}")
            else:
                confirmations.confirm(len(values))

        self.write(commands, replies, take)

    @property
    def is_write_paused(self) -> bool:
        return self._transport.is_write_paused

    async def wait_writable(self) -> None:
        if self._transport.is_write_paused:
            await self._transport.wait_writable()

    async def close(self) -> None:
        await self._transport.close()

    def _parse(self, data: Bytes) -> tuple[int, int]:
        published, values, consumed, needed = resp.parse(data, _MAX_VALUE_BYTES)
        if self._published is not None:
            for bodies in published:
                self._published(bodies)
        while values:
            if not self._pending:
                raise resp.MalformedRespError(f"a reply without a command: {values[0]!r:.60}")
            count, take = self._pending.popleft()
            replies, values = values[:count], values[count:]
            if len(replies) < count:
                self._pending.appendleft((count - len(replies), take))
            take(replies)
        return consumed, needed

    def _connection_lost(self, reason: str) -> None:
        self._failure = reason or "the connection is closed"
        fail_all(list(self._waiting), DriverError(self._failure))
        for callback in self._lost_callbacks:
            callback(self._failure)
