"""A connection to a Redis server: commands, and their replies in the same order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.drivers.common.transport import Line
from mqlab.wire import resp
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

# Redis' own limit.
_LARGEST: Final = 512 << 20

OnValues = Callable[[list[resp.Value]], None]


class Talk:
    """One that waits for messages, or has subscribed, can do nothing else: every role has its own."""

    def __init__(self, published: Callable[[Bodies], None] | None = None) -> None:
        self._published = published
        self._line = Line("Redis", self._take, self._gone)
        # Commands that are under way, in their order: replies still to come, and who gets them.
        self._expected: deque[tuple[int, OnValues]] = deque()
        self._waiting: set[asyncio.Future[resp.Value]] = set()
        self._on_gone: list[Callable[[str], None]] = []
        self._why = ""
        self.hold, self.let_go = self._line.hold, self._line.let_go

    async def open(self, address: str, options: Mapping[str, str], name: str = "") -> None:
        await self._line.open(address)
        if "password" in options:
            login = [options[key].encode() for key in ("user", "password") if key in options]
            await self.ask(b"AUTH", *login)
        await self.ask(b"CLIENT", b"SETNAME", "".join(name.split()).encode())

    def when_gone(self, tell: Callable[[str], None]) -> None:
        self._on_gone.append(tell)

    async def ask(self, *words: bytes) -> resp.Value:
        """One command and its reply. Raises DriverError if it is a refusal."""
        return await with_timeout(self.asked(resp.command(*words)), failure="the Redis server did not answer")

    def asked(self, commands: bytes, replies: int = 1) -> "asyncio.Future[resp.Value]":
        """The last reply to these commands; none of the others is looked at, but refusals are found."""
        answer: asyncio.Future[resp.Value] = asyncio.get_running_loop().create_future()
        left = replies

        def take(values: list[resp.Value]) -> None:
            nonlocal left
            left -= len(values)
            refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
            if answer.done():
                return
            if refused is not None:
                answer.set_exception(DriverError(f"Redis refused: {refused.words}"))
                answer.exception()
            elif left == 0:
                answer.set_result(values[-1])

        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        self.write(commands, replies, take)
        return answer

    def write(self, commands: bytes, replies: int, take: OnValues) -> None:
        """`take` gets all replies, some at a time."""
        self._line.write(commands)
        self._expected.append((replies, take))

    async def room(self) -> None:
        if self._line.is_full:
            await self._line.room()

    async def close(self) -> None:
        await self._line.close()

    def _take(self, data: Bytes) -> tuple[int, int]:
        published, values, consumed, needed = resp.parse(data, _LARGEST)
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

    def _gone(self, why: str) -> None:
        self._why = why or "the connection is closed"
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_exception(DriverError(self._why))
                # Nobody may be waiting any more.
                waiting.exception()
        for tell in self._on_gone:
            tell(self._why)
