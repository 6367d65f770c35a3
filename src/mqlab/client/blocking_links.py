"""Producers and consumers of the plain API: they hand over to the loop's thread, and wait for it where they must."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Unpack

from mqlab.client import aio
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.event_loop import Caller, as_work
from mqlab.client.headers import Headers
from mqlab.client.message import Delivery, Message
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.columns import Value

# What leaves in one frame, and what may wait in this process before `send` waits too.
_MOST_ROWS: Final = 4096
_MOST_BYTES: Final = 256 * 1024
_MOST_READY: Final = 4 * _MOST_ROWS
_MOST_READY_BYTES: Final = 16 * _MOST_BYTES
# With automatic acknowledgement, how long the broker may not know of what was received.
_PROMPT_SECONDS: Final = 0.002


class Producer:
    """Sends to one destination. Sends that need no answer only leave a note for the thread that does the sending."""

    def __init__(self, loop: Caller, producer: aio.Producer, transacted: bool) -> None:
        self.destination = producer.destination
        self._loop = loop
        self._aio = producer
        self._transacted = transacted
        self._ready: deque[bytes] = deque()
        # Each counter is written by one thread only: what was added by the caller's, what has left by the loop's.
        self._added = self._added_bytes = 0
        self._left = self._left_bytes = 0
        self._notified = False
        self._pump_runs = False
        self._moved = threading.Event()
        self._error: MessagingError | None = None

    def send(
        self, body: Buffer, *, persistent: bool = False, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> None:  # fmt: skip
        """One message. A persistent one outside a transaction is on the broker's disk when this returns."""
        if persistent or properties or headers:
            self.flush()
            self._loop.do(self._aio.send(body, persistent=persistent, properties=properties, **headers))
            return
        body = as_body(body)
        if self._error is not None or self._loop.stopped:
            self._raise_error()
        self._ready.append(body)
        self._added += 1
        self._added_bytes += len(body)
        if not self._notified:
            self._notified = True
            self._loop.submit(self._start_pump)
        if self._added - self._left >= _MOST_READY or self._added_bytes - self._left_bytes >= _MOST_READY_BYTES:
            self._wait_for_the_pump()

    def send_batch(self, payload: Payload, *, persistent: bool = False, confirm: bool = False) -> None:
        """Messages that go together (see `mqlab.wire.native.bodies`); with `confirm`, returns when they are safe."""
        self.flush()
        self._loop.do(self._aio.send_batch(payload, persistent=persistent, confirm=confirm))

    def flush(self, timeout: float | None = None) -> None:
        """Returns when everything sent so far is on its way. Raises TimeoutError if that takes longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._left < self._added:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{self._added - self._left} messages could not leave: nobody takes them")
            self._wait_for_the_pump()
        self._raise_error()

    def close(self) -> None:
        """Returns when the broker has everything that was sent."""
        self.flush()
        self._loop.do(self._aio.close())

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._loop.stopped:
            raise ClosedError("the connection is closed")

    def _wait_for_the_pump(self) -> None:
        self._moved.clear()
        if self._left < self._added:
            # It may move between the two lines above: the wait is bounded, the caller looks again.
            self._moved.wait(0.05)
        self._raise_error()

    # In the loop's thread

    def _start_pump(self) -> None:
        self._notified = False
        if not self._pump_runs:
            self._pump_runs = True
            self._loop.keep(asyncio.ensure_future(self._pump()))

    async def _pump(self) -> None:
        """Send what is ready, until nothing is. After an error, what is ready cannot be sent."""
        try:
            while self._ready:
                taken, size = self._take()
                try:
                    await self._aio.send_batch(self._aio.stamp.batch(taken))
                except MessagingError as error:
                    self._error = error
                self._left += len(taken)
                self._left_bytes += size
                self._moved.set()
        finally:
            self._pump_runs = False

    def _take(self) -> tuple[list[bytes], int]:
        """What leaves in one frame."""
        taken: list[bytes] = []
        size = 0
        while self._ready and len(taken) < _MOST_ROWS and size < _MOST_BYTES:
            taken.append(self._ready.popleft())
            size += len(taken[-1])
        return taken, size


class Consumer:
    """Receives from one destination. Iterating over it ends when the connection is closed."""

    def __init__(self, loop: Caller, consumer: aio.Consumer) -> None:
        self.destination = consumer.destination
        self._loop = loop
        self._aio = consumer
        self._prompt = consumer.mode == "auto"
        self._listener: threading.Thread | None = None
        # Held by the listener from the moment it has a message until it is done with it.
        self._turn = threading.Lock()
        self._closing = False

    def receive(
        self, timeout: float | None = None, *, correlation_id: str | None = None, message_id: str | None = None
    ) -> Message:
        """The next message, or the one with that id. Raises TimeoutError if none came in so many seconds."""
        self._must_not_listen()
        if correlation_id is not None or message_id is not None:
            receiving = self._aio.receive(timeout, correlation_id=correlation_id, message_id=message_id)
            return self._loop.do(receiving)
        if not self._aio.in_hand:
            self._loop.do(self._aio.fill_hand(timeout))
        elif self._prompt and not self._aio.settling:
            self._settle_soon()
        return self._aio.in_hand.pop()

    def receive_batch(self, timeout: float | None = None) -> Delivery:
        """The next messages that came together."""
        self._must_not_listen()
        return self._loop.do(self._aio.receive_batch(timeout))

    def acknowledge(self, what: Message | Delivery | None = None) -> None:
        """All that this consumer gave to the application is done; or, with `individual`, just these messages."""
        self._loop.do(as_work(lambda: self._aio.acknowledge(what)))

    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call the listener for each message, in a thread of its own, until the consumer is closed.

        A message is done when the listener returns. If it raises, the consumer is closed: that message and all after
        it stay with the broker, and the thread ends with the error.
        """
        self._must_not_listen()
        self._listener = threading.Thread(target=self._listen, args=(listener,), name="mqlab-listener", daemon=True)
        self._listener.start()

    def _must_not_listen(self) -> None:
        if self._listener is not None:
            raise MessagingError("a listener gets the messages of this consumer")

    def _listen(self, listener: Callable[[Message], None]) -> None:
        """A message counts as given when it leaves the hand, so it leaves it only when its turn has come."""
        while not self._closing:
            try:
                if not self._aio.in_hand:
                    self._loop.do(self._aio.fill_hand())
                elif self._prompt and not self._aio.settling:
                    self._settle_soon()
            except self._aio.end:
                return
            with self._turn:
                if not self._closing:
                    self._hand_over(listener)

    def _hand_over(self, listener: Callable[[Message], None]) -> None:
        try:
            message = self._aio.in_hand.pop()
        except IndexError:
            # The session was closed meanwhile.
            return
        try:
            listener(message)
        except BaseException:
            with suppress(ClosedError):
                self._loop.do(self._aio.close(undone=1))
            raise

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                yield self.receive()
                # What came together is at hand: no need to ask for each.
                while in_hand := self._aio.in_hand:
                    if self._prompt and not self._aio.settling:
                        self._settle_soon()
                    yield in_hand.pop()
            except self._aio.end:
                return

    def _settle(self) -> None:
        """In the loop's thread. Not at once: to wake that thread for each message would cost more than the message."""
        asyncio.get_running_loop().call_later(_PROMPT_SECONDS, self._aio.settle)

    def _settle_soon(self) -> None:
        self._aio.settling = True
        self._loop.submit(self._settle)

    def close(self) -> None:
        """What was not given to the application goes back to the queue. A listener is first done with its message."""
        self._closing = True
        if self._listener is None or self._listener is threading.current_thread():
            self._loop.do(self._aio.close())
            return
        with self._turn:
            self._loop.do(self._aio.close())
        self._listener.join()
