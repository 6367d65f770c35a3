"""Producers and consumers of the blocking API: they pass work to the thread of the event loop."""

import asyncio
import threading
import time
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
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.columns import Value

T = TypeVar("T")

# Limits of one frame, and of the messages that may be unsent before `send` blocks.
_MAX_ROWS: Final = 4096
_MAX_BYTES: Final = 256 * 1024
_MAX_READY: Final = 4 * _MAX_ROWS
_MAX_READY_BYTES: Final = 16 * _MAX_BYTES
# In mode `auto`, how long an acknowledgement may be delayed.
_ACKNOWLEDGE_DELAY_S: Final = 0.002


class Producer:
    """Sends to one destination. A send without confirmation only queues the message for the thread of the loop."""

    def __init__(self, loop: LoopCaller, producer: aio.Producer, transacted: bool) -> None:
        self.destination = producer.destination
        self._loop = loop
        self._aio = producer
        self._transacted = transacted
        self._ready: deque[bytes] = deque()
        # One thread writes each counter: the caller's thread what was added, the loop's thread what was sent.
        self._added = self._added_bytes = 0
        self._sent = self._sent_bytes = 0
        self._start_scheduled = False
        self._sending = False
        self._progress = threading.Event()
        self._error: MessagingError | None = None

    def send(
        self, body: Buffer, *, persistent: bool = False, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> None:  # fmt: skip
        """Send one message. A persistent one outside a transaction is on the broker's disk when this returns."""
        if persistent or properties or headers:
            self.flush()
            self._loop.run(self._aio.send(body, persistent=persistent, properties=properties, **headers))
            return
        body = as_body(body)
        if self._error is not None or self._loop.stopped:
            self._raise_error()
        self._ready.append(body)
        self._added += 1
        self._added_bytes += len(body)
        if not self._start_scheduled:
            self._start_scheduled = True
            self._loop.schedule(self._start_sending)
        if self._added - self._sent >= _MAX_READY or self._added_bytes - self._sent_bytes >= _MAX_READY_BYTES:
            self._wait_for_progress()

    def send_batch(self, payload: Payload, *, persistent: bool = False, confirm: bool = False) -> None:
        """Send a batch (see `mqlab.wire.native.bodies`). With `confirm`, returns when the broker has confirmed it."""
        self.flush()
        self._loop.run(self._aio.send_batch(payload, persistent=persistent, confirm=confirm))

    def flush(self, timeout: float | None = None) -> None:
        """Hand everything sent so far to the connection. Raises TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._sent < self._added:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{self._added - self._sent} messages are unsent: the broker grants no credit")
            self._wait_for_progress()
        self._raise_error()

    def close(self) -> None:
        """Close the producer. Returns when the broker has received everything that was sent."""
        self.flush()
        self._loop.run(self._aio.close())

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._loop.stopped:
            raise ClosedError("the connection is closed")

    def _wait_for_progress(self) -> None:
        self._progress.clear()
        if self._sent < self._added:
            # Progress between the two lines above is missed, so the wait is bounded and the caller checks again.
            self._progress.wait(0.05)
        self._raise_error()

    # In the thread of the loop

    def _start_sending(self) -> None:
        self._start_scheduled = False
        if not self._sending:
            self._sending = True
            self._loop.keep_task(asyncio.ensure_future(self._send_ready()))

    async def _send_ready(self) -> None:
        """Send until nothing is ready. After an error, the messages that are ready are discarded."""
        try:
            while self._ready:
                taken, size = self._take()
                try:
                    await self._aio.send_batch(self._aio.encoder.batch(taken))
                except MessagingError as error:
                    self._error = error
                self._sent += len(taken)
                self._sent_bytes += size
                self._progress.set()
        finally:
            self._sending = False

    def _take(self) -> tuple[list[bytes], int]:
        """The bodies of the next frame, and their size in bytes."""
        taken: list[bytes] = []
        size = 0
        while self._ready and len(taken) < _MAX_ROWS and size < _MAX_BYTES:
            taken.append(self._ready.popleft())
            size += len(taken[-1])
        return taken, size


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
