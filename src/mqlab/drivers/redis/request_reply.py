"""Request/reply over Redis.

A persistent request is an entry of a stream, which the responder acknowledges; each requester blocks on a list of its
own for the replies. Other requests are published, which costs no sync: each responder has a channel, each connection
has one for the replies to all its requesters, and a requester uses the responders in turn.
"""

import asyncio
import re
import secrets
from collections.abc import Sequence
from functools import partial
from itertools import count

import numpy as np

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.streams import StreamReader
from mqlab.wire import resp
from mqlab.wire.equal_frames import bodies_at
from mqlab.wire.native.bodies import Bodies

_GLOB_CHARACTERS = re.compile(rb"([*?\[\]\\])")


class ReplyChannel:
    """The channel for the replies to all requesters of a connection. A reply is `TOKEN BODY`."""

    def __init__(self) -> None:
        self.channel = b"replies:" + secrets.token_hex(8).encode()
        self.client = RedisClient(self._published)
        self.client.on_lost(self._connection_lost)
        self._tokens = count()
        self._waiting: dict[bytes, asyncio.Future[bytes | None]] = {}

    def expect(self) -> "tuple[bytes, asyncio.Future[bytes | None]]":
        """Return a token for the next request and a future for its reply, which is None if no responder got it."""
        token = b"%d" % next(self._tokens)
        reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = reply
        return token, reply

    def forget(self, token: bytes) -> None:
        self._waiting.pop(token, None)

    def _published(self, bodies: Bodies) -> None:
        for body in bodies.tolist():
            token, _, answer = body.partition(b" ")
            settle(self._waiting.get(token), answer)

    def _connection_lost(self, reason: str) -> None:
        fail_all(self._waiting.values(), DriverError(reason))


class PubSubRequester(CoroutineRequester):
    """`client` never blocks, so other roles can share it."""

    def __init__(self, client: RedisClient, replies: ReplyChannel, destination: str) -> None:
        self._client = client
        self._replies = replies
        self._pattern = _GLOB_CHARACTERS.sub(rb"\\\1", responder_prefix(destination)) + b"*"
        self._responders: list[bytes] = []
        self._turn = 0

    async def open(self) -> None:
        """Look up the channels of the responders."""
        names = await self._client.call(b"PUBSUB", b"CHANNELS", self._pattern)
        self._responders = sorted(name for name in names if isinstance(name, bytes)) if isinstance(names, list) else []

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        for _ in range(2):
            if not self._responders:
                await self.open()
            if not self._responders:
                break
            self._turn += 1
            token, reply = self._replies.expect()
            try:
                to = self._responders[self._turn % len(self._responders)]
                message = b"%s %s %s" % (self._replies.channel, token, body)
                delivered = self._client.submit(resp.command(b"PUBLISH", to, message))
                delivered.add_done_callback(partial(_delivered, reply))
                answer = await with_timeout(reply, BLOCKED_TIMEOUT_S, NO_REPLY)
                if answer is not None:
                    return Reply(answer, False)
                self._responders = []
            finally:
                self._replies.forget(token)
        raise DriverError(f"no responder is there for the request {correlation_id}")

    async def close(self) -> None:
        """A requester has nothing to release."""


def _delivered(reply: "asyncio.Future[bytes | None]", receivers: "asyncio.Future[resp.Value]") -> None:
    """PUBLISH returns the number of receivers. The reply may come before it."""
    if reply.done() or receivers.cancelled():
        return
    error = receivers.exception()
    if error is not None:
        reply.set_exception(error)
    elif receivers.result() == 0:
        reply.set_result(None)


