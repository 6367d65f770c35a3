"""STOMP 1.2, to any broker that speaks it; option `flavour`: which one, if it is not to be asked."""

import asyncio
from contextlib import suppress

import numpy as np

from mqlab.drivers.api import (
    Connection,
    Driver,
    DriverError,
    Matrix,
    Receiver,
    ReceiverOptions,
    Requester,
    Responder,
    Sender,
)
from mqlab.drivers.stomp.connection import Wire
from mqlab.drivers.stomp.links import VERSION, StompReceiver, StompSender, frames_of
from mqlab.drivers.stomp.request_reply import StompRequester, StompResponder
from mqlab.wire.stomp import StompFrame, encode_head

_PRELOAD_BATCH = 1000
_CLOSE_SECONDS = 10.0

Link = Sender | Receiver | Requester | Responder


class StompDriver(Driver):
    """Options: user, password, host (the virtual one), flavour (artemis, activemq, rabbitmq, mqlab)."""

    reports_accepted = True

    async def connect(self, application: str = "") -> Connection:
        # Once, to learn now what would go wrong with every link.
        shown = {"application": application} if application else {}
        await (await Wire.open(self.address, self.options, shown)).close()
        return StompConnection(self, shown)


class StompConnection(Connection):
    """Each link is a STOMP connection of its own: acknowledgements, transactions and receipts are a connection's."""

    def __init__(self, driver: StompDriver, shown: dict[str, str]) -> None:
        self._driver = driver
        self._shown = shown
        self._links: list[Link] = []
        self._wires: list[Wire] = []
        # Topics of durable subscriptions: some brokers want to hear them again to end one.
        self._topics: dict[str, str] = {}

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        link = StompSender(await self._wire(), destination, persistent=persistent, transacted=transacted)
        self._links.append(link)
        return link

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        link = StompReceiver(await self._wire(how.durable), destination, how)
        self._links.append(link)
        if how.durable:
            self._topics[how.durable] = destination
        await link.subscribe()
        return link

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        link = StompRequester(await self._wire(), destination, reply_to, persistent=persistent)
        self._links.append(link)
        return link

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        link = StompResponder(await self._wire(), destination, prefetch=prefetch, persistent=persistent)
        self._links.append(link)
        await link.subscribe()
        return link

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        await (await self.receiver(topic, how)).close()

    async def unsubscribe(self, durable: str) -> None:
        wire = await self._wire(durable)
        flavour, topic = wire.flavour, self._topics.pop(durable, "")
        if flavour.name == "rabbitmq":
            # It deletes only what its own connection has subscribed to.
            headers = flavour.subscribe_headers(topic, 1) | flavour.durable_headers(durable)
            await wire.command(StompFrame("SUBSCRIBE", headers))
        await wire.command(StompFrame("UNSUBSCRIBE", {"id": "0", **flavour.durable_headers(durable)}))
        await wire.close()

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        wire = await self._wire()
        head = encode_head("SEND", wire.flavour.send_headers(queue, persistent=persistent), VERSION)
        for first in range(0, len(bodies), _PRELOAD_BATCH):
            some = bodies[first : first + _PRELOAD_BATCH]
            steps = np.arange(len(some))
            columns = {b"receipt:": wire.receipts(len(some)) + steps, b"correlation-id:preload-": first + steps}
            wire.write(frames_of(head, some, columns))
            await wire.answered()
        await wire.close()

    async def close(self) -> None:
        links, self._links, wires, self._wires = self._links, [], self._wires, []
        try:
            # One that does not answer any more is not waited for.
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(_closed(link) for link in links))
        except TimeoutError as error:
            raise DriverError(f"the broker did not answer within {_CLOSE_SECONDS:g} s") from error
        finally:
            for wire in wires:
                wire.abort()

    async def _wire(self, client_id: str = "") -> Wire:
        more = self._shown | ({"client-id": client_id} if client_id else {})
        wire = await Wire.open(self._driver.address, self._driver.options, more)
        self._wires.append(wire)
        return wire


async def _closed(link: Link) -> None:
    # Who used it knows already that it failed.
    with suppress(DriverError):
        await link.close()
