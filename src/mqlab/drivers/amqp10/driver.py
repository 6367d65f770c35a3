"""The AMQP 1.0 driver, on Proton's engine, for any broker that speaks it. The option `flavour` names the broker."""

import asyncio
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from proton import Described, Terminus, symbol

from mqlab.drivers import api
from mqlab.drivers.amqp10.client import Amqp10Client
from mqlab.drivers.amqp10.links import Amqp10Receiver, Amqp10Sender, ReceivingLink, SendingLink, TransactionCoordinator
from mqlab.drivers.amqp10.messages import encode_before_body, encode_header, encode_message_properties
from mqlab.drivers.amqp10.request_reply import Amqp10Requester, Amqp10Responder

_CLOSE_TIMEOUT_S = 10.0
_FILTER: Final = symbol("apache.org:selector-filter:string")


@dataclass(frozen=True)
class Amqp10Flavour:
    """How a broker names destinations, and whether it has selectors. Without, each requester has its own queue."""

    queue: str = "{}"
    topic: str = "{}"
    selectors: bool = True


FLAVOURS: Final = {
    "artemis": Amqp10Flavour(),
    "activemq": Amqp10Flavour("queue://{}", "topic://{}"),
    "rabbitmq": Amqp10Flavour("/queue/{}", "/topic/{}", selectors=False),
    "qpid": Amqp10Flavour("{}", "amq.topic/{}"),
    "mqlab": Amqp10Flavour("queue://{}", "topic://{}"),
}


class Amqp10Driver(api.Driver):
    """Options: user, password, flavour (artemis, activemq, rabbitmq, qpid, mqlab; default: artemis)."""

    async def connect(self, application: str = "") -> api.DriverConnection:
        chosen = self.options.get("flavour", "artemis")
        if chosen not in FLAVOURS:
            raise api.DriverError(f"flavour: {chosen!r} is none of {', '.join(FLAVOURS)}")
        client = await self.client(f"{application or 'mqlab'}-{os.getpid()}-{next(_connection_numbers)}")
        return Amqp10Connection(self, client, FLAVOURS[chosen])

    async def client(self, container: str) -> Amqp10Client:
        return await Amqp10Client.open(
            self.address, container, self.options.get("user", ""), self.options.get("password", "")
        )


_connection_numbers = itertools.count(1)


class Amqp10Connection(api.DriverConnection):
    """Each link has its own session. A durable subscription belongs to a container, so it has its own connection."""

    def __init__(self, driver: Amqp10Driver, client: Amqp10Client, flavour: Amqp10Flavour) -> None:
        self._driver = driver
        self._clients = [client]
        self._flavour = flavour
        self._links = itertools.count(1)
        self._durable: dict[str, str] = {}

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        sending = await self._sending(self._address(destination), destination)
        return Amqp10Sender(sending, await self._transactions(sending) if transacted else None, persistent=persistent)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        receiving = await self._receiving(destination, options)
        return Amqp10Receiver(
            receiving, options, await self._transactions(receiving) if options.acknowledge == "transacted" else None
        )

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        async def open_reply_link(selector: str) -> tuple[ReceivingLink, str]:
            if self._flavour.selectors:
                return await self._receiving(reply_to, api.ReceiverOptions(1, selector=selector)), self._address(
                    reply_to
                )
            # RabbitMQ cannot generate the name of a queue.
            own = f"{reply_to}.{uuid4().hex}"
            return await self._receiving(own, api.ReceiverOptions(1)), self._address(own)

        return Amqp10Requester(
            await self._sending(self._address(destination), destination), open_reply_link, persistent=persistent
        )

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        receiving = await self._receiving(destination, api.ReceiverOptions(prefetch))
        return Amqp10Responder(receiving, lambda address: self._sending(address, "queue:"), persistent=persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        await (await self.receiver(topic, options)).close()

    async def unsubscribe(self, durable: str) -> None:
        receiving = await self._receiving(self._durable.pop(durable, ""), api.ReceiverOptions(0, durable=durable))
        await receiving.close()
        await receiving.client.close()

    async def preload(self, queue: str, bodies: api.Matrix, *, persistent: bool) -> None:
        sending = await self._sending(self._address(queue), queue)
        begin = encode_header(persistent=persistent)
        messages = [
            encode_before_body(len(body), begin + encode_message_properties("", f"preload-{number}")) + body.tobytes()
            for number, body in enumerate(bodies)
        ]
        await sending.send(messages, settled=False)
        await sending.wait_confirmed()
        await sending.close()

    async def close(self) -> None:
        clients, self._clients = self._clients, []
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                for client in clients:
                    with suppress(api.DriverError):
                        await client.close()
        except TimeoutError as error:
            raise api.DriverError(f"the broker did not answer within {_CLOSE_TIMEOUT_S:g} s") from error
        finally:
            for client in clients:
                client.abort()

    def _address(self, destination: str) -> str:
        kind, _, name = destination.partition(":")
        return (self._flavour.topic if kind == "topic" else self._flavour.queue).format(name)

    async def _transactions(self, end: ReceivingLink | SendingLink) -> TransactionCoordinator:
        return await TransactionCoordinator.open(end.client, end.link.session, f"transactions-{next(self._links)}")

    async def _sending(self, address: str, destination: str) -> SendingLink:
        client = self._clients[0]
        session = client.connection.session()
        session.open()
        link = session.sender(f"out-{next(self._links)}")
        link.target.address = address
        _set_capability(link.target, destination)
        sending = SendingLink(client, link)
        await sending.attach()
        return sending

    async def _receiving(self, destination: str, options: api.ReceiverOptions) -> ReceivingLink:
        client = self._clients[0]
        if options.durable:
            client = await self._driver.client(options.durable)
            self._clients.append(client)
            self._durable[options.durable] = destination
        session = client.connection.session()
        session.open()
        link = session.receiver(options.durable or f"in-{next(self._links)}")
        link.source.address = self._address(destination)
        _set_capability(link.source, destination)
        if options.durable:
            link.source.durability, link.source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
        if options.selector:
            link.source.filter.put_dict({symbol("jms-selector"): Described(_FILTER, options.selector)})
        receiving = ReceivingLink(client, link, options.prefetch)
        await receiving.attach()
        return receiving


def _set_capability(terminus: Terminus, destination: str) -> None:
    kind = destination.partition(":")[0]
    if kind in ("queue", "topic"):
        terminus.capabilities.put_object(symbol(kind))
