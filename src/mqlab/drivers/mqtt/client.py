"""An MQTT session over a connection of its own."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.wire.mqtt import decoder, messages, packets
from mqlab.wire.native.payload import Bytes

# Packet ids are 1 to 65,535.
_MAX_ID: Final = 0xFFFF
# A barrier follows every so many published bytes, and so many may be unanswered. Without this limit the buffers on the
# way to a slow system would hold seconds of work when the load ends.
_BARRIER_BYTES: Final = 128 * 1024
_MAX_BARRIERS: Final = 2
_OPEN_TIMEOUT_S: Final = 20.0
Result = TypeVar("Result")


class MqttClient:
    """All waits raise DriverError after a failure. Reading pauses with more than `capacity` unreceived messages."""

    def __init__(self, connect: packets.Connect, capacity: int = 0) -> None:
        self.version = connect.version
        # Fail if a message has no subscriber. Set for queues, whose messages must not be lost.
        self.needs_subscribers = False
        self.failed: DriverError | None = None
        self._connect = connect
        self._capacity = capacity
        self._transport = SocketTransport("MQTT", self._parse, self._connection_lost)
        self._decoder = decoder.MqttDecoder(connect.version)
        # Futures of pending requests, in order; a cancelled one still gets an answer.
        self._answers: deque[asyncio.Future[decoder.Packet]] = deque()
        self._barriers: deque[asyncio.Future[decoder.Packet]] = deque()
        self._bytes_since_barrier = 0
        self._received: deque[decoder.PublishBatch] = deque()
        self._received_messages = 0
        self._message_waiter: asyncio.Future[None] | None = None
        # In place of a task that waits: called after a read with messages, and after a failure.
        self.on_arrival: Callable[[], None] | None = None
        # Unconfirmed messages, their maximum, and the next packet id.
        self._unconfirmed = 0
        self._window = _MAX_ID
        self._next_id = 1
        self._confirmation_waiter: asyncio.Future[None] | None = None
        # While a task waits for an answer, the client reads even with a full inbox: the answer may follow the messages.
        self._waiting_answers = 0

    async def open(self, address: str) -> None:
        await self._transport.open(address)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                answer = await self._call(self._connect.packet(), packets.CONNACK)
            self._check_connack(answer.rest)
        except TimeoutError:
            await self._transport.close()
            raise DriverError(f"{address} sent no MQTT CONNACK") from None
        except BaseException:
            await self._transport.close()
            raise

    async def subscribe(self, topic: str, qos: int = 1) -> None:
        """Subscribe to a topic; `qos` is the highest QoS of its messages."""
        answer = await self._call(packets.subscribe(self.version, self._ids(1).item(), topic, qos), packets.SUBACK)
        if answer.rest[-1] >= packets.REFUSED:
            raise DriverError(f"the system refuses the subscription to {topic}: reason {answer.rest[-1]:#04x}")

    async def publish(self, data: bytes) -> None:
        """Write PUBLISH packets; return when the driver may publish more."""
        self.write(data)
        self._bytes_since_barrier += len(data)
        if self._bytes_since_barrier >= _BARRIER_BYTES:
            self._bytes_since_barrier = 0
            self._barriers.append(self._submit(packets.PING))
            if len(self._barriers) > _MAX_BARRIERS:
                await self._wait_reading(self._barriers.popleft())
        if self._transport.is_write_paused:
            await self._transport.wait_writable()

    async def reserve_ids(self, max_ids: int) -> npt.NDArray[np.uint16]:
        """Return between one and `max_ids` packet ids for QoS 1; wait while the window is full."""
        while self._unconfirmed >= self._window:
            await self._next_confirmation()
        rows = min(max_ids, self._window - self._unconfirmed)
        self._unconfirmed += rows
        return self._ids(rows)

    def reserve_id(self) -> int:
        """One packet id without waiting; 0 if the window is full."""
        if self._unconfirmed >= self._window:
            return 0
        self._unconfirmed += 1
        number: int = self._ids(1).item()
        return number

    @property
    def is_write_paused(self) -> bool:
        return self._transport.is_write_paused

    async def wait_writable(self) -> None:
        await self._transport.wait_writable()

    async def wait_confirmed(self) -> None:
        """Return when all QoS 1 messages are confirmed."""
        while self._unconfirmed:
            await self._next_confirmation()

    async def flush(self) -> None:
        """Return when the system has processed all packets."""
        await self._call(packets.PING)

    async def receive(self) -> list[decoder.PublishBatch]:
        """Wait for messages; return up to `capacity` of them, all redelivered or all not."""
        while not (runs := self.take_arrived()):
            self._message_waiter = asyncio.get_running_loop().create_future()
            await self._message_waiter
        return runs

    def take_arrived(self) -> list[decoder.PublishBatch]:
        """The same without waiting: none, if no message has arrived."""
        waiting = self._received
        if not waiting and self.failed is not None:
            raise self.failed
        runs: list[decoder.PublishBatch] = []
        rows = 0
        while waiting and waiting[0].redelivered == (runs or waiting)[0].redelivered and rows < max(1, self._capacity):
            runs.append(waiting.popleft())
            rows += runs[-1].rows
        self._received_messages -= rows
        if self._received_messages <= self._capacity // 2:
            self._transport.resume_reading(self)
        return runs

    def acknowledge(self, ids: bytes) -> None:
        if ids:
            self.write(messages.acknowledgements(ids))

    async def close(self) -> None:
        if self.failed is None:
            self.write(packets.disconnect())
            self._fail("the session is closed")
        await self._transport.close()

    def _ids(self, rows: int) -> npt.NDArray[np.uint16]:
        first, self._next_id = self._next_id, (self._next_id + rows - 1) % _MAX_ID + 1
        return (np.arange(first - 1, first - 1 + rows) % _MAX_ID + 1).astype(np.uint16)

    def write(self, data: bytes) -> None:
        if self.failed is not None:
            raise self.failed
        self._transport.write(data)

    async def _call(self, request: bytes, kind: int | None = None) -> decoder.Packet:
        answer = await self._wait_reading(self._submit(request))
        if kind is not None and answer.kind != kind:
            raise DriverError(f"the system answers with a packet of type {answer.kind} instead of {kind}")
        return answer

    def _submit(self, request: bytes) -> "asyncio.Future[decoder.Packet]":
        self.write(request)
        answer: asyncio.Future[decoder.Packet] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return answer

    async def _next_confirmation(self) -> None:
        if self.failed is not None:
            raise self.failed
        self._confirmation_waiter = asyncio.get_running_loop().create_future()
        await self._wait_reading(self._confirmation_waiter)

    async def _wait_reading(self, waiting: "asyncio.Future[Result]") -> Result:
        self._waiting_answers += 1
        self._transport.resume_reading(self)
        try:
            return await with_timeout(waiting, BLOCKED_TIMEOUT_S)
        finally:
            self._waiting_answers -= 1

    def _check_connack(self, rest: bytes) -> None:
        properties = {}
        if self.version == 5 and len(rest) > 2:
            size, at = packets.read_varint(rest, 2)
            properties = packets.read_properties(rest[at : at + max(size, 0)])
        if len(rest) < 2 or rest[1]:
            reason = packets.refusal(self.version, rest[1], properties) if len(rest) > 1 else "an incomplete CONNACK"
            raise DriverError(f"the system refuses the connection: {reason}")
        self._window = int.from_bytes(properties.get(packets.RECEIVE_MAXIMUM, b"\xff\xff"), "big")

    # Callbacks of the transport.

    def _parse(self, data: Bytes) -> tuple[int, int]:
        for item in self._decoder.feed(data.tobytes()):
            self._handle(item)
        if self.on_arrival is not None and self._received:
            self.on_arrival()
        if self._received_messages > self._capacity and not self._waiting_answers:
            self._transport.pause_reading(self)
        return len(data), 0

    def _handle(self, item: decoder.Incoming) -> None:
        if isinstance(item, decoder.PublishBatch):
            self._received.append(item)
            self._received_messages += item.rows
            settle(self._message_waiter, None)
        elif isinstance(item, decoder.PubackBatch):
            self._unconfirmed -= item.rows
            if item.reason >= packets.REFUSED:
                self._fail(f"the system refused a message: reason {item.reason:#04x}")
            elif item.reason == packets.NO_MATCHING_SUBSCRIBERS and self.needs_subscribers:
                self._fail("a message was sent to a queue without a consumer: MQTT drops it")
            settle(self._confirmation_waiter, None)
        elif item.kind == packets.DISCONNECT:
            code = item.rest[0] if item.rest else 0
            self._fail(f"the system ended the session: reason {code:#04x}")
        elif self._answers:
            settle(self._answers.popleft(), item)

    def _connection_lost(self, reason: str) -> None:
        self._fail(reason or "the session is closed")

    def _fail(self, reason: str) -> None:
        if self.failed is None:
            self.failed = error = DriverError(reason)
            fail_all((*self._answers, self._message_waiter, self._confirmation_waiter), error)
            if self.on_arrival is not None:
                self.on_arrival()
