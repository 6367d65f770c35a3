"""Request/reply over Redis.

A persistent request is an entry of a stream, which the responder acknowledges; each requester blocks on a list of its
own for the replies. Other requests are published, which costs no sync: each responder has a channel, each connection
has one for the replies to all its requesters, and a requester uses the responders in turn.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from mqlab.drivers.api import DriverError, DriverRequester, OnReply, Reply, RequestBatch, RequestHandler
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.streams import StreamReader
from mqlab.wire import resp
from mqlab.wire.native.bodies import Bodies

_GLOB_CHARACTERS = re.compile(rb"([*?\[\]\\])")
NO_ADDRESS: Final = "a request has no reply address or no correlation id"
# Replies to requests that are not persistent, before the responder waits.
_MAX_UNCONFIRMED: Final = 1000


class ReplyChannel:
    """The channel for the replies to all requesters of a connection. A reply is `TOKEN BODY`."""

    def __init__(self) -> None:
        self.channel = b"replies:" + secrets.token_hex(8).encode()
        self.client = RedisClient(self._published)
        self.client.on_lost(self._connection_lost)
        self._tokens = count()
        self._waiting: dict[bytes, OnReply] = {}

    def expect(self, on_reply: OnReply) -> bytes:
        """Return a token for the next request."""
        token = b"%d" % next(self._tokens)
        self._waiting[token] = on_reply
        return token

    def forget(self, token: bytes) -> bool:
        """Return whether the reply has not come yet."""
        return self._waiting.pop(token, None) is not None

    def _published(self, bodies: Bodies) -> None:
        for body in bodies.tolist():
            token, _, answer = body.partition(b" ")
            on_reply = self._waiting.pop(token, None)
            if on_reply is not None:
                on_reply(Reply(answer, False))

    def _connection_lost(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for on_reply in waiting.values():
            on_reply(DriverError(reason))


class PubSubRequester(DriverRequester):
    """`client` never blocks, so other roles can share it."""

    def __init__(self, client: RedisClient, replies: ReplyChannel, destination: str) -> None:
        self._client = client
        self._replies = replies
        self._pattern = _GLOB_CHARACTERS.sub(rb"\\\1", responder_prefix(destination)) + b"*"
        self._responders: list[bytes] = []
        self._turn = 0
        self._pending = PendingReply(lambda: replies.forget(self._token))
        client.on_lost(lambda reason: self._pending.settle(DriverError(reason)))
        self._token = b""

    async def open(self) -> None:
        """Look up the channels of the responders."""
        self._responders = _channels(await self._client.call(b"PUBSUB", b"CHANNELS", self._pattern))

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        try:
            if self._responders:
                self._publish(body, lambda: self._look_up(body))
            else:
                self._look_up(body)
        except DriverError as error:
            self._pending.fail(error)

    def _look_up(self, body: bytes) -> None:
        """The known responders are gone: look up others, and ask one of them."""

        def found(replies: list[resp.Value]) -> None:
            self._responders = _channels(replies[0])
            if self._responders:
                self._publish(body, self._refuse)
            else:
                self._refuse()

        self._client.write(resp.command(b"PUBSUB", b"CHANNELS", self._pattern), 1, found)

    def _publish(self, body: bytes, if_gone: Callable[[], None]) -> None:
        """`if_gone` is called if no responder has received the request."""
        self._turn += 1
        token = self._token = self._replies.expect(self._pending.settle)

        def delivered(replies: list[resp.Value]) -> None:
            # PUBLISH returns the number of receivers. The reply may come before it.
            [receivers] = replies
            if isinstance(receivers, resp.ErrorReply):
                if self._replies.forget(token):
                    self._pending.settle(DriverError(f"Redis refused: {receivers.words}"))
            elif receivers == 0 and self._replies.forget(token):
                if_gone()

        to = self._responders[self._turn % len(self._responders)]
        message = b"%s %s %s" % (self._replies.channel, token, body)
        self._client.write(resp.command(b"PUBLISH", to, message), 1, delivered)

    def _refuse(self) -> None:
        self._responders = []
        request = self._pending.correlation_id
        self._pending.settle(DriverError(f"no responder is there for the request {request}"))

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()


def _channels(names: resp.Value) -> list[bytes]:
    return sorted(name for name in names if isinstance(name, bytes)) if isinstance(names, list) else []


class PubSubResponder(CallbackResponder):
    """`client` subscribes to the channel of this responder; replies go over `control`."""

    def __init__(self, control: RedisClient, destination: str, capacity: int) -> None:
        super().__init__(persistent=False)
        self.channel = responder_prefix(destination) + secrets.token_hex(8).encode()
        self.client = RedisClient(self._published)
        self._inbox: Inbox[bytes] = Inbox(capacity, self.client.pause_reading, self.client.resume_reading)
        self._inbox.on_arrival = self.arrived
        self.client.on_lost(self._inbox.fail)
        self._reply_sender = _ReplySender(control, b"PUBLISH")
        self._reply_addresses: list[bytes] = []

    def take_requests(self) -> RequestBatch | None:
        """A request is `CHANNEL TOKEN BODY`."""
        arrived = self._inbox.take_arrived()
        if arrived is None:
            return None
        parts = [request.split(b" ", 2) for request in arrived.bodies.tolist()]
        if any(len(part) != 3 for part in parts):
            raise DriverError(NO_ADDRESS)
        self._reply_addresses = [b"%s %s" % (channel, token) for channel, token, _ in parts]
        return RequestBatch([body for _, _, body in parts], arrived.redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        return self._reply_sender.send(self._reply_addresses, bodies)

    async def wait_sent(self) -> None:
        await self._reply_sender.wait_sent()

    async def close(self) -> None:
        await self._reply_sender.confirmed()
        await self.client.close()

    def _published(self, bodies: Bodies) -> None:
        self._inbox.put(bodies, [])


class StreamRequester(DriverRequester):
    """`client` blocks until the reply comes."""

    def __init__(self, client: RedisClient, destination: str, reply_to: str) -> None:
        self._client = client
        self._key = destination.encode()
        self._replies = f"{reply_to}:{secrets.token_hex(8)}".encode()
        self._wait = resp.command(b"BLPOP", self._replies, b"0")
        self._pending = PendingReply()
        client.on_lost(lambda reason: self._pending.settle(DriverError(reason)))

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        try:
            if " " in correlation_id or "\n" in correlation_id:
                raise DriverError(f"{correlation_id!r} contains a blank or a line end")
            to = f"{self._replies.decode()} {correlation_id}".encode()
            send = resp.command(b"XADD", self._key, b"*", b"r", to, b"b", body)
            self._client.write(send + self._wait, 2, self._answered)
        except DriverError as error:
            self._pending.fail(error)

    def _answered(self, replies: list[resp.Value]) -> None:
        """Replies to commands: the entry's id, and what BLPOP has waited for."""
        for reply in replies:
            if isinstance(reply, resp.ErrorReply):
                self._pending.settle(DriverError(f"Redis refused: {reply.words}"))
            elif isinstance(reply, list) and isinstance(reply[1], bytes):
                correlation, _, answer = reply[1].partition(b" ")
                if correlation == self._pending.correlation_id.encode():
                    self._pending.settle(Reply(answer, False))
                else:
                    # A late reply to an earlier request that failed came first.
                    self._client.write(self._wait, 1, self._answered)

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        await self._client.close()


