"""One MQTT session over a connection of its own: what is published and confirmed, what arrives and is acknowledged."""

import asyncio
from collections import deque
from typing import Any, Final, TypeVar

import numpy as np

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, next_message, with_timeout
from mqlab.drivers.common.transport import Line
from mqlab.wire.mqtt import (
    CONNACK,
    DISCONNECT,
    NO_MATCHING_SUBSCRIBERS,
    PING,
    RECEIVE_MAXIMUM,
    REFUSED,
    SUBACK,
    Connect,
    Incoming,
    MqttDecoder,
    Packet,
    PubackBatch,
    PublishBatch,
    acknowledgements,
    disconnect,
    read_properties,
    read_varint,
    refusal,
    subscribe,
)
from mqlab.wire.native.payload import Bytes

# Numbers of packets are 1 to 65,535.
_IDS: Final = 0xFFFF
# After so many bytes published the system is asked to answer, and no more than so many answers may be missing: else a
# slow one would have seconds of work in the buffers between, long after the load ended.
_MARK_SIZE: Final = 128 * 1024
_MOST_MARKS: Final = 2
_OPEN_SECONDS: Final = 20.0
Result = TypeVar("Result")


class Session:
    """All that waits raises DriverError once the session has failed. `room`: messages that may wait to be taken."""

    def __init__(self, connect: Connect, room: int = 0) -> None:
        self.version = connect.version
        # Whether a message that nobody gets is lost, which on a queue it must not be.
        self.needs_subscribers = False
        self.failed: DriverError | None = None
        self._connect = connect
        self._room = room
        self._line = Line("MQTT", self._take, self._lost)
        self._splitter = MqttDecoder(connect.version)
        # Of questions in their order; one that nobody waits for any more is still answered.
        self._answers: deque[asyncio.Future[Packet]] = deque()
        self._marks: deque[asyncio.Future[Packet]] = deque()
        self._unmarked = 0
        self._arrived: deque[PublishBatch] = deque()
        self._waiting = 0
        self._arrival: asyncio.Future[None] | None = None
        # Messages sent that are not confirmed, how many may be, and the number of the next.
        self._unconfirmed = 0
        self._window = _IDS
        self._next_id = 1
        self._confirmation: asyncio.Future[None] | None = None
        # While somebody waits for an answer, the connection is read even if no message has room: it may be behind them.
        self._expecting = 0

    async def open(self, address: str) -> None:
        await self._line.open(address)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                answer = await self._ask(self._connect.packet(), CONNACK)
            self._greeted(answer.rest)
        except TimeoutError:
            await self._line.close()
            raise DriverError(f"{address} does not answer in MQTT") from None
        except BaseException:
            await self._line.close()
            raise

    async def subscribe(self, topic: str, qos: int = 1) -> None:
        """Messages come with the QoS they were sent with, or `qos` if that is less."""
        answer = await self._ask(subscribe(self.version, self._ids(1).item(), topic, qos), SUBACK)
        if answer.rest[-1] >= REFUSED:
            raise DriverError(f"the system refuses the subscription to {topic}: reason {answer.rest[-1]:#04x}")

    async def publish(self, data: bytes) -> None:
        """Returns when there is room for more."""
        self._write(data)
        self._unmarked += len(data)
        if self._unmarked >= _MARK_SIZE:
            self._unmarked = 0
            self._marks.append(self._asked(PING))
            if len(self._marks) > _MOST_MARKS:
                await self._read_for(self._marks.popleft())
        if self._line.is_full:
            await self._line.room()

    async def numbers(self, most: int) -> Any:
        """For at most so many packets that are to be confirmed; returns when at least one more may be sent."""
        while self._unconfirmed >= self._window:
            await self._next_confirmation()
        rows = min(most, self._window - self._unconfirmed)
        self._unconfirmed += rows
        return self._ids(rows)

    async def confirmed(self) -> None:
        """Returns when all that was to be confirmed is."""
        while self._unconfirmed:
            await self._next_confirmation()

    async def taken(self) -> None:
        """Returns when the system has handled all that was sent."""
        await self._ask(PING)

    async def arrived(self, *, is_reply: bool = False) -> list[PublishBatch]:
        """What is there now, up to the room there is, either redelivered or not."""
        while not self._arrived:
            if self.failed is not None:
                raise self.failed
            self._arrival = asyncio.get_running_loop().create_future()
            await next_message(self._arrival, is_reply=is_reply)
        waiting, redelivered = self._arrived, self._arrived[0].redelivered
        pieces, rows = [], 0
        while waiting and waiting[0].redelivered == redelivered and rows < max(1, self._room):
            pieces.append(waiting.popleft())
            rows += pieces[-1].rows
        self._waiting -= rows
        if self._waiting <= self._room // 2:
            self._line.let_go(self)
        return pieces

    def acknowledge(self, ids: bytes) -> None:
        if ids:
            self._write(acknowledgements(ids))

    async def close(self) -> None:
        if self.failed is None:
            self._write(disconnect())
            self._fail("the session is closed")
        await self._line.close()

    def _ids(self, rows: int) -> Any:
        first, self._next_id = self._next_id, (self._next_id + rows - 1) % _IDS + 1
        return (np.arange(first - 1, first - 1 + rows) % _IDS + 1).astype(np.uint16)

    def _write(self, data: bytes) -> None:
        if self.failed is not None:
            raise self.failed
        self._line.write(data)

    async def _ask(self, question: bytes, kind: int | None = None) -> Packet:
        answer = await self._read_for(self._asked(question))
        if kind is not None and answer.kind != kind:
            raise DriverError(f"the system answers with a packet of type {answer.kind} instead of {kind}")
        return answer

    def _asked(self, question: bytes) -> "asyncio.Future[Packet]":
        self._write(question)
        answer: asyncio.Future[Packet] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return answer

    async def _next_confirmation(self) -> None:
        if self.failed is not None:
            raise self.failed
        self._confirmation = asyncio.get_running_loop().create_future()
        await self._read_for(self._confirmation)

    async def _read_for(self, waiting: "asyncio.Future[Result]") -> Result:
        self._expecting += 1
        self._line.let_go(self)
        try:
            return await with_timeout(waiting, BLOCKED_TIMEOUT_S)
        finally:
            self._expecting -= 1

    def _greeted(self, rest: bytes) -> None:
        found = {}
        if self.version == 5 and len(rest) > 2:
            size, at = read_varint(rest, 2)
            found = read_properties(rest[at : at + max(size, 0)])
        if len(rest) < 2 or rest[1]:
            why = refusal(self.version, rest[1], found) if len(rest) > 1 else "it says nothing"
            raise DriverError(f"the system refuses the connection: {why}")
        self._window = int.from_bytes(found.get(RECEIVE_MAXIMUM, b"\xff\xff"), "big")

    # From the line

    def _take(self, data: Bytes) -> tuple[int, int]:
        for found in self._splitter.feed(data.tobytes()):
            self._found(found)
        if self._waiting > self._room and not self._expecting:
            self._line.hold(self)
        return len(data), 0

    def _found(self, found: Incoming) -> None:
        if isinstance(found, PublishBatch):
            self._arrived.append(found)
            self._waiting += found.rows
            _wake(self._arrival)
        elif isinstance(found, PubackBatch):
            self._unconfirmed -= found.rows
            if found.reason >= REFUSED:
                self._fail(f"the system refused a message: reason {found.reason:#04x}")
            elif found.reason == NO_MATCHING_SUBSCRIBERS and self.needs_subscribers:
                self._fail("a message was sent to a queue that nobody receives from: MQTT keeps it for nobody")
            _wake(self._confirmation)
        elif found.kind == DISCONNECT:
            code = found.rest[0] if found.rest else 0
            self._fail(f"the system ended the session: reason {code:#04x}")
        elif self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_result(found)

    def _lost(self, why: str) -> None:
        self._fail(why or "the session is closed")

    def _fail(self, why: str) -> None:
        if self.failed is None:
            self.failed = error = DriverError(why)
            for waiting in (*self._answers, self._arrival, self._confirmation):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(error)
                    # Looked at: not everybody who asked waits for the answer.
                    waiting.exception()


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
