"""Request and reply over Redis.

Persistent requests are entries of a stream, gone when the responder has acknowledged them; each requester has a list of
its own for the replies, and waits on it. Others are published, which costs no sync: each responder has a channel, each
connection has one for the replies to its requesters, and requesters take the responders in turn.
"""

import asyncio
import re
import secrets
from collections.abc import Sequence
from functools import partial
from itertools import count

import numpy as np

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply, Requester, Responder
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.streams import StreamReader
from mqlab.wire import resp
from mqlab.wire.equal_frames import bodies_at
from mqlab.wire.native.bodies import Bodies

_SPECIAL = re.compile(rb"([*?\[\]\\])")


class ReplyChannel:
    """What comes to the channel of one connection, for all its requesters: `TOKEN BODY` each."""

    def __init__(self) -> None:
        self.channel = b"replies:" + secrets.token_hex(8).encode()
        self.client = RedisClient(self._published)
        self.client.on_lost(self._connection_lost)
        self._tokens = count()
        self._waiting: dict[bytes, asyncio.Future[bytes | None]] = {}

    def expect(self) -> "tuple[bytes, asyncio.Future[bytes | None]]":
        """The reply is None if nobody heard the request."""
        token = b"%d" % next(self._tokens)
        reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = reply
        return token, reply

    def forget(self, token: bytes) -> None:
        self._waiting.pop(token, None)

    def _published(self, bodies: Bodies) -> None:
        for body in bodies.tolist():
            token, _, answer = body.partition(b" ")
            waiting = self._waiting.get(token)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _connection_lost(self, reason: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(DriverError(reason))


class PubSubRequester(Requester):
    """`talk` never waits; it may be that of other roles."""

    def __init__(self, client: RedisClient, replies: ReplyChannel, destination: str) -> None:
        self._client = client
        self._replies = replies
        self._pattern = _SPECIAL.sub(rb"\\\1", responders_of(destination)) + b"*"
        self._responders: list[bytes] = []
        self._turn = 0

    async def open(self) -> None:
        """Finds the responders."""
        found = await self._client.call(b"PUBSUB", b"CHANNELS", self._pattern)
        self._responders = sorted(one for one in found if isinstance(one, bytes)) if isinstance(found, list) else []

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
                heard = self._client.submit(resp.command(b"PUBLISH", to, message))
                heard.add_done_callback(partial(_heard, reply))
                answer = await with_timeout(reply, BLOCKED_TIMEOUT_S, NO_REPLY)
                if answer is not None:
                    return Reply(answer, False)
                self._responders = []
            finally:
                self._replies.forget(token)
        raise DriverError(f"nobody is there to answer the request {correlation_id}")

    async def close(self) -> None:
        """Nothing is under way."""


def _heard(reply: "asyncio.Future[bytes | None]", heard: "asyncio.Future[resp.Value]") -> None:
    """By how many a request was heard; the reply of one who did may be there before."""
    if reply.done() or heard.cancelled():
        return
    error = heard.exception()
    if error is not None:
        reply.set_exception(error)
    elif heard.result() == 0:
        reply.set_result(None)


class PubSubResponder(Responder):
    """`talk` has subscribed to its channel, `control` is for the replies."""

    def __init__(self, control: RedisClient, destination: str, capacity: int) -> None:
        self.channel = responders_of(destination) + secrets.token_hex(8).encode()
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
        """`CHANNEL TOKEN BODY` each."""
        requests = bodies.tolist()
        begins = [one.find(b" ", one.find(b" ") + 1) + 1 for one in requests]
        to = [one[: begin - 1] for one, begin in zip(requests, begins, strict=True)]
        places = [int(offset) + begin for offset, begin in zip(bodies.offsets[:-1], begins, strict=True)]
        sizes = [len(one) - begin for one, begin in zip(requests, begins, strict=True)]
        self._inbox.put(bodies_at(np.ascontiguousarray(bodies.data), places, sizes), to)


class StreamRequester(Requester):
    """Its talk waits for the replies."""

    def __init__(self, client: RedisClient, destination: str, reply_to: str) -> None:
        self._client = client
        self._key = destination.encode()
        self._replies = f"{reply_to}:{secrets.token_hex(8)}".encode()

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        wanted = correlation_id.encode()
        if b" " in wanted or b"\n" in wanted:
            raise DriverError(f"{correlation_id!r} has a blank or a line end in it")
        to = b"%s %s" % (self._replies, wanted)
        reply = resp.command(b"XADD", self._key, b"*", b"r", to, b"b", body)
        waiting = resp.command(b"BLPOP", self._replies, b"0")
        found = await with_timeout(self._client.submit(reply + waiting, 2), BLOCKED_TIMEOUT_S, NO_REPLY)
        while True:
            # The reply to a request that was given up may come first.
            if isinstance(found, list) and isinstance(found[1], bytes):
                correlation, _, answer = found[1].partition(b" ")
                if correlation == wanted:
                    return Reply(answer, False)
            found = await with_timeout(self._client.submit(waiting), BLOCKED_TIMEOUT_S, NO_REPLY)

    async def close(self) -> None:
        await self._client.close()


class _ReplySender:
    """Puts each reply on the list of its requester (RPUSH), or publishes it, and counts that they are there."""

    def __init__(self, client: RedisClient, verb: bytes) -> None:
        self._client = client
        self._verb = verb
        self._confirmations = ConfirmationCounter()
        self.confirmed = self._confirmations.wait_confirmed
        client.on_lost(self._confirmations.fail)

    async def send(self, submit: list[bytes], bodies: Sequence[bytes]) -> None:
        commands = []
        for to, body in zip(submit, bodies, strict=True):
            replies, found, correlation = to.partition(b" ")
            if not found:
                raise DriverError("a request does not say where its reply should go, or as what")
            commands.append(resp.command(self._verb, replies, b"%s %s" % (correlation, body)))
        await self._confirmations.reserve(len(commands), 1000 + len(commands))
        self._client.write(b"".join(commands), len(commands), self._replied)
        await self._client.wait_writable()

    def _replied(self, values: list[resp.Value]) -> None:
        refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
        if refused is not None:
            self._confirmations.fail(f"Redis refused: {refused.words}")
        else:
            self._confirmations.confirm(len(values))


class StreamResponder(Responder):
    """`talk` is for replies: the reader's waits for requests."""

    def __init__(self, client: RedisClient, inbox: Inbox[bytes], reader: StreamReader) -> None:
        self._client = client
        self._reply_sender = _ReplySender(client, b"RPUSH")
        self._inbox = inbox
        self._reader = reader
        # The id of each request of the last arrival, and where and as what it wants its reply.
        self._requests: list[tuple[bytes, bytes]] = []

    async def receive(self) -> ReceivedBatch:
        done, self._requests = [number for number, _ in self._requests], []
        self._reader.call(done)
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


def responders_of(destination: str) -> bytes:
    """What the channels of all responders begin with."""
    return f"responders:{destination}:".encode()
