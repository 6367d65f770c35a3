"""One AMQP 0-9-1 connection and its channels: questions and answers, what arrives, and what is confirmed."""

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.barriers import Marks
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, next_message, with_timeout
from mqlab.drivers.common.transport import Line
from mqlab.wire.amqp import (
    MAX_BODY,
    PROTOCOL_HEADER,
    AmqpDecoder,
    AmqpError,
    AmqpHandshake,
    DeliveryBatch,
    Method,
    method,
)
from mqlab.wire.native.payload import Bytes

# After so many bytes published the system is asked to answer, and no more than so many answers may be missing: else a
# slow one would have seconds of work in the buffers between, long after the load ended.
_MARK_SIZE: Final = 128 * 1024
_MOST_MARKS: Final = 2
_OPEN_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 5.0


class AmqpStream:
    """A connection: what is read goes to its channels."""

    def __init__(self, handshake: AmqpHandshake) -> None:
        self.failed: DriverError | None = None
        self._line = Line("AMQP", self._take, self._lost)
        self._handshake = handshake
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._splitter = AmqpDecoder()
        self._channels: dict[int, Channel] = {}
        self._next_channel = 1
        # Why the system wants nothing published now: its own word for the connection, or for a channel.
        self._held: set[int] = set()
        self._free = asyncio.Event()
        self._free.set()

    async def open(self, address: str) -> None:
        await self._line.open(address)
        try:
            self._line.write(PROTOCOL_HEADER)
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._opened
        except TimeoutError:
            await self._line.close()
            raise DriverError(f"{address} does not answer in AMQP") from None
        except BaseException:
            await self._line.close()
            raise

    @property
    def frame_max(self) -> int:
        return self._handshake.frame_max

    async def channel(self) -> "Channel":
        number = self._next_channel
        if number > self._handshake.channel_max:
            raise DriverError(f"the system allows no more than {self._handshake.channel_max} channels")
        self._next_channel += 1
        self._channels[number] = channel = Channel(self, number)
        await channel.call("channel.open", "")
        return channel

    def write(self, data: bytes) -> None:
        self._line.write(data)

    async def room(self) -> None:
        """Returns when more may be published."""
        if self._line.is_full:
            await self._line.room()
        if self._held:
            await with_timeout(self._free.wait(), BLOCKED_TIMEOUT_S)
        if self.failed is not None:
            raise self.failed

    def hold(self, channel: int) -> None:
        self._held.add(channel)
        self._free.clear()

    def let_go(self, channel: int) -> None:
        self._held.discard(channel)
        if not self._held:
            self._free.set()

    def forget(self, channel: int) -> None:
        self._channels.pop(channel, None)
        self.let_go(channel)

    async def close(self) -> None:
        if self.failed is None:
            self.write(method(0, "connection.close", 200, "", 0, 0))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), _CLOSE_SECONDS)
        self._fail(DriverError("the connection is closed"))
        await self._line.close()

    # From the line

    def _take(self, data: Bytes) -> tuple[int, int]:
        for found in self._splitter.feed(data.tobytes()):
            if found.channel:
                channel = self._channels.get(found.channel)
                if channel is not None:
                    channel.take(found)
            elif isinstance(found, Method):
                self._take_own(found)
        return len(data), 0

    def _lost(self, why: str) -> None:
        self._fail(DriverError(why or "the connection is closed"))

    def _take_own(self, said: Method) -> None:
        if not self._handshake.done:
            try:
                self.write(self._handshake.answer(said))
            except AmqpError as error:
                self._fail(DriverError(str(error)))
            if self._handshake.done:
                self._splitter.frame_max = self.frame_max or MAX_BODY
                self._opened.set_result(None)
        elif said.name == "connection.close":
            self.write(method(0, "connection.close-ok"))
            self._fail(DriverError(f"the system closed the connection: {said.arguments[1]}"))
        elif said.name == "connection.close-ok":
            self._closed.set()
        elif said.name == "connection.blocked":
            self._blocked(said.arguments[0])
        elif said.name == "connection.unblocked":
            self.let_go(0)

    def _blocked(self, why: str) -> None:
        """Memory is free again when consumers have taken some of it; a disk that is full stays so."""
        if "disk" in why:
            self._fail(DriverError(f"the system takes no more messages: {why}"))
        else:
            self.hold(0)

    def _fail(self, error: DriverError) -> None:
        if self.failed is not None:
            return
        self.failed = error
        self._closed.set()
        if not self._opened.done():
            self._opened.set_exception(error)
        for channel in [*self._channels.values()]:
            channel.fail(error)
        self._held.clear()
        self._free.set()


