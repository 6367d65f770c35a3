"""Request/reply over AMQP 1.0: a requester gets its replies by a selector, or from a reply queue of its own."""

from collections.abc import Awaitable, Callable, Sequence

from proton import Delivery, Message

from mqlab.drivers.amqp10.links import ReceivingLink, SendingLink, take_messages
from mqlab.drivers.amqp10.messages import decode, encode_before_body, encode_header, encode_message_properties
from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.correlation import prefix_of, selector_for
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.wire.native.bodies import Bodies

# Opens the link for the replies that a selector matches, and returns it with their address.
OpenReplyLink = Callable[[str], Awaitable[tuple[ReceivingLink, str]]]


class Amqp10Requester(CoroutineRequester):
    def __init__(self, sending: SendingLink, open_reply_link: OpenReplyLink, *, persistent: bool) -> None:
        self._sending = sending
        self._open_reply_link = open_reply_link
        self._receiving: ReceivingLink | None = None
        self._to = ""
        self._selector = ""
        self._header = encode_header(persistent=persistent)
        self._unsettled: list[Delivery] = []

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        receiving = await self._reply_link(selector_for(prefix_of(correlation_id), correlation_id))
        if self._unsettled:
            done, self._unsettled = self._unsettled, []
            receiving.accept(done)
        sections = self._header + encode_message_properties(self._to, correlation_id)
        await self._sending.send([encode_before_body(len(body), sections) + body], settled=True)
        while True:
            if not receiving.inbox:
                await with_timeout(receiving.wait_message(), BLOCKED_TIMEOUT_S, NO_REPLY)
            data, delivery = receiving.inbox.pop(0)
            self._unsettled.append(delivery)
            if _reply_address(data)[1] == correlation_id:
                return Reply(*decode(data))

    async def close(self) -> None:
        if self._receiving is not None:
            if self._unsettled:
                self._receiving.accept(self._unsettled)
                self._unsettled = []
            await self._receiving.close()
        await self._sending.close()

    async def _reply_link(self, selector: str) -> ReceivingLink:
        if self._receiving is None or selector != self._selector:
            if self._receiving is not None:
                await self._receiving.close()
            self._receiving, self._to = await self._open_reply_link(selector)
            self._selector = selector
        return self._receiving


class Amqp10Responder(CoroutineResponder):
    """`open_link` opens the sending link to a reply address, once for each."""

    def __init__(
        self, receiving: ReceivingLink, open_link: Callable[[str], Awaitable[SendingLink]], *, persistent: bool
    ) -> None:
        self.confirms = persistent
        self._receiving = receiving
        self._open_link = open_link
        self._reply_links: dict[str, SendingLink] = {}
        self._header = encode_header(persistent=persistent)
        self._reply_addresses: list[tuple[str, str]] = []
        self._unsettled: list[Delivery] = []

    async def receive(self) -> ReceivedBatch:
        receiving = self._receiving
        if self._unsettled:
            done, self._unsettled = self._unsettled, []
            receiving.accept(done)
        await receiving.wait_message()
        raw = [data for data, _ in receiving.inbox]
        messages, self._unsettled = take_messages(receiving)
        self._reply_addresses = [_reply_address(data) for data in raw[: len(messages)]]
        if not all(to and correlation_id for to, correlation_id in self._reply_addresses):
            raise DriverError("a request has no reply address or no correlation id")
        return ReceivedBatch(Bodies.of([message.body for message in messages]), messages[0].redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        by_address: dict[str, list[bytes]] = {}
        for body, (to, correlation_id) in zip(bodies, self._reply_addresses, strict=True):
            sections = self._header + encode_message_properties("", correlation_id)
            by_address.setdefault(to, []).append(encode_before_body(len(body), sections) + body)
        for to, messages in by_address.items():
            sending = self._reply_links.get(to)
            if sending is None:
                sending = self._reply_links[to] = await self._open_link(to)
            await sending.send(messages, settled=not wait)
        if wait:
            for to in by_address:
                await self._reply_links[to].wait_confirmed()

    async def close(self) -> None:
        if self._unsettled:
            self._receiving.accept(self._unsettled)
            self._unsettled = []
        for sending in self._reply_links.values():
            await sending.close()
        await self._receiving.close()


def _reply_address(data: bytes) -> tuple[str, str]:
    """Decode the reply address and correlation id."""
    message = Message()
    message.decode(data)
    return message.reply_to or "", str(message.correlation_id or "")