class PubSubResponder(CoroutineResponder):
    """`client` subscribes to the channel of this responder; replies go over `control`."""

    def __init__(self, control: RedisClient, destination: str, capacity: int) -> None:
        self.channel = responder_prefix(destination) + secrets.token_hex(8).encode()
        self.client = RedisClient(self._published)
        self._inbox: Inbox[bytes] = Inbox(capacity, self.client.pause_reading, self.client.resume_reading)
        self.client.on_lost(self._inbox.fail)
        self._reply_sender = _ReplySender(control, b"PUBLISH")
        self._requests: list[bytes] = []

    async def receive(self) -> ReceivedBatch:
        bodies, self._requests, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        await self._reply_sender.send(self._requests, bodies)
        if wait:
            await self._reply_sender.confirmed()

    async def close(self) -> None:
        await self._reply_sender.confirmed()
        await self.client.close()

    def _published(self, bodies: Bodies) -> None:
        """A request is `CHANNEL TOKEN BODY`."""
        requests = bodies.tolist()
        begins = [request.find(b" ", request.find(b" ") + 1) + 1 for request in requests]
        to = [request[: begin - 1] for request, begin in zip(requests, begins, strict=True)]
        places = [int(offset) + begin for offset, begin in zip(bodies.offsets[:-1], begins, strict=True)]
        sizes = [len(request) - begin for request, begin in zip(requests, begins, strict=True)]
        self._inbox.put(bodies_at(np.ascontiguousarray(bodies.data), places, sizes), to)


class StreamRequester(CoroutineRequester):
    """`client` blocks until the reply comes."""

    def __init__(self, client: RedisClient, destination: str, reply_to: str) -> None:
        self._client = client
        self._key = destination.encode()
        self._replies = f"{reply_to}:{secrets.token_hex(8)}".encode()

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        expected = correlation_id.encode()
        if b" " in expected or b"\n" in expected:
            raise DriverError(f"{correlation_id!r} contains a blank or a line end")
        to = b"%s %s" % (self._replies, expected)
        send = resp.command(b"XADD", self._key, b"*", b"r", to, b"b", body)
        wait = resp.command(b"BLPOP", self._replies, b"0")
        popped = await with_timeout(self._client.submit(send + wait, 2), BLOCKED_TIMEOUT_S, NO_REPLY)
        while True:
            # A late reply to an earlier request that failed may come first.
            if isinstance(popped, list) and isinstance(popped[1], bytes):
                correlation, _, answer = popped[1].partition(b" ")
                if correlation == expected:
                    return Reply(answer, False)
            popped = await with_timeout(self._client.submit(wait), BLOCKED_TIMEOUT_S, NO_REPLY)

    async def close(self) -> None:
        await self._client.close()


class _ReplySender:
    """Sends each reply to the list (RPUSH) or channel (PUBLISH) of its requester, and counts the confirmations."""

    def __init__(self, client: RedisClient, verb: bytes) -> None:
        self._client = client
        self._verb = verb
        self._confirmations = ConfirmationCounter()
        self.confirmed = self._confirmations.wait_confirmed
        client.on_lost(self._confirmations.fail)

    async def send(self, addresses: list[bytes], bodies: Sequence[bytes]) -> None:
        commands = []
        for to, body in zip(addresses, bodies, strict=True):
            replies, blank, correlation = to.partition(b" ")
            if not blank:
                raise DriverError("a request has no reply address or no correlation id")
            commands.append(resp.command(self._verb, replies, b"%s %s" % (correlation, body)))
        await self._confirmations.reserve(len(commands), 1000 + len(commands))
        self._client.write_counted(b"".join(commands), len(commands), self._confirmations)
        await self._client.wait_writable()


class StreamResponder(CoroutineResponder):
    """Replies go over `client`; the reader's client blocks for requests."""

    confirms = True

    def __init__(self, client: RedisClient, inbox: Inbox[bytes], reader: StreamReader) -> None:
        self._client = client
        self._reply_sender = _ReplySender(client, b"RPUSH")
        self._inbox = inbox
        self._reader = reader
        # The entry id and the reply address of each request of the last batch.
        self._requests: list[tuple[bytes, bytes]] = []

    async def receive(self) -> ReceivedBatch:
        done, self._requests = [number for number, _ in self._requests], []
        self._reader.read_next(done)
        bodies, tags, redelivered = await self._inbox.take()
        for tag in tags:
            number, _, to = tag.partition(b" ")
            self._requests.append((number, to))
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        await self._reply_sender.send([to for _, to in self._requests], bodies)
        if wait:
            await self._reply_sender.confirmed()

    async def close(self) -> None:
        await self._reply_sender.confirmed()
        await self._reader.close([number for number, _ in self._requests])
        await self._client.close()


def responder_prefix(destination: str) -> bytes:
    return f"responders:{destination}:".encode()
