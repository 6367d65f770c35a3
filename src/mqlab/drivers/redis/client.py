"""A connection to a Redis server: commands, and their replies in the same order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.wire import resp
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

# Redis' own limit.
_MAX_VALUE_BYTES: Final = 512 << 20

OnValues = Callable[[list[resp.Value]], None]


class RedisClient:
    """One that waits for messages, or has subscribed, can do nothing else: every role has its own."""

    def __init__(self, published: Callable[[Bodies], None] | None = None) -> None:
        self._published = published
        self._transport = SocketTransport("Redis", self._parse, self._connection_lost)
        # Commands that are under way, in their order: replies still to come, and who gets them.
        self._expected: deque[tuple[int, OnValues]] = deque()
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
        """One command and its reply. Raises DriverError if it is a refusal."""
        return await with_timeout(self.submit(resp.command(*words)), failure="the Redis server did not answer")

    def submit(self, commands: bytes, replies: int = 1) -> "asyncio.Future[resp.Value]":
        """The last reply to these commands; none of the others is looked at, but refusals are found."""
        answer: asyncio.Future[resp.Value] = asyncio.get_running_loop().create_future()
        missing = replies

        def take(values: list[resp.Value]) -> None:
            nonlocal missing
            missing -= len(values)
            refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
            if answer.done():
                return
            if refused is not None:
                answer.set_exception(DriverError(f"Redis refused: {refused.words}"))
                answer.exception()
            elif missing == 0:
                answer.set_result(values[-1])

        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        self.write(commands, replies, take)
        return answer

    def write(self, commands: bytes, replies: int, take: OnValues) -> None:
        """`take` gets all replies, some at a time."""
        self._transport.write(commands)
        self._expected.append((replies, take))

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
            if not self._expected:
                raise resp.MalformedRespError(f"a reply to nothing: {values[0]!r:.60}")
            count, take = self._expected.popleft()
            some, values = values[:count], values[count:]
            if len(some) < count:
                self._expected.appendleft((count - len(some), take))
            take(some)
        return consumed, needed

    def _connection_lost(self, reason: str) -> None:
        self._failure = reason or "the connection is closed"
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_exception(DriverError(self._failure))
                # Nobody may be waiting any more.
                waiting.exception()
        for callback in self._lost_callbacks:
            callback(self._failure)
