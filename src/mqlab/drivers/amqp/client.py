"""An AMQP 0-9-1 connection and its channels."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.barriers import Barriers
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.wire.amqp.decoder import MAX_BODY, AmqpDecoder, DeliveryBatch
from mqlab.wire.amqp.handshake import PROTOCOL_HEADER, AmqpHandshake
from mqlab.wire.amqp.methods import Method, method
from mqlab.wire.amqp.values import AmqpError
from mqlab.wire.native.payload import Bytes

# A barrier follows every so many published bytes, and so many may be unanswered. Without this limit the buffers on the
# way to a slow system would hold seconds of work when the load ends.
_BARRIER_BYTES: Final = 128 * 1024
_MAX_BARRIERS: Final = 2
_OPEN_TIMEOUT_S: Final = 20.0
_CLOSE_TIMEOUT_S: Final = 5.0


class AmqpClient:
    """A connection, which passes what it reads to its channels."""

    def __init__(self, handshake: AmqpHandshake) -> None:
        self.failed: DriverError | None = None
        self._transport = SocketTransport("AMQP", self._parse, self._connection_lost)
        self._handshake = handshake
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._decoder = AmqpDecoder()
        self._channels: dict[int, AmqpChannel] = {}
        self._next_channel = 1
        # Callbacks of the channels that the current read has messages for.
        self.arrivals: dict[Callable[[], None], None] = {}
        # Channels on which the system has stopped publishing; 0 is the whole connection.
        self._blocked_by: set[int] = set()
        self._unblocked = asyncio.Event()
        self._unblocked.set()

    async def open(self, address: str) -> None:
        await self._transport.open(address)
        try:
            self._transport.write(PROTOCOL_HEADER)
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await self._opened
        except TimeoutError:
            await self._transport.close()
            raise DriverError(f"{address} sent no AMQP handshake") from None
        except BaseException:
            await self._transport.close()
            raise

    @property
    def frame_max(self) -> int:
        return self._handshake.frame_max

    async def channel(self) -> "AmqpChannel":
        number = self._next_channel
        if number > self._handshake.channel_max:
            raise DriverError(f"the system allows no more than {self._handshake.channel_max} channels")
        self._next_channel += 1
        self._channels[number] = channel = AmqpChannel(self, number)
        await channel.call("channel.open", "")
        return channel

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    @property
    def is_held_back(self) -> bool:
        return self._transport.is_write_paused or bool(self._blocked_by)

    async def wait_writable(self) -> None:
        """Return when the system accepts publishes and the write buffer has space."""
        if self._transport.is_write_paused:
            await self._transport.wait_writable()
        if self._blocked_by:
            await with_timeout(self._unblocked.wait(), BLOCKED_TIMEOUT_S)
        if self.failed is not None:
            raise self.failed

    def block(self, channel: int) -> None:
        self._blocked_by.add(channel)
        self._unblocked.clear()

    def unblock(self, channel: int) -> None:
        self._blocked_by.discard(channel)
        if not self._blocked_by:
            self._unblocked.set()

    def remove_channel(self, channel: int) -> None:
        self._channels.pop(channel, None)
        self.unblock(channel)

    async def close(self) -> None:
        if self.failed is None:
            self.write(method(0, "connection.close", 200, "", 0, 0))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), _CLOSE_TIMEOUT_S)
        self._fail(DriverError("the connection is closed"))
        await self._transport.close()

    # Callbacks of the transport.

    def _parse(self, data: Bytes) -> tuple[int, int]:
        for item in self._decoder.feed(data.tobytes()):
            if item.channel:
                channel = self._channels.get(item.channel)
                if channel is not None:
                    channel.handle(item)
            elif isinstance(item, Method):
                self._handle_connection_method(item)
        if self.arrivals:
            arrivals, self.arrivals = self.arrivals, {}
            for on_arrival in arrivals:
                on_arrival()
        return len(data), 0

    def _connection_lost(self, reason: str) -> None:
        self._fail(DriverError(reason or "the connection is closed"))

    def _handle_connection_method(self, received: Method) -> None:
        if not self._handshake.done:
            try:
                self.write(self._handshake.answer(received))
            except AmqpError as error:
                self._fail(DriverError(str(error)))
            if self._handshake.done:
                self._decoder.frame_max = self.frame_max or MAX_BODY
                self._opened.set_result(None)
        elif received.name == "connection.close":
            self.write(method(0, "connection.close-ok"))
            self._fail(DriverError(f"the system closed the connection: {received.arguments[1]}"))
        elif received.name == "connection.close-ok":
            self._closed.set()
        elif received.name == "connection.blocked":
            self._handle_blocked(received.arguments[0])
        elif received.name == "connection.unblocked":
            self.unblock(0)

    def _handle_blocked(self, reason: str) -> None:
        """Wait if memory is short, because consumers free it; fail if the disk is full, because it stays full."""
        if "disk" in reason:
            self._fail(DriverError(f"the system accepts no more messages: {reason}"))
        else:
            self.block(0)

    def _fail(self, error: DriverError) -> None:
        if self.failed is not None:
            return
        self.failed = error
        self._closed.set()
        fail_all((self._opened,), error)
        for channel in [*self._channels.values()]:
            channel.fail(error)
        self._blocked_by.clear()
        self._unblocked.set()


class AmqpChannel:
    """All waits raise DriverError once the channel or the connection has failed."""

    def __init__(self, client: AmqpClient, number: int) -> None:
        self.client = client
        self.number = number
        self.failed: DriverError | None = None
        # The driver deletes the queue, so the system's basic.cancel is expected.
        self.deleting_queue = False
        # Futures of pending methods, in order; a cancelled one still gets an answer.
        self._answers: deque[asyncio.Future[Method]] = deque()
        # channel.flow(True) changes nothing, because the flow is on.
        self._barriers = Barriers(partial(self._submit, "channel.flow", True))
        self._bytes_since_barrier = 0
        self._received: deque[DeliveryBatch] = deque()
        self._message_waiter: asyncio.Future[None] | None = None
        # In place of a task that waits: called after a read with messages, and after a failure.
        self.on_arrival: Callable[[], None] | None = None
        # Number of publishes since confirm.select, the number up to which all are confirmed, and later confirmed ones.
        self._published = self._confirmed_up_to = 0
        self._confirmed_ahead: set[int] = set()
        self._confirmation_waiter: asyncio.Future[None] | None = None
        self._confirms = False

    async def call(self, name: str, *arguments: object) -> Method:
        """Send a method and return its answer, which follows the processing of all publishes before."""
        return await with_timeout(self._submit(name, *arguments), BLOCKED_TIMEOUT_S)

    def send_method(self, name: str, *arguments: object) -> None:
        self.write(method(self.number, name, *arguments))

    def write(self, data: bytes) -> None:
        if self.failed is not None:
            raise self.failed
        self.client.write(data)

    async def enable_confirms(self) -> None:
        """Make the system confirm all later publishes (confirm.select)."""
        if not self._confirms:
            await self.call("confirm.select", False)
            self._confirms = True

    def publish_now(self, data: bytes, messages: int) -> None:
        """Write `messages` publishes, however many the system has not read yet."""
        self.write(data)
        if self._confirms:
            self._published += messages

    async def publish(self, data: bytes, messages: int) -> None:
        """Write `messages` publishes; return when the driver may publish more."""
        self.publish_now(data, messages)
        self._barriers.add(messages)
        self._bytes_since_barrier += len(data)
        if self._bytes_since_barrier >= _BARRIER_BYTES:
            self._bytes_since_barrier = 0
            self._barriers.send()
            await self._barriers.wait_answered(_MAX_BARRIERS)
        await self.client.wait_writable()

    async def wait_accepted(self, max_pending: int) -> None:
        """Return when the system has accepted all but `max_pending` published messages."""
        self._bytes_since_barrier = 0
        await self._barriers.wait_accepted(max_pending)

    async def wait_confirmed(self) -> None:
        """Return when all publishes since `enable_confirms` are confirmed."""
        if self.failed is not None:
            raise self.failed
        if self._confirmed_up_to < self._published:
            self._confirmation_waiter = asyncio.get_running_loop().create_future()
            await with_timeout(self._confirmation_waiter, BLOCKED_TIMEOUT_S)

    async def receive(self) -> tuple[list[DeliveryBatch], int]:
        """Wait for messages, all redelivered or all not; return them and the last delivery tag."""
        while not (runs := self.take_arrived()):
            self._message_waiter = asyncio.get_running_loop().create_future()
            await self._message_waiter
        return runs, runs[-1].last_tag

    def take_arrived(self) -> list[DeliveryBatch]:
        """The same without waiting: none, if no message has arrived."""
        waiting = self._received
        if not waiting and self.failed is not None:
            raise self.failed
        runs: list[DeliveryBatch] = []
        while waiting and waiting[0].redelivered == (runs or waiting)[0].redelivered:
            runs.append(waiting.popleft())
        return runs

    async def close(self) -> None:
        """Close the channel; return when the system has processed all frames before."""
        if self.failed is None:
            await self.call("channel.close", 200, "", 0, 0)
            self.fail(DriverError("the session is closed"))

    def fail(self, error: DriverError) -> None:
        if self.failed is None:
            self.failed = error
            self.client.remove_channel(self.number)
            fail_all((*self._answers, self._message_waiter, self._confirmation_waiter), error)
            if self.on_arrival is not None:
                self.on_arrival()

    def _submit(self, name: str, *arguments: object) -> "asyncio.Future[Method]":
        self.write(method(self.number, name, *arguments))
        answer: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return answer

    # Called by the client.

    def handle(self, item: Method | DeliveryBatch) -> None:
        if isinstance(item, DeliveryBatch):
            self._received.append(item)
            settle(self._message_waiter, None)
            if self.on_arrival is not None:
                self.client.arrivals[self.on_arrival] = None
        elif item.name == "basic.ack":
            self._confirm(*item.arguments)
        elif item.name.endswith("-ok"):
            settle(self._answers.popleft() if self._answers else None, item)
        else:
            self._handle_method(item)

    def _confirm(self, tag: int, multiple: bool) -> None:
        if multiple:
            self._confirmed_up_to = max(self._confirmed_up_to, tag)
        else:
            self._confirmed_ahead.add(tag)
        while self._confirmed_up_to + 1 in self._confirmed_ahead:
            self._confirmed_up_to += 1
            self._confirmed_ahead.discard(self._confirmed_up_to)
        if multiple and self._confirmed_ahead:
            self._confirmed_ahead = {ahead for ahead in self._confirmed_ahead if ahead > self._confirmed_up_to}
        if self._confirmed_up_to >= self._published:
            settle(self._confirmation_waiter, None)

    def _handle_method(self, received: Method) -> None:
        if received.name == "channel.flow":
            (active,) = received.arguments
            (self.client.unblock if active else self.client.block)(self.number)
            self.send_method("channel.flow-ok", active)
        elif received.name == "channel.close":
            self.send_method("channel.close-ok")
            self.fail(DriverError(f"the system closed the channel: {received.arguments[1]}"))
        elif received.name == "basic.nack":
            self.fail(DriverError("the system refused a message"))
        elif received.name == "basic.cancel" and not self.deleting_queue:
            self.fail(DriverError("the system cancelled the consumer: its queue was deleted"))
        elif received.name == "basic.return":
            self.fail(DriverError(f"the system returned a message: {received.arguments[1]}"))