class Channel:
    """All that waits raises DriverError once the channel or the connection has failed."""

    def __init__(self, stream: AmqpStream, number: int) -> None:
        self.stream = stream
        self.number = number
        self.failed: DriverError | None = None
        # Its queue is about to go, as it wants.
        self.leaving = False
        # Of questions in their order; one that nobody waits for any more is still answered.
        self._answers: deque[asyncio.Future[Method]] = deque()
        # Changes nothing: what it asks for is so.
        self._marks = Marks(partial(self._ask, "channel.flow", True))
        self._unmarked = 0
        self._arrived: deque[DeliveryBatch] = deque()
        self._arrival: asyncio.Future[None] | None = None
        # Publishes that the system counts since it was told to confirm; all up to `_low` are confirmed.
        self._published = self._low = 0
        self._ahead: set[int] = set()
        self._all_confirmed: asyncio.Future[None] | None = None
        self._confirming = False

    async def call(self, name: str, *arguments: Any) -> Method:
        """Returns the answer, which comes behind all that was published before."""
        return await with_timeout(self._ask(name, *arguments), BLOCKED_TIMEOUT_S)

    def tell(self, name: str, *arguments: Any) -> None:
        self.write(method(self.number, name, *arguments))

    def write(self, data: bytes) -> None:
        if self.failed is not None:
            raise self.failed
        self.stream.write(data)

    async def confirm(self) -> None:
        """From now on the system confirms what is published."""
        if not self._confirming:
            await self.call("confirm.select", False)
            self._confirming = True

    async def publish(self, data: bytes, messages: int) -> None:
        """Returns when there is room for more."""
        self.write(data)
        if self._confirming:
            self._published += messages
        self._marks.sent(messages)
        self._unmarked += len(data)
        if self._unmarked >= _MARK_SIZE:
            self._unmarked = 0
            self._marks.mark()
            await self._marks.few(_MOST_MARKS)
        await self.stream.room()

    async def wait_accepted(self, max_pending: int) -> None:
        """Returns when the system has taken all but so many of the messages that were published."""
        self._unmarked = 0
        await self._marks.taken(max_pending)

    async def confirmed(self) -> None:
        """Returns when all that was published since `confirm` is."""
        if self.failed is not None:
            raise self.failed
        if self._low < self._published:
            self._all_confirmed = asyncio.get_running_loop().create_future()
            await with_timeout(self._all_confirmed, BLOCKED_TIMEOUT_S)

    async def arrived(self, *, is_reply: bool = False) -> tuple[list[DeliveryBatch], int]:
        """What is there now, either redelivered or not; and the tag of its last message."""
        while not self._arrived:
            if self.failed is not None:
                raise self.failed
            self._arrival = asyncio.get_running_loop().create_future()
            await next_message(self._arrival, is_reply=is_reply)
        waiting = self._arrived
        redelivered = waiting[0].redelivered
        pieces = []
        while waiting and waiting[0].redelivered == redelivered:
            pieces.append(waiting.popleft())
        return pieces, pieces[-1].last_tag

    async def close(self) -> None:
        """The system has handled all that was sent before."""
        if self.failed is None:
            await self.call("channel.close", 200, "", 0, 0)
            self.fail(DriverError("the session is closed"))

    def fail(self, error: DriverError) -> None:
        if self.failed is None:
            self.failed = error
            self.stream.forget(self.number)
            for waiting in (*self._answers, self._arrival, self._all_confirmed):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(error)
                    # Looked at: not everybody who asked waits for the answer.
                    waiting.exception()

    def _ask(self, name: str, *arguments: Any) -> "asyncio.Future[Method]":
        self.write(method(self.number, name, *arguments))
        answer: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return answer

    # From the stream

    def take(self, found: Method | DeliveryBatch) -> None:
        if isinstance(found, DeliveryBatch):
            self._arrived.append(found)
            if self._arrival is not None and not self._arrival.done():
                self._arrival.set_result(None)
        elif found.name == "basic.ack":
            self._confirm(*found.arguments)
        elif found.name.endswith("-ok"):
            answer = self._answers.popleft() if self._answers else None
            if answer is not None and not answer.done():
                answer.set_result(found)
        else:
            self._told(found)

    def _confirm(self, tag: int, multiple: bool) -> None:
        if multiple:
            self._low = max(self._low, tag)
        else:
            self._ahead.add(tag)
        while self._low + 1 in self._ahead:
            self._low += 1
            self._ahead.discard(self._low)
        if multiple and self._ahead:
            self._ahead = {ahead for ahead in self._ahead if ahead > self._low}
        if self._low >= self._published and self._all_confirmed is not None and not self._all_confirmed.done():
            self._all_confirmed.set_result(None)

    def _told(self, said: Method) -> None:
        if said.name == "channel.flow":
            (active,) = said.arguments
            (self.stream.let_go if active else self.stream.hold)(self.number)
            self.tell("channel.flow-ok", active)
        elif said.name == "channel.close":
            self.tell("channel.close-ok")
            self.fail(DriverError(f"the system closed the session: {said.arguments[1]}"))
        elif said.name == "basic.nack":
            self.fail(DriverError("the system refused a message"))
        elif said.name == "basic.cancel" and not self.leaving:
            self.fail(DriverError("the system ended the consumer: its queue is gone"))
        elif said.name == "basic.return":
            self.fail(DriverError(f"the system returned a message: {said.arguments[1]}"))
