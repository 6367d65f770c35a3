"""What a role holds of an AMQP 1.0 connection to send or to receive."""

import itertools
from typing import Any, Final, Protocol

import numpy as np
from proton import Delivery, Endpoint, Link

from mqlab.drivers.amqp10.engine import Engine
from mqlab.drivers.amqp10.messages import Received, before_body, header, properties_section, received
from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, ReceiverOptions, Sender
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, next_message
from mqlab.wire.native.bodies import Bodies

# More is not given to the engine before the broker has room for it.
_AT_ONCE: Final = 256
_ACCEPTED_WITHIN: Final = 0x34


class Within(Protocol):
    """A transaction of a link's session."""

    async def begin(self) -> None: ...
    def send(self, delivery: Any) -> None: ...
    def accept(self, delivery: Any) -> None: ...
    async def commit(self) -> None: ...


class Out:
    """The sending end of a link."""

    def __init__(self, engine: Engine, link: Any) -> None:
        self.engine = engine
        self.link = link
        self._tags = itertools.count()
        self._unconfirmed = 0
        self._refused = ""
        self._asking: Any = None
        self.gone = False
        link.context = self

    async def opened(self) -> None:
        await opened(self.engine, self.link)

    async def send(self, messages: list[bytes], *, settled: bool, within: Within | None = None) -> None:
        """Returns when all are on their way."""
        engine, link = self.engine, self.link
        at = 0
        while at < len(messages):
            credit = min(link.credit - link.queued, _AT_ONCE)
            if credit <= 0:
                engine.pump()
                await engine.until(lambda: link.credit - link.queued > 0, BLOCKED_TIMEOUT_S)
                continue
            for message in messages[at : at + credit]:
                delivery = link.delivery(str(next(self._tags)))
                link.stream(message)
                link.advance()
                if within is not None:
                    within.send(delivery)
                if settled:
                    delivery.settle()
                else:
                    self._unconfirmed += 1
            at += credit
            engine.pump()
            await engine.writable()

    async def confirmed(self) -> None:
        """When everything that was sent unsettled is confirmed."""
        await self.engine.until(lambda: self._unconfirmed == 0 or bool(self._refused), BLOCKED_TIMEOUT_S)
        if self._refused:
            raise DriverError(self._refused)

    async def answer(self, message: bytes) -> Any:
        """A message to which the state of its delivery is the answer."""
        await self.engine.until(lambda: self.link.credit > 0)
        delivery = self._asking = self.link.delivery(str(next(self._tags)))
        self.link.stream(message)
        self.link.advance()
        self.engine.pump()
        await self.engine.until(lambda: bool(delivery.remote_state))
        delivery.settle()
        return delivery

    def delivered(self, delivery: Any) -> None:
        if not delivery.updated or delivery == self._asking:
            return
        if delivery.remote_state not in (Delivery.ACCEPTED, _ACCEPTED_WITHIN):
            self._refused = f"the broker did not take a message ({delivery.remote_state})"
        self._unconfirmed -= 1
        delivery.settle()

    async def close(self) -> None:
        await closed(self.engine, self.link)


class In:
    """The receiving end: what came and was not taken, and what was taken and is not settled."""

    def __init__(self, engine: Engine, link: Any, prefetch: int) -> None:
        self.engine = engine
        self.link = link
        self.inbox: list[tuple[bytes, Any]] = []
        self._prefetch = prefetch
        self.gone = False
        link.context = self

    async def opened(self) -> None:
        await opened(self.engine, self.link)
        self.link.flow(self._prefetch)
        self.engine.pump()

    def delivered(self, delivery: Any) -> None:
        if delivery.readable and not delivery.partial:
            self.inbox.append((self.link.recv(delivery.pending) or b"", delivery))
            self.link.advance()

    async def arrived(self, *, is_reply: bool = False) -> None:
        if not self.inbox:
            await next_message(self.engine.whenever(lambda: bool(self.inbox)), is_reply=is_reply)

    def accept(self, deliveries: list[Any]) -> None:
        """These are done, and there is room for as many more."""
        self.engine.check()
        for delivery in deliveries:
            delivery.update(Delivery.ACCEPTED)
        self.settle(deliveries)

    def settle(self, deliveries: list[Any]) -> None:
        for delivery in deliveries:
            delivery.settle()
        self.link.flow(len(deliveries))
        self.engine.pump()

    async def close(self, *, forget: bool) -> None:
        """`forget`: what it stands for ends as well, such as a durable subscription."""
        if forget:
            await closed(self.engine, self.link)
        else:
            await left(self.engine, self.link)


