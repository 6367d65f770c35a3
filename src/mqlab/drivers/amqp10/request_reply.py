"""Request and reply over AMQP 1.0: replies are found by a selector on a shared queue, or on one of the requester."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from proton import Message

from mqlab.drivers.amqp10.links import In, Out, taken
from mqlab.drivers.amqp10.messages import addressed, before_body, header, received
from mqlab.drivers.api import DriverError, ReceivedBatch, Reply, Requester, Responder
from mqlab.drivers.common.correlation import prefix_of, selector_for
from mqlab.wire.native.bodies import Bodies

# Opens the receiving end for replies, given a selector for them; and says what address they should be sent to.
Opening = Callable[[str], Awaitable[tuple[In, str]]]


class AmqpRequester(Requester):
    def __init__(self, out: Out, replies: Opening, *, persistent: bool) -> None:
        self._out = out
        self._replies = replies
        self._in: In | None = None
        self._to = ""
        self._selector = ""
        self._header = header(persistent=persistent)
        self._done: list[Any] = []

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        inward = await self._inward(selector_for(prefix_of(correlation_id), correlation_id))
        if self._done:
            done, self._done = self._done, []
            inward.accept(done)
        sections = self._header + addressed(self._to, correlation_id)
        await self._out.send([before_body(len(body), sections) + body], settled=True)
        while True:
            await inward.arrived(is_reply=True)
            data, delivery = inward.inbox.pop(0)
            self._done.append(delivery)
            if _ids(data)[1] == correlation_id:
                return Reply(*received(data))

    async def close(self) -> None:
        if self._in is not None:
            if self._done:
                self._in.accept(self._done)
                self._done = []
            await self._in.close(forget=True)
        await self._out.close()

    async def _inward(self, selector: str) -> In:
        if self._in is None or selector != self._selector:
            if self._in is not None:
                await self._in.close(forget=True)
            self._in, self._to = await self._replies(selector)
            self._selector = selector
        return self._in


class AmqpResponder(Responder):
    """`sending` opens the sending end to an address, once for each."""

    def __init__(self, inward: In, sending: Callable[[str], Awaitable[Out]], *, persistent: bool) -> None:
        self._in = inward
        self._sending = sending
        self._outs: dict[str, Out] = {}
        self._header = header(persistent=persistent)
        self._wanted: list[tuple[str, str]] = []
        self._open: list[Any] = []

    async def receive(self) -> ReceivedBatch:
        inward = self._in
        if self._open:
            done, self._open = self._open, []
            inward.accept(done)
        await inward.arrived()
        raw = [data for data, _ in inward.inbox]
        messages, self._open = taken(inward)
        self._wanted = [_ids(data) for data in raw[: len(messages)]]
        if not all(to and number for to, number in self._wanted):
            raise DriverError("a request does not say where its reply should go, or as what")
        return ReceivedBatch(Bodies.of([message.body for message in messages]), messages[0].redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        by_address: dict[str, list[bytes]] = {}
        for body, (to, number) in zip(bodies, self._wanted, strict=True):
            sections = self._header + addressed("", number)
            by_address.setdefault(to, []).append(before_body(len(body), sections) + body)
        for to, messages in by_address.items():
            out = self._outs.get(to)
            if out is None:
                out = self._outs[to] = await self._sending(to)
            await out.send(messages, settled=not wait)
        if wait:
            for to in by_address:
                await self._outs[to].confirmed()

    async def close(self) -> None:
        if self._open:
            self._in.accept(self._open)
            self._open = []
        for out in self._outs.values():
            await out.close()
        await self._in.close(forget=True)


def _ids(data: bytes) -> tuple[str, str]:
    """Where a reply should go, and as what."""
    message = Message()
    message.decode(data)
    return message.reply_to or "", str(message.correlation_id or "")