class _ReplySender:
    """Sends each reply to the list (RPUSH) or channel (PUBLISH) of its requester, and counts the confirmations."""

    def __init__(self, client: RedisClient, verb: bytes) -> None:
        self._client = client
        self._verb = verb
        self._confirmations = ConfirmationCounter()
        self.confirmed = self._confirmations.wait_confirmed
        client.on_lost(self._confirmations.fail)

    def send(self, addresses: list[bytes], bodies: Sequence[bytes]) -> bool:
        """Return whether more replies may follow at once."""
        commands = []
        for to, body in zip(addresses, bodies, strict=True):
            replies, blank, correlation = to.partition(b" ")
            if not blank:
                raise DriverError(NO_ADDRESS)
            commands.append(resp.command(self._verb, replies, b"%s %s" % (correlation, body)))
        self._confirmations.count_sent(len(commands))
        self._client.write_counted(b"".join(commands), len(commands), self._confirmations)
        return not self._client.is_write_paused and self._confirmations.unconfirmed <= _MAX_UNCONFIRMED

    async def wait_sent(self) -> None:
        """Return when more replies may follow."""
        await self.confirmed(_MAX_UNCONFIRMED)
        await self._client.wait_writable()


class StreamResponder(CallbackResponder):
    """Replies go over `client`; the reader's client blocks for requests."""

    def __init__(self, client: RedisClient, inbox: Inbox[bytes], reader: StreamReader) -> None:
        super().__init__(persistent=True)
        self._client = client
        self._reply_sender = _ReplySender(client, b"RPUSH")
        self._inbox = inbox
        inbox.on_arrival = self.arrived
        self._reader = reader
        # The entry id and the reply address of each request of the last batch.
        self._requests: list[tuple[bytes, bytes]] = []

    def start(self, handler: RequestHandler) -> None:
        super().start(handler)
        self._reader.read_next([])

    def take_requests(self) -> RequestBatch | None:
        arrived = self._inbox.take_arrived()
        if arrived is None:
            return None
        bodies, tags, redelivered = arrived
        self._requests = []
        for tag in tags:
            number, _, to = tag.partition(b" ")
            self._requests.append((number, to))
        return RequestBatch(bodies.tolist(), redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        self._reply_sender.send([to for _, to in self._requests], bodies)
        return False

    async def wait_sent(self) -> None:
        await self._reply_sender.confirmed()
        done, self._requests = [number for number, _ in self._requests], []
        self._reader.read_next(done)

    async def close(self) -> None:
        await self._reply_sender.confirmed()
        await self._reader.close([number for number, _ in self._requests])
        await self._client.close()


def responder_prefix(destination: str) -> bytes:
    return f"responders:{destination}:".encode()
