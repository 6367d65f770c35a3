"""Producers and consumers of the blocking API: they pass work to the thread of the event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, TypeVar, Unpack

from mqlab.client import aio
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.event_loop import LoopCaller, call_in_loop
from mqlab.client.headers import Headers
from mqlab.client.message import Delivery, Message
from mqlab.client.producer import MAX_BYTES, MAX_ROWS, SMALL_BYTES
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.columns import Value

T = TypeVar("T")

# The messages of a producer that may be unsent before `send` blocks.
_MAX_UNSENT_ROWS: Final = 4 * MAX_ROWS
_MAX_UNSENT_BYTES: Final = 4 * MAX_BYTES
# In mode `auto`, how long an acknowledgement may be delayed.
_ACKNOWLEDGE_DELAY_S: Final = 0.002


class SessionSends:
    """Single sends of a session, on their way from the caller's thread to the thread of the loop, in order.

    The caller only appends: the thread of the loop takes at its next turn what has gathered by then. So there is no
    hand-over for each message, and a message by itself leaves without a timer.
    """

    def __init__(self, loop: LoopCaller) -> None:
        self._loop = loop
        # Consecutive sends of one producer each. The caller appends only to the last run, the loop removes the others.
        self._runs: deque[tuple[Producer, list[bytes]]] = deque()
        # The producer of the last run, and the run.
        self.producer: Producer | None = None
        self.bodies: list[bytes] = []
        # The loop will call `_take`. The caller checks this after each append: `_take` clears it before it looks.
        self.scheduled = False

    def begin_run(self, producer: "Producer") -> None:
        self.producer, self.bodies = producer, []
        self._runs.append((producer, self.bodies))

    def schedule(self) -> None:
        self.scheduled = True
        self._loop.schedule(self._take)

    def _take(self) -> None:
        """In the thread of the loop."""
        self.scheduled = False
        while self._runs:
            (producer, bodies), is_last = self._runs[0], len(self._runs) == 1
            taken = bodies[:]
            del bodies[: len(taken)]
            if taken:
                producer.take(taken)
            if is_last:
                return
            self._runs.popleft()


class Producer:
    """Sends to one destination. A send without confirmation is an append; see `SessionSends`."""

    def __init__(self, loop: LoopCaller, producer: aio.Producer, sends: SessionSends) -> None:
        self.destination = producer.destination
        self._loop = loop
        self._aio = producer
        self._sends = sends
        # The size of the bodies since the last flush that are not small.
        self._large_bytes = 0

    def send(
        self, body: Buffer, *, persistent: bool = False, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> None:  # fmt: skip
        """Send one message. A persistent one outside a transaction is on the broker's disk when this returns."""
        if persistent or properties or headers:
            self._loop.run(self._aio.send(body, persistent=persistent, properties=properties, **headers))
            return
        if type(body) is not bytes:
            body = as_body(body)
        sends = self._sends
        if not sends.scheduled:
            self._check()
        if sends.producer is not self:
            sends.begin_run(self)
        bodies = sends.bodies
        bodies.append(body)
        if not sends.scheduled:
            sends.schedule()
        if len(body) > SMALL_BYTES:
            self._large_bytes += len(body)
        if len(bodies) >= _MAX_UNSENT_ROWS or self._large_bytes >= _MAX_UNSENT_BYTES:
            self.flush()

    def _check(self) -> None:
        """Raise the error of an earlier send; wait if the broker holds too many messages back."""
        if self._loop.stopped:
            raise ClosedError("the connection is closed")
        self._aio.raise_error()
        if self._aio.unsent >= _MAX_UNSENT_ROWS:
            self.flush()

    def take(self, bodies: list[bytes]) -> None:
        """In the thread of the loop: send these. The next use of the producer raises the error, if there is one."""
        self._aio.gather(bodies)

    def send_batch(self, payload: Payload, *, persistent: bool = False, confirm: bool = False) -> None:
        """Send a batch (see `mqlab.wire.native.bodies`). With `confirm`, returns when the broker has confirmed it."""
        self._loop.run(self._aio.send_batch(payload, persistent=persistent, confirm=confirm))

    def flush(self, timeout: float | None = None) -> None:
        """Hand everything sent so far to the connection. Raises TimeoutError after `timeout` seconds."""
        self._large_bytes = 0
        self._loop.run(flush_within(self._aio, timeout))
        self._aio.raise_error()

    def close(self) -> None:
        """Close the producer. Returns when the broker has received everything that was sent."""
        self._loop.run(self._aio.close())


