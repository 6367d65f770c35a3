"""The blocking API: it runs the asyncio API in an event loop of its own thread, or in that of a local broker.

with connect("tcp:127.0.0.1:7766") as connection:
    session = connection.session()
    session.producer("queue:orders").send(b"one", persistent=True, properties={"colour": "red"})
    for message in session.consumer("queue:orders"):
        print(message.body)
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Unpack

from mqlab.client import aio
from mqlab.client.aio import DEFAULT_PREFETCH
from mqlab.client.blocking_links import Consumer, Producer, SessionSends, flush_within
from mqlab.client.consumer import Acknowledge
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.event_loop import LoopCaller, LoopThread, call_in_loop
from mqlab.client.headers import Headers
from mqlab.client.inprocess.listener import find_listener
from mqlab.client.message import Message
from mqlab.json_values import JsonObject
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.columns import Value


def connect(
    address: str, *, client_id: str = "", user: str = "", password: str = "", ca: Path | None = None,
    application: str = "", keepalive: float | None = None, silence: float | None = None,
) -> "Connection":  # fmt: skip
    """`tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH` or `bindings:NAME`; see `mqlab.client.aio.connect`."""
    connecting = aio.connect(
        address, client_id=client_id, user=user, password=password, ca=ca, application=application, keepalive=keepalive,
        silence=silence,
    )  # fmt: skip
    try:
        loop = _loop_for(address)
    except BaseException:
        connecting.close()
        raise
    return Connection(loop, connecting)


def _loop_for(address: str) -> LoopCaller:
    """A broker in this process has an event loop: with another one, each call would cost one more thread switch."""
    broker = Address.parse(address).broker
    if not broker:
        return LoopThread()
    loop = find_listener(broker).loop
    if asyncio._get_running_loop() is loop:
        raise MessagingError("the blocking API would block the broker's event loop: use mqlab.client.aio here")
    return LoopCaller(loop)


class Connection:
    def __init__(self, loop: LoopCaller, connecting: Coroutine[object, None, aio.Connection]) -> None:
        self._loop = loop
        try:
            self._aio = self._loop.run(connecting)
        except BaseException:
            self._loop.stop()
            raise
        self._closed = False

    def session(self, acknowledge: Acknowledge = "auto") -> "Session":
        """`acknowledge`: auto, dups_ok, client, individual or transacted; see `mqlab.client.consumer`."""
        return Session(self._loop, self._loop.run(self._aio.session(acknowledge)))

    def temporary_queue(self) -> str:
        """Create a temporary queue and return its name. Only this connection can receive from it."""
        return self._loop.run(self._aio.temporary_queue())

    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription that has no consumer now."""
        self._loop.run(self._aio.unsubscribe(name))

    def commit(self, xid: str) -> None:
        """Commit a transaction that a session has prepared, maybe before a restart of the broker."""
        self._loop.run(self._aio.commit(xid))

    def rollback(self, xid: str) -> None:
        self._loop.run(self._aio.rollback(xid))

    def prepared(self) -> list[str]:
        """The ids of the prepared transactions that are not decided yet."""
        return self._loop.run(self._aio.prepared())

    def status(self) -> JsonObject:
        """The broker's counters."""
        return self._loop.run(self._aio.status())

    def ask(self, operation: str, **arguments: object) -> JsonObject:
        """An administrative operation: list, show, purge, move, delete."""
        return self._loop.run(self._aio.ask(operation, **arguments))

    def close(self) -> None:
        """Flush, then close. Raises MessagingError if the broker does not take everything that was sent."""
        if not self._closed:
            self._closed = True
            try:
                # A local broker may have ended, and its loop with it.
                with suppress(ClosedError):
                    self._loop.run(self._aio.close())
            finally:
                self._loop.stop()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Session:
    """The context of producers and consumers. One thread at a time may use it."""

    def __init__(self, loop: LoopCaller, session: aio.Session) -> None:
        self._loop = loop
        self._aio = session
        self._sends = SessionSends(loop)

    def producer(
        self, destination: str, *, priority: int = 4, time_to_live: int = 0, delay: int = 0, ids: bool = True,
        timestamps: bool = True,
    ) -> "Producer":  # fmt: skip
        """`queue:NAME` or `topic:NAME`. Times are in ms. Without `ids` and `timestamps` frames are shorter."""
        opening = self._aio.producer(
            destination, priority=priority, time_to_live=time_to_live, delay=delay, ids=ids, timestamps=timestamps
        )
        return Producer(self._loop, self._loop.run(opening), self._sends)

    def consumer(
        self, destination: str, *, prefetch: int = DEFAULT_PREFETCH, selector: str = "", durable: str = "",
        shared: str = "", no_local: bool = False, exclusive: bool = False,
    ) -> "Consumer":  # fmt: skip
        """See `mqlab.client.aio.Session.consumer`."""
        opening = self._aio.consumer(
            destination, prefetch=prefetch, selector=selector, durable=durable, shared=shared, no_local=no_local,
            exclusive=exclusive,
        )  # fmt: skip
        return Consumer(self._loop, self._loop.run(opening))

    def browser(self, queue: str, *, selector: str = "") -> "Consumer":
        """Iterate over the browser to read the messages of a queue."""
        return Consumer(self._loop, self._loop.run(self._aio.browser(queue, selector=selector)))

    def requester(
        self, destination: str, *, reply_to: str = "", persistent: bool = False, ids: bool = True,
        timestamps: bool = True,
    ) -> "Requester":  # fmt: skip
        """Replies arrive on the shared queue `reply_to`, or else on a temporary queue of this requester."""
        opening = self._aio.requester(
            destination, reply_to=reply_to, persistent=persistent, ids=ids, timestamps=timestamps
        )
        return Requester(self._loop, self._loop.run(opening))

    def reply(self, request: Message, body: Buffer, *, persistent: bool = False, **headers: Unpack[Headers]) -> None:
        """Send a reply to the `reply_to` destination of a request."""
        self._loop.run(self._aio.reply(request, body, persistent=persistent, **headers))

    def acknowledge(self) -> None:
        """In mode `client`: acknowledge all messages that the application has received in this session."""
        self._loop.run(call_in_loop(self._aio.acknowledge))

    def recover(self) -> None:
        """Have all messages that were received and not acknowledged delivered again."""
        self._loop.run(self._aio.recover())

    def prepare(self, xid: str) -> None:
        """The first phase of a two-phase commit: the transaction waits for `Connection.commit` or `rollback`."""
        self._loop.run(self._aio.prepare(xid))

    def commit(self) -> None:
        """Commit all sends and acknowledgements; durable if a message in the transaction is persistent."""
        self._loop.run(self._aio.commit())

    def rollback(self) -> None:
        """Discard all sends, and have all received messages delivered again."""
        self._loop.run(self._aio.rollback())

    def close(self) -> None:
        """Close the session. The broker rolls an open transaction back."""
        self._loop.run(self._aio.close())

    def flush(self, timeout: float | None = None) -> None:
        """Hand everything sent so far to the connection. Raises TimeoutError after `timeout` seconds."""
        self._loop.run(flush_within(self._aio, timeout))


class Requester:
    """One request at a time."""

    def __init__(self, loop: LoopCaller, requester: aio.Requester) -> None:
        self.reply_to = requester.reply_to
        self._loop = loop
        self._aio = requester

    def request(
        self, body: Buffer, timeout: float | None = None, *, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> Message:  # fmt: skip
        """Send a request and wait for its reply. Raises TimeoutError after `timeout` seconds; ignores late replies."""
        return self._loop.run(self._aio.request(body, timeout, properties=properties, **headers))

    def close(self) -> None:
        self._loop.run(self._aio.close())