class AmqpSender(Sender):
    def __init__(self, out: Out, transactions: Within | None, *, persistent: bool) -> None:
        self._out = out
        self._transactions = transactions
        self._header = header(persistent=persistent)

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        rows, size = bodies.shape
        data = np.ascontiguousarray(bodies).tobytes()
        bodies_of = [data[at : at + size] for at in range(0, rows * size, size)]
        if properties is None:
            before = before_body(size, self._header)
            messages = [before + body for body in bodies_of]
        else:
            columns = [(name, values.tolist()) for name, values in properties.items()]
            sections = [
                self._header + properties_section([(name, values[row]) for name, values in columns])
                for row in range(rows)
            ]
            messages = [before_body(size, some) + body for some, body in zip(sections, bodies_of, strict=True)]
        if self._transactions is not None:
            await self._transactions.begin()
        settled = not wait and self._transactions is None
        await self._out.send(messages, settled=settled, within=self._transactions)
        if wait:
            await self._out.confirmed()

    async def commit(self) -> None:
        if self._transactions is not None:
            await self._out.confirmed()
            await self._transactions.commit()

    async def close(self) -> None:
        await self._out.close()


class AmqpReceiver(Receiver):
    def __init__(self, inward: In, how: ReceiverOptions, transactions: Within | None) -> None:
        self._in = inward
        self._how = how
        self._transactions = transactions
        self._open: list[Any] = []
        self._lazy = how.prefetch // 2 if how.acknowledge == "dups_ok" else 0

    async def receive(self) -> ReceivedBatch:
        inward = self._in
        if self._open and not self._transactions and (len(self._open) > self._lazy or not inward.inbox):
            done, self._open = self._open, []
            inward.accept(done)
        await inward.arrived()
        messages, deliveries = taken(inward)
        self._open += deliveries
        return ReceivedBatch(Bodies.of([message.body for message in messages]), messages[0].redelivered)

    async def commit(self) -> None:
        if self._transactions is None or not self._open:
            return
        done, self._open = self._open, []
        await self._transactions.begin()
        for delivery in done:
            self._transactions.accept(delivery)
        await self._transactions.commit()
        self._in.settle(done)

    async def close(self) -> None:
        # A client that says when it is done, by asking for more, has not said so.
        if self._open and self._how.acknowledge in ("auto", "dups_ok"):
            self._in.accept(self._open)
        self._open = []
        await self._in.close(forget=not self._how.durable)
        if self._how.durable:
            # A container is connected once; the next who wants the subscription is another connection.
            await self._in.engine.close()


def taken(inward: In) -> tuple[list[Received], list[Any]]:
    """Takes what came first and all that is like it: come again, or not."""
    messages = [received(data) for data, _ in inward.inbox]
    again = messages[0].redelivered
    count = next((at for at, message in enumerate(messages) if message.redelivered != again), len(messages))
    deliveries = [delivery for _, delivery in inward.inbox[:count]]
    del inward.inbox[:count]
    return messages[:count], deliveries


async def opened(engine: Engine, link: Link) -> None:
    link.open()
    engine.pump()
    await engine.until(lambda: bool(link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED)))
    if link.state & Endpoint.REMOTE_CLOSED:
        engine.check()
        raise DriverError("the broker refused a link")


async def closed(engine: Engine, link: Link) -> None:
    if link.state & Endpoint.LOCAL_ACTIVE:
        link.close()
        engine.pump()
        # The answer comes behind all that was sent.
        await engine.until(lambda: bool(link.state & Endpoint.REMOTE_CLOSED) or link.context.gone, BLOCKED_TIMEOUT_S)


async def left(engine: Engine, link: Link) -> None:
    """The link goes, what it stands for stays."""
    if link.state & Endpoint.LOCAL_ACTIVE:
        link.context.gone = True
        link.detach()
        engine.pump()
