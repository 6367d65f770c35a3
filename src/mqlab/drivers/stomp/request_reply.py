"""Request/reply over STOMP: a requester gets its replies by a selector, or from a temporary queue of its own."""

from collections.abc import Sequence

from mqlab.drivers.api import DriverError, DriverRequester, OnReply, ReceiverOptions, Reply, RequestBatch
from mqlab.drivers.common.correlation import prefix_of, selector_for
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.drivers.stomp.client import StompClient
from mqlab.drivers.stomp.links import VERSION, StompReceiver, ack_of, take_messages
from mqlab.wire.stomp.frames import StompFrame, encode, encode_head, escape
from mqlab.wire.stomp.runs import FrameRun


class StompRequester(DriverRequester):
    """Subscribes to the reply queue with a selector that matches the replies to all its requests."""

    def __init__(self, client: StompClient, destination: str, reply_to: str, *, persistent: bool) -> None:
        self._client = client
        self._reply_to = reply_to
        flavour = client.flavour
        address = flavour.destination(reply_to) if flavour.selectors else flavour.own_replies
        headers = flavour.send_headers(destination, persistent=persistent) | {"reply-to": address}
        self._head = encode_head("SEND", headers, VERSION)
        # The selector of the current subscription; the ACK frame for the last reply.
        self._selector = ""
        self._ack = b""
        self._pending = PendingReply()
        client.on_event = self._arrived

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        selector = selector_for(prefix_of(correlation_id), correlation_id)
        before, self._ack = self._ack, b""
        if selector != self._selector and self._client.flavour.selectors:
            before += self._subscription(selector)
        encoded_id = escape(correlation_id, VERSION).encode()
        parts = (before, self._head, encoded_id, len(body), body)
        try:
            self._client.write(b"%b%bcorrelation-id:%b\ncontent-length:%d\n\n%b\0" % parts)
        except DriverError as error:
            self._pending.fail(error)

    def _arrived(self) -> None:
        client, pending = self._client, self._pending
        try:
            while client.inbox:
                reply = _pop_first(client)
                if "ack" in reply.headers:
                    self._ack += b"ACK\nid:%b\n\n\0" % ack_of(reply)
                if reply.headers.get("correlation-id") == pending.correlation_id:
                    pending.settle(Reply(reply.body, reply.headers.get("redelivered") == "true"))
            client.check()
        except DriverError as error:
            pending.settle(error)

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        await self._client.close(self._ack)

    def _subscription(self, selector: str) -> bytes:
        old = b"UNSUBSCRIBE\nid:0\n\n\0" if self._selector else b""
        headers = self._client.flavour.subscribe_headers(self._reply_to, 1, selector)
        self._selector = selector
        return old + encode(StompFrame("SUBSCRIBE", headers), VERSION)


class StompResponder(CallbackResponder):
    def __init__(self, client: StompClient, destination: str, *, prefetch: int, persistent: bool) -> None:
        super().__init__(persistent=persistent)
        self._client = client
        client.on_event = self.arrived
        self._receiver = StompReceiver(client, destination, ReceiverOptions(prefetch))
        self._heads: dict[str, bytes] = {}
        # The reply address and correlation id of each request of the last batch; the ACK frame for all of them.
        self._reply_addresses: list[tuple[str, bytes]] = []
        self._ack = b""

    async def subscribe(self) -> None:
        await self._receiver.subscribe()

    def take_requests(self) -> RequestBatch | None:
        client = self._client
        if not client.inbox:
            client.check()
            return None
        messages = take_messages(client)
        requests = [request for message in messages for request in _frames(message)]
        self._reply_addresses = [_reply_address(request) for request in requests]
        self._ack = b"ACK\nid:%b\n\n\0" % ack_of(messages[-1])
        return RequestBatch([request.body for request in requests], messages[0].headers.get("redelivered") == "true")

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        client = self._client
        frames = []
        each = client.flavour.receipts == "each"
        for row, (body, (to, encoded_id)) in enumerate(zip(bodies, self._reply_addresses, strict=True)):
            needs_receipt = self._persistent and (each or row == len(bodies) - 1)
            receipt = b"receipt:%d\n" % client.reserve_receipts() if needs_receipt else b""
            headers = (self._head(to), receipt, encoded_id, len(body), body)
            frames.append(b"%b%bcorrelation-id:%b\ncontent-length:%d\n\n%b\0" % headers)
        if not self._persistent:
            # The broker reads the ACK after the replies, so one write is enough for both.
            frames.append(self._ack)
            self._ack = b""
        client.write(b"".join(frames))
        return not self._persistent and not client.is_write_paused

    async def wait_sent(self) -> None:
        if self._persistent:
            await self._client.wait_receipts()
            self._client.write(self._ack)
            self._ack = b""
        else:
            await self._client.wait_writable()

    async def close(self) -> None:
        await self._client.close(self._ack)

    def _head(self, to: str) -> bytes:
        head = self._heads.get(to)
        if head is None:
            headers = self._client.flavour.reply_headers(to, persistent=self._persistent)
            head = self._heads[to] = encode_head("SEND", headers, VERSION)
        return head


def _pop_first(client: StompClient) -> StompFrame:
    """Take the first message of the inbox; the others of its run go back."""
    first, *others = _frames(client.inbox.pop(0))
    client.inbox[:0] = others
    return first


def _frames(message: StompFrame | FrameRun) -> list[StompFrame]:
    return message.frames() if isinstance(message, FrameRun) else [message]


def _reply_address(request: StompFrame) -> tuple[str, bytes]:
    to, correlation_id = request.headers.get("reply-to"), request.headers.get("correlation-id")
    if not to or not correlation_id:
        raise DriverError("a request has no reply address or no correlation id")
    return to, escape(correlation_id, VERSION).encode()
