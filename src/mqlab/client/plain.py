"""The plain, blocking API: the asyncio one, with its loop in a thread of its own.

    with connect("tcp:127.0.0.1:7766") as connection:
        session = connection.session()
        session.producer("queue:orders").send(b"one", persistent=True, properties={"colour": "red"})
        for message in session.consumer("queue:orders"):
            print(message.body)
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, Unpack

import uvloop

from mqlab.client import aio
from mqlab.client.aio import DEFAULT_PREFETCH
from mqlab.client.consuming import Acknowledge
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.headers import Headers
from mqlab.client.message import Delivery, Message
from mqlab.wire.bodies import Buffer, Payload, as_body
from mqlab.wire.columns import Value

T = TypeVar("T")

# What leaves in one frame, and what may wait in this process before `send` waits too.
_MOST_ROWS: Final = 4096
_MOST_BYTES: Final = 256 * 1024
_MOST_READY: Final = 4 * _MOST_ROWS
_MOST_READY_BYTES: Final = 16 * _MOST_BYTES


def connect(
    address: str, *, client_id: str = "", user: str = "", password: str = "", ca: Path | None = None
) -> "Connection":
    """`tcp:HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`; see `mqlab.client.aio.connect`."""
    return Connection(lambda: aio.connect(address, client_id=client_id, user=user, password=password, ca=ca))


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self.stopped = False
        # Between the look at `stopped` and the hand-over to the loop nobody may stop it.
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="mqlab-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for its result here."""
        with self._lock:
            if self.stopped:
                work.close()
                raise ClosedError("the connection is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("the connection is closed") from None

    def submit(self, action: Callable[[], None]) -> None:
        """Do it there, and do not wait."""
        with self._lock:
            if self.stopped:
                raise ClosedError("the connection is closed")
            self._loop.call_soon_threadsafe(action)

    def keep(self, task: asyncio.Task[None]) -> None:
        """The loop itself holds tasks only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Whoever still waits for a result is told that there will be none."""
        with self._lock:
            self.stopped = True
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        self._thread.join()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Results are handed back by callbacks: let them run.
        await asyncio.sleep(0)
        self._loop.stop()


class Connection:
    def __init__(self, connect: Callable[[], Coroutine[Any, Any, aio.Connection]]) -> None:
        self._loop = _Loop()
        try:
            self._aio = self._loop.do(connect())
        except BaseException:
            self._loop.stop()
            raise
        self._closed = False
        self._sessions: list[Session] = []

    def session(self, acknowledge: Acknowledge = "auto") -> "Session":
        """`acknowledge`: auto, dups_ok, client, individual or transacted; see `mqlab.client.consuming`."""
        session = Session(self._loop, self._loop.do(self._aio.session(acknowledge)))
        self._sessions.append(session)
        return session

    def temporary_queue(self) -> str:
        """The name of a new queue that goes with this connection. Anybody can send to it, only this one receives."""
        return self._loop.do(self._aio.temporary_queue())

    def unsubscribe(self, name: str) -> None:
        """Ends a durable subscription that nobody uses now."""
        self._loop.do(self._aio.unsubscribe(name))

    def commit(self, xid: str) -> None:
        """The second phase of a transaction that some session prepared, maybe before a restart."""
        self._loop.do(self._aio.commit(xid))

    def rollback(self, xid: str) -> None:
        self._loop.do(self._aio.rollback(xid))

    def prepared(self) -> list[str]:
        """The transactions that wait for a decision."""
        return self._loop.do(self._aio.prepared())

    def status(self) -> dict[str, Any]:
        """The broker's counters."""
        return self._loop.do(self._aio.status())

    def ask(self, asked: str, **said: Any) -> dict[str, Any]:
        """The questions of administrators: list, show, purge, move, delete."""
        return self._loop.do(self._aio.ask(asked, **said))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            held_back: TimeoutError | None = None
            try:
                with suppress(ClosedError):
                    self._flush_all()
            except TimeoutError as error:
                held_back = error
            finally:
                self._loop.do(self._aio.drop() if held_back else self._aio.close())
                self._loop.stop()
            if held_back:
                raise MessagingError(f"closed, but not all that was sent could leave: {held_back}")

    def _flush_all(self) -> None:
        deadline = time.monotonic() + aio.LINGER_SECONDS
        for session in self._sessions:
            session.flush(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Session:
    """The scope of a transaction. To be used by one thread at a time."""

    def __init__(self, loop: _Loop, session: aio.Session) -> None:
        self._loop = loop
        self._aio = session
        self._producers: list[Producer] = []

    def producer(
        self, destination: str, *, priority: int = 4, time_to_live: int = 0, delay: int = 0, ids: bool = True,
        timestamps: bool = True,
    ) -> "Producer":  # fmt: skip
        """`queue:NAME` or `topic:NAME`. Times are ms; `ids` and `timestamps` can be left out to save bytes."""
        opening = self._aio.producer(
            destination, priority=priority, time_to_live=time_to_live, delay=delay, ids=ids, timestamps=timestamps
        )
        producer = Producer(self._loop, self._loop.do(opening), self._aio.transacted)
        self._producers.append(producer)
        return producer

    def consumer(
        self, destination: str, *, prefetch: int = DEFAULT_PREFETCH, selector: str = "", durable: str = "",
        shared: str = "", no_local: bool = False, exclusive: bool = False,
    ) -> "Consumer":  # fmt: skip
        """See `mqlab.client.aio.Session.consumer`."""
        opening = self._aio.consumer(
            destination, prefetch=prefetch, selector=selector, durable=durable, shared=shared, no_local=no_local,
            exclusive=exclusive,
        )  # fmt: skip
        return Consumer(self._loop, self._loop.do(opening))

    def browser(self, queue: str, *, selector: str = "") -> "Consumer":
        """Iterate over it to see what is on a queue."""
        return Consumer(self._loop, self._loop.do(self._aio.browser(queue, selector=selector)))

    def requester(self, destination: str, *, reply_to: str = "", persistent: bool = False) -> "Requester":
        """Sends requests and waits for their replies, on a queue that many share, or on a temporary one of its own."""
        opening = self._aio.requester(destination, reply_to=reply_to, persistent=persistent)
        return Requester(self._loop, self._loop.do(opening))

    def reply(self, request: Message, body: Buffer, *, persistent: bool = False, **headers: Unpack[Headers]) -> None:
        """Answer a request where its sender waits for it."""
        self._loop.do(self._aio.reply(request, body, persistent=persistent, **headers))

    def acknowledge(self) -> None:
        """With `client`: all that this session has given to the application is done."""
        self._loop.do(_as_work(self._aio.acknowledge))

    def recover(self) -> None:
        """All that was received and not acknowledged comes again."""
        self._loop.do(self._aio.recover())

    def prepare(self, xid: str) -> None:
        """The first of two phases: the transaction now waits, whatever happens, for `Connection.commit` or rollback."""
        self.flush()
        self._loop.do(self._aio.prepare(xid))

    def commit(self) -> None:
        """All sends become visible and all receipts final; durable, if anything in it is persistent."""
        self.flush()
        self._loop.do(self._aio.commit())

    def rollback(self) -> None:
        """Sends are forgotten, receipts come again."""
        with suppress(RefusedError):
            self.flush()
        self._loop.do(self._aio.rollback())

    def close(self) -> None:
        """An open transaction is rolled back."""
        self.flush()
        self._loop.do(self._aio.close())

    def flush(self, timeout: float | None = None) -> None:
        """Everything sent so far is on its way. Raises TimeoutError if that takes longer."""
        for producer in self._producers:
            producer.flush(timeout)


class Producer:
    """Sends to one destination. Sends that need no answer only leave a note for the thread that does the sending."""

    def __init__(self, loop: _Loop, producer: aio.Producer, transacted: bool) -> None:
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
        """Messages that go together (see `mqlab.wire.bodies`); with `confirm`, returns when they are safe."""
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

    def __init__(self, loop: _Loop, consumer: aio.Consumer) -> None:
        self.destination = consumer.destination
        self._loop = loop
        self._aio = consumer
        self._prompt = consumer.mode == "auto"
        self._listener: threading.Thread | None = None

    def receive(
        self, timeout: float | None = None, *, correlation_id: str | None = None, message_id: str | None = None
    ) -> Message:
        """The next message, or the one with that id. Raises TimeoutError if none came in so many seconds."""
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
        return self._loop.do(self._aio.receive_batch(timeout))

    def acknowledge(self, what: Message | Delivery | None = None) -> None:
        """All that this consumer gave to the application is done; or, with `individual`, just these messages."""
        self._loop.do(_as_work(lambda: self._aio.acknowledge(what)))

    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call the listener for each message, in a thread of its own, until the consumer is closed.

        A message is done when the listener returns. If it raises, that and all after it stays with the broker.
        """
        self._listener = threading.Thread(target=self._listen, args=(listener,), name="mqlab-listener", daemon=True)
        self._listener.start()

    def _listen(self, listener: Callable[[Message], None]) -> None:
        for message in self:
            listener(message)

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

    def _settle_soon(self) -> None:
        self._aio.settling = True
        self._loop.submit(self._aio.settle)

    def close(self) -> None:
        """What was not given to the application goes back to the queue."""
        self._loop.do(self._aio.close())
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join()


class Requester:
    """One request at a time."""

    def __init__(self, loop: _Loop, requester: aio.Requester) -> None:
        self.reply_to = requester.reply_to
        self._loop = loop
        self._aio = requester

    def request(
        self, body: Buffer, timeout: float | None = None, *, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> Message:  # fmt: skip
        """Raises TimeoutError if no reply came in so many seconds; one that comes later is not mistaken for another."""
        return self._loop.do(self._aio.request(body, timeout, properties=properties, **headers))

    def close(self) -> None:
        self._loop.do(self._aio.close())


async def _as_work(action: Callable[[], None]) -> None:
    action()
