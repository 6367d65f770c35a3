"""The plain, blocking API: the asyncio one, with its loop in a thread of its own, or in that of a local broker.

with connect("tcp:127.0.0.1:7766") as connection:
    session = connection.session()
    session.producer("queue:orders").send(b"one", persistent=True, properties={"colour": "red"})
    for message in session.consumer("queue:orders"):
        print(message.body)
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from mqlab.client import aio
from mqlab.client.aio import DEFAULT_PREFETCH
from mqlab.client.blocking_links import Consumer, Producer
from mqlab.client.consumer import Acknowledge
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.event_loop import Caller, LoopThread, as_work
from mqlab.client.headers import Headers
from mqlab.client.inprocess import bindings
from mqlab.client.message import Message
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.columns import Value


def connect(
    address: str, *, client_id: str = "", user: str = "", password: str = "", ca: Path | None = None,
    application: str = "", silence: float | None = None,
) -> "Connection":  # fmt: skip
    """`tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH` or `bindings:NAME`; see `mqlab.client.aio.connect`."""
    connecting = aio.connect(
        address, client_id=client_id, user=user, password=password, ca=ca, application=application, silence=silence
    )
    try:
        loop = _loop_for(address)
    except BaseException:
        connecting.close()
        raise
    return Connection(loop, connecting)


def _loop_for(address: str) -> Caller:
    """A broker in this process has a loop already: a loop between would cost a change of threads more a call."""
    broker = Address.parse(address).broker
    if not broker:
        return LoopThread()
    loop = bindings.door(broker).loop
    if asyncio._get_running_loop() is loop:
        raise MessagingError("the plain API blocks, and would block the broker's event loop: use mqlab.client.aio here")
    return Caller(loop)


class Connection:
    def __init__(self, loop: Caller, connecting: Coroutine[Any, Any, aio.Connection]) -> None:
        self._loop = loop
        try:
            self._aio = self._loop.do(connecting)
        except BaseException:
            self._loop.stop()
            raise
        self._closed = False
        self._sessions: list[Session] = []

    def session(self, acknowledge: Acknowledge = "auto") -> "Session":
        """`acknowledge`: auto, dups_ok, client, individual or transacted; see `mqlab.client.consumer`."""
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
                # A broker in this process may have ended, and its loop with it.
                with suppress(ClosedError):
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

    def __init__(self, loop: Caller, session: aio.Session) -> None:
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

    def requester(
        self, destination: str, *, reply_to: str = "", persistent: bool = False, ids: bool = True,
        timestamps: bool = True,
    ) -> "Requester":  # fmt: skip
        """Sends requests and waits for their replies, on a queue that many share, or on a temporary one of its own."""
        opening = self._aio.requester(
            destination, reply_to=reply_to, persistent=persistent, ids=ids, timestamps=timestamps
        )
        return Requester(self._loop, self._loop.do(opening))

    def reply(self, request: Message, body: Buffer, *, persistent: bool = False, **headers: Unpack[Headers]) -> None:
        """Answer a request where its sender waits for it."""
        self._loop.do(self._aio.reply(request, body, persistent=persistent, **headers))

    def acknowledge(self) -> None:
        """With `client`: all that this session has given to the application is done."""
        self._loop.do(as_work(self._aio.acknowledge))

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


class Requester:
    """One request at a time."""

    def __init__(self, loop: Caller, requester: aio.Requester) -> None:
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
