"""The STOMP 1.2 driver, for any broker that speaks it. The option `flavour` names the broker, else it is detected."""

import asyncio
from contextlib import suppress

import numpy as np

from mqlab.drivers import api
from mqlab.drivers.stomp.client import StompClient
from mqlab.drivers.stomp.links import VERSION, StompReceiver, StompSender, encode_sends
from mqlab.drivers.stomp.request_reply import StompRequester, StompResponder
from mqlab.wire.stomp.frames import StompFrame, encode_head

_PRELOAD_BATCH = 1000
_CLOSE_TIMEOUT_S = 10.0

StompLink = api.Sender | api.Receiver | api.DriverRequester | api.Responder


class StompDriver(api.Driver):
    """Options: user, password, host (the virtual host), flavour (artemis, activemq, rabbitmq, mqlab)."""

    reports_accepted = True

    async def connect(self, application: str = "") -> api.DriverConnection:
        # Connect once, so that an error shows now and not with the first link.
        name_header = {"application": application} if application else {}
        await (await StompClient.open(self.address, self.options, name_header)).close()
        return StompConnection(self, name_header)


class StompConnection(api.DriverConnection):
    """Each link has its own STOMP connection, because acknowledgements, transactions and receipts belong to one."""

    def __init__(self, driver: StompDriver, name_header: dict[str, str]) -> None:
        self._driver = driver
        self._name_header = name_header
        self._links: list[StompLink] = []
        self._clients: list[StompClient] = []
        # The topic of each durable subscription: RabbitMQ needs it to delete one.
        self._topics: dict[str, str] = {}

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        link = StompSender(await self._client(), destination, persistent=persistent, transacted=transacted)
        self._links.append(link)
        return link

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        link = StompReceiver(await self._client(options.durable), destination, options)
        self._links.append(link)
        if options.durable:
            self._topics[options.durable] = destination
        await link.subscribe()
        return link

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        link = StompRequester(await self._client(), destination, reply_to, persistent=persistent)
        self._links.append(link)
        return link

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        link = StompResponder(await self._client(), destination, prefetch=prefetch, persistent=persistent)
        self._links.append(link)
        await link.subscribe()
        return link

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        await (await self.receiver(topic, options)).close()

    async def unsubscribe(self, durable: str) -> None:
        client = await self._client(durable)
        flavour, topic = client.flavour, self._topics.pop(durable, "")
        if flavour.name == "rabbitmq":
            # RabbitMQ deletes a subscription only over a connection that has subscribed to it.
            headers = flavour.subscribe_headers(topic, 1) | flavour.durable_headers(durable)
            await client.command(StompFrame("SUBSCRIBE", headers))
        await client.command(StompFrame("UNSUBSCRIBE", {"id": "0", **flavour.durable_headers(durable)}))
        await client.close()

    async def preload(self, queue: str, bodies: api.Matrix, *, persistent: bool) -> None:
        client = await self._client()
        head = encode_head("SEND", client.flavour.send_headers(queue, persistent=persistent), VERSION)
        for first in range(0, len(bodies), _PRELOAD_BATCH):
            some = bodies[first : first + _PRELOAD_BATCH]
            steps = np.arange(len(some))
            columns = {
                b"receipt:": client.reserve_receipts(len(some)) + steps,
                b"correlation-id:preload-": first + steps,
            }
            client.write(encode_sends(head, some, columns))
            await client.wait_receipts()
        await client.close()

    async def close(self) -> None:
        links, self._links, clients, self._clients = self._links, [], self._clients, []
        try:
            # A broker that does not answer is not waited for.
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.gather(*(_close_link(link) for link in links))
        except TimeoutError as error:
            raise api.DriverError(f"the broker did not answer within {_CLOSE_TIMEOUT_S:g} s") from error
        finally:
            for client in clients:
                client.abort()

    async def _client(self, client_id: str = "") -> StompClient:
        extra_headers = self._name_header | ({"client-id": client_id} if client_id else {})
        client = await StompClient.open(self._driver.address, self._driver.options, extra_headers)
        self._clients.append(client)
        return client


async def _close_link(link: StompLink) -> None:
    # The role that used the link knows its error already.
    with suppress(api.DriverError):
        await link.close()