async def flush_within(flushed: aio.Producer | aio.Session, timeout: float | None) -> None:
    """Raises TimeoutError after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            await flushed.flush()
    except TimeoutError:
        raise TimeoutError(f"{flushed.unsent} messages are unsent: the broker grants no credit") from None


class Consumer:
    """Receives from one destination. An iteration ends when the connection is closed."""

    def __init__(self, loop: LoopCaller, consumer: aio.Consumer) -> None:
        self.destination = consumer.destination
        self._loop = loop
        self._aio = consumer
        self._listener: threading.Thread | None = None
        # The listener's thread holds it while the listener handles a message.
        self._listener_lock = threading.Lock()
        self._closing = False

    def receive(
        self, timeout: float | None = None, *, correlation_id: str | None = None, message_id: str | None = None
    ) -> Message:
        """The next message, or the one with that id. Raises TimeoutError after `timeout` seconds."""
        self._check_no_listener()
        if correlation_id is not None or message_id is not None:
            receiving = self._aio.receive(timeout, correlation_id=correlation_id, message_id=message_id)
            return self._loop.run(receiving)
        for message in self._aio.unread.messages:
            if self._aio.acknowledge_due:
                self._schedule_acknowledge()
            return message
        self._loop.run(self._aio.open_delivery(timeout))
        return next(self._aio.unread.messages)

    def receive_batch(self, timeout: float | None = None) -> Delivery:
        """The next delivery, which may have many messages. Raises TimeoutError after `timeout` seconds."""
        self._check_no_listener()
        return self._loop.run(self._aio.receive_batch(timeout))

    def acknowledge(self, messages: Message | Delivery | None = None) -> None:
        """Acknowledge all that the application has received; in mode `individual` only these messages."""
        self._loop.run(call_in_loop(lambda: self._aio.acknowledge(messages)))

    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call the listener for each message, in a thread of its own, until the consumer is closed.

        A message is acknowledged after the listener returns. If the listener raises, the consumer is closed: the broker
        keeps that message and all after it, and the thread ends with the error.
        """
        self._check_no_listener()
        self._listener = threading.Thread(target=self._listen, args=(listener,), name="mqlab-listener", daemon=True)
        self._listener.start()

    def _check_no_listener(self) -> None:
        if self._listener is not None:
            raise MessagingError("this consumer has a listener, which gets its messages")

    def _listen(self, listener: Callable[[Message], None]) -> None:
        """A message counts as received once it is popped, so it is popped only under the lock."""
        while not self._closing:
            try:
                if not self._aio.unread:
                    self._loop.run(self._aio.open_delivery())
                elif self._aio.acknowledge_due:
                    self._schedule_acknowledge()
            except self._aio.end_error:
                return
            with self._listener_lock:
                if not self._closing:
                    self._call_listener(listener)

    def _call_listener(self, listener: Callable[[Message], None]) -> None:
        message = next(self._aio.unread.messages, None)
        if message is None:
            # The session was closed meanwhile.
            return
        try:
            listener(message)
        except BaseException:
            with suppress(ClosedError):
                self._loop.run(self._aio.close(unprocessed=1))
            raise

    def __iter__(self) -> Iterator[Message]:
        return self._iterate(lambda: self._aio.unread.messages)

    def bodies(self) -> Iterator[bytes]:
        """Iterate over bodies alone. Each is received and acknowledged as its message would be."""
        return self._iterate(lambda: self._aio.unread.bodies)

    def _iterate(self, unread: Callable[[], Iterator[T]]) -> Iterator[T]:
        consumer = self._aio
        while True:
            try:
                for received in unread():
                    if consumer.acknowledge_due:
                        self._schedule_acknowledge()
                    yield received
                self._check_no_listener()
                self._loop.run(consumer.open_delivery())
            except consumer.end_error:
                return
            # All messages before this one are acknowledged.
            yield from islice(unread(), 1)

    def _acknowledge_later(self) -> None:
        """In the thread of the loop. Delayed: waking that thread for each message would cost more than the message."""
        asyncio.get_running_loop().call_later(_ACKNOWLEDGE_DELAY_S, self._aio.acknowledge_all_but_last)

    def _schedule_acknowledge(self) -> None:
        self._aio.acknowledge_due = False
        self._loop.schedule(self._acknowledge_later)

    def close(self) -> None:
        """Return all messages that the application has not received to the queue. Waits for a running listener."""
        self._closing = True
        if self._listener is None or self._listener is threading.current_thread():
            self._loop.run(self._aio.close())
            return
        with self._listener_lock:
            self._loop.run(self._aio.close())
        self._listener.join()
