"""The JMS driver: any JMS provider, through its own Java library and JPype."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Final

from mqlab.drivers import api
from mqlab.drivers.jms.calls import JavaCalls
from mqlab.drivers.jms.jvm import JavaObject, provider_classes
from mqlab.drivers.jms.links import JmsAcknowledgingReceiver, JmsReceiver, JmsSender
from mqlab.drivers.jms.options import complete, destination, jars
from mqlab.drivers.jms.request_reply import JmsRequester, JmsResponder

# The constants of javax.jms.Session.
_MODES: Final = {"transacted": 0, "auto": 1, "client": 2, "dups_ok": 3}
_ACKNOWLEDGING: Final = ("transacted", "client")
_CLOSE_TIMEOUT_S: Final = 10.0


class JmsDriver(api.Driver):
    """Options: see docs/systems.md. JMS has no prefetch setting; each provider has its own."""

    reports_accepted = True
    frame_each = False

    async def connect(self, application: str = "") -> api.DriverConnection:  # noqa: ARG002 # JMS has no name for a client to show
        options = complete(self.address, self.options)
        classes = provider_classes(jars(options["jars"]))
        calls = JavaCalls(classes, f"jms {self.address}")
        connection = JmsConnection(calls, classes.connection(calls.completions, options), options)
        try:
            await connection.open()
        except BaseException:
            with suppress(api.DriverError):
                await asyncio.shield(connection.close())
            raise
        return connection


class JmsConnection(api.DriverConnection):
    def __init__(self, calls: JavaCalls, java: JavaObject, options: dict[str, str]) -> None:
        self._calls = calls
        self._java = java
        self._options = options
        self._closed = False

    async def open(self) -> None:
        await self._calls.call(self._java.connect)

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        open_link = partial(self._link, destination, persistent=persistent, transacted=transacted)
        waiting = None
        if self._options["confirm"] == "commit" and not transacted:
            # Opened on demand: such sends need a transacted session of their own.
            waiting = partial(open_link, waits=True)
        return JmsSender(self._calls, await open_link(waits=False), persistent, waiting)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        mode = _MODES[options.acknowledge]
        link = await self._calls.call(
            self._java.receiver, *self._provider_name(destination), max(1, options.prefetch), mode, options.selector,
            options.durable,
        )  # fmt: skip
        return (JmsAcknowledgingReceiver if options.acknowledge in _ACKNOWLEDGING else JmsReceiver)(self._calls, link)

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        standing = self._options["replies"] == "standing"
        queues = self._queue(destination), self._queue(reply_to)
        return JmsRequester(self._calls, await self._calls.call(self._java.requester, *queues, persistent, standing))

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        link = await self._calls.call(self._java.responder, self._queue(destination), max(1, prefetch), persistent)
        return JmsResponder(self._calls, link, persistent=persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        await (await self.receiver(topic, api.ReceiverOptions(1, "client", options.selector, options.durable))).close()

    async def unsubscribe(self, durable: str) -> None:
        await self._calls.call(self._java.unsubscribe, durable)

    async def preload(self, queue: str, bodies: api.Matrix, *, persistent: bool) -> None:
        link = await self._link(queue, persistent=persistent, transacted=False, waits=True)
        sender = JmsSender(self._calls, link, persistent, None)
        await sender.preload(bodies)
        await sender.close()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._calls.wait(self._calls.submit_unchecked(self._java.close), _CLOSE_TIMEOUT_S)
        finally:
            self._java.abandon()
            self._calls.close()

    def _link(self, destination: str, *, persistent: bool, transacted: bool, waits: bool) -> Awaitable[JavaObject]:
        return self._calls.call(self._java.sender, *self._provider_name(destination), persistent, transacted, waits)

    def _provider_name(self, name: str) -> tuple[bool, str]:
        return destination(name, self._options)

    def _queue(self, name: str) -> str:
        is_topic, own = self._provider_name(name)
        if is_topic:
            raise api.DriverError(f"{name}: request/reply needs queues")
        return own
