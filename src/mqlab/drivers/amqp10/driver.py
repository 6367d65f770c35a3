"""AMQP 1.0 through Proton's engine, to any broker that speaks it; option `flavour`: which one."""

import asyncio
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from proton import Described, Terminus, symbol

from mqlab.drivers.amqp10.engine import Engine
from mqlab.drivers.amqp10.links import AmqpReceiver, AmqpSender, In, Out
from mqlab.drivers.amqp10.messages import addressed, before_body, header
from mqlab.drivers.amqp10.request_reply import AmqpRequester, AmqpResponder
from mqlab.drivers.amqp10.transactions import Transactions
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

_CLOSE_SECONDS = 10.0
_FILTER: Final = symbol("apache.org:selector-filter:string")


@dataclass(frozen=True)
class Flavour:
    """How a broker names destinations, and whether it knows selectors. Without, each requester has its own queue."""

    queue: str = "{}"
    topic: str = "{}"
    selectors: bool = True


FLAVOURS: Final = {
    "artemis": Flavour(),
    "activemq": Flavour("queue://{}", "topic://{}"),
    "rabbitmq": Flavour("/queue/{}", "/topic/{}", selectors=False),
    "qpid": Flavour("{}", "amq.topic/{}"),
}


class Amqp10Driver(Driver):
    """Options: user, password, flavour (artemis, activemq, rabbitmq, qpid; else as artemis)."""

    async def connect(self, application: str = "") -> Connection:
        chosen = self.options.get("flavour", "artemis")
        if chosen not in FLAVOURS:
            raise DriverError(f"flavour: {chosen!r} is none of {', '.join(FLAVOURS)}")
        engine = await self.engine(f"{application or 'mqlab'}-{os.getpid()}-{next(_numbers)}")
        return Amqp10Connection(self, engine, FLAVOURS[chosen])

    async def engine(self, container: str) -> Engine:
        return await Engine.open(
            self.address, container, self.options.get("user", ""), self.options.get("password", "")
        )


_numbers = itertools.count(1)


class Amqp10Connection(Connection):
    """Each link has a session of its own; a durable subscription a connection, since it belongs to a container."""

    def __init__(self, driver: Amqp10Driver, engine: Engine, flavour: Flavour) -> None:
        self._driver = driver
        self._engines = [engine]
        self._flavour = flavour
        self._links = itertools.count(1)
        self._durable: dict[str, str] = {}

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        out = await self._out(self._address(destination), destination)
        return AmqpSender(out, await self._transactions(out) if transacted else None, persistent=persistent)

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        inward = await self._in(destination, how)
        return AmqpReceiver(inward, how, await self._transactions(inward) if how.acknowledge == "transacted" else None)

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        async def replies(selector: str) -> tuple[In, str]:
            if self._flavour.selectors:
                return await self._in(reply_to, ReceiverOptions(1, selector=selector)), self._address(reply_to)
            # RabbitMQ makes no queue with a name of its own choice.
            own = f"{reply_to}.{uuid4().hex}"
            return await self._in(own, ReceiverOptions(1)), self._address(own)

        return AmqpRequester(await self._out(self._address(destination), destination), replies, persistent=persistent)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        inward = await self._in(destination, ReceiverOptions(prefetch))
        return AmqpResponder(inward, lambda address: self._out(address, "queue:"), persistent=persistent)

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        await (await self.receiver(topic, how)).close()

    async def unsubscribe(self, durable: str) -> None:
        inward = await self._in(self._durable.pop(durable, ""), ReceiverOptions(0, durable=durable))
        await inward.close(forget=True)
        await inward.engine.close()

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        out = await self._out(self._address(queue), queue)
        begin = header(persistent=persistent)
        messages = [
            before_body(len(body), begin + addressed("", f"preload-{number}")) + body.tobytes()
            for number, body in enumerate(bodies)
        ]
        await out.send(messages, settled=False)
        await out.confirmed()
        await out.close()

    async def close(self) -> None:
        engines, self._engines = self._engines, []
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                for engine in engines:
                    with suppress(DriverError):
                        await engine.close()
        except TimeoutError as error:
            raise DriverError(f"the broker did not answer within {_CLOSE_SECONDS:g} s") from error
        finally:
            for engine in engines:
                engine.abort()

    def _address(self, destination: str) -> str:
        kind, _, name = destination.partition(":")
        return (self._flavour.topic if kind == "topic" else self._flavour.queue).format(name)

    async def _transactions(self, end: In | Out) -> Transactions:
        return await Transactions.open(end.engine, end.link.session, f"transactions-{next(self._links)}")

    async def _out(self, address: str, destination: str) -> Out:
        engine = self._engines[0]
        session = engine.connection.session()
        session.open()
        link = session.sender(f"out-{next(self._links)}")
        link.target.address = address
        _capable(link.target, destination)
        out = Out(engine, link)
        await out.opened()
        return out

    async def _in(self, destination: str, how: ReceiverOptions) -> In:
        engine = self._engines[0]
        if how.durable:
            engine = await self._driver.engine(how.durable)
            self._engines.append(engine)
            self._durable[how.durable] = destination
        session = engine.connection.session()
        session.open()
        link = session.receiver(how.durable or f"in-{next(self._links)}")
        link.source.address = self._address(destination)
        _capable(link.source, destination)
        if how.durable:
            link.source.durability, link.source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
        if how.selector:
            link.source.filter.put_dict({symbol("jms-selector"): Described(_FILTER, how.selector)})
        inward = In(engine, link, how.prefetch)
        await inward.opened()
        return inward


def _capable(terminus: Any, destination: str) -> None:
    kind = destination.partition(":")[0]
    if kind in ("queue", "topic"):
        terminus.capabilities.put_object(symbol(kind))
