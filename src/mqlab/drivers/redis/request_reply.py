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
from mqlab.drivers.common.confirmations import Confirming
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.redis.connection import Talk
from mqlab.drivers.redis.streams import Reader
from mqlab.wire import resp
from mqlab.wire.equal_frames import bodies_at
from mqlab.wire.native.bodies import Bodies

_SPECIAL = re.compile(rb"([*?\[\]\\])")


class Replies:
    """What comes to the channel of one connection, for all its requesters: `TOKEN BODY` each."""

    def __init__(self) -> None:
        self.channel = b"replies:" + secrets.token_hex(8).encode()
        self.talk = Talk(self._published)
        self.talk.when_gone(self._gone)
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

    def _gone(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(DriverError(why))


class ChannelRequester(Requester):
    """`talk` never waits; it may be that of other roles."""

    def __init__(self, talk: Talk, replies: Replies, destination: str) -> None:
        self._talk = talk
        self._replies = replies
        self._pattern = _SPECIAL.sub(rb"\\\1", responders_of(destination)) + b"*"
        self._responders: list[bytes] = []
        self._turn = 0

    async def open(self) -> None:
        """Finds the responders."""
        found = await self._talk.ask(b"PUBSUB", b"CHANNELS", self._pattern)
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
                asking = b"%s %s %s" % (self._replies.channel, token, body)
                heard = self._talk.asked(resp.command(b"PUBLISH", to, asking))
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


class ChannelResponder(Responder):
    """`talk` has subscribed to its channel, `control` is for the replies."""

    def __init__(self, control: Talk, destination: str, room: int) -> None:
        self.channel = responders_of(destination) + secrets.token_hex(8).encode()
        self.talk = Talk(self._published)
        self._inbox: Inbox[bytes] = Inbox(room, self.talk.hold, self.talk.let_go)
        self.talk.when_gone(self._inbox.fail)
        self._replying = _Replying(control, b"PUBLISH")
        self._asked: list[bytes] = []

    async def receive(self) -> ReceivedBatch:
        bodies, self._asked, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        await self._replying.send(self._asked, bodies)
        if wait:
            await self._replying.confirmed()

    async def close(self) -> None:
        await self._replying.confirmed()
        await self.talk.close()

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

    def __init__(self, talk: Talk, destination: str, reply_to: str) -> None:
        self._talk = talk
        self._key = destination.encode()
        self._replies = f"{reply_to}:{secrets.token_hex(8)}".encode()

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        wanted = correlation_id.encode()
        if b" " in wanted or b"\n" in wanted:
            raise DriverError(f"{correlation_id!r} has a blank or a line end in it")
        to = b"%s %s" % (self._replies, wanted)
        asking = resp.command(b"XADD", self._key, b"*", b"r", to, b"b", body)
        waiting = resp.command(b"BLPOP", self._replies, b"0")
        found = await with_timeout(self._talk.asked(asking + waiting, 2), BLOCKED_TIMEOUT_S, NO_REPLY)
        while True:
            # The reply to a request that was given up may come first.
            if isinstance(found, list) and isinstance(found[1], bytes):
                correlation, _, answer = found[1].partition(b" ")
                if correlation == wanted:
                    return Reply(answer, False)
            found = await with_timeout(self._talk.asked(waiting), BLOCKED_TIMEOUT_S, NO_REPLY)

    async def close(self) -> None:
        await self._talk.close()


class _Replying:
    """Puts each reply on the list of its requester (RPUSH), or publishes it, and counts that they are there."""

    def __init__(self, talk: Talk, verb: bytes) -> None:
        self._talk = talk
        self._verb = verb
        self._confirming = Confirming()
        self.confirmed = self._confirming.all_but
        talk.when_gone(self._confirming.fail)

    async def send(self, asked: list[bytes], bodies: Sequence[bytes]) -> None:
        commands = []
        for to, body in zip(asked, bodies, strict=True):
            replies, found, correlation = to.partition(b" ")
            if not found:
                raise DriverError("a request does not say where its reply should go, or as what")
            commands.append(resp.command(self._verb, replies, b"%s %s" % (correlation, body)))
        await self._confirming.sending(len(commands), 1000 + len(commands))
        self._talk.write(b"".join(commands), len(commands), self._replied)
        await self._talk.room()

    def _replied(self, values: list[resp.Value]) -> None:
        refused = next((value for value in values if isinstance(value, resp.ErrorReply)), None)
        if refused is not None:
            self._confirming.fail(f"Redis refused: {refused.words}")
        else:
            self._confirming.confirm(len(values))


class StreamResponder(Responder):
    """`talk` is for replies: the reader's waits for requests."""

    def __init__(self, talk: Talk, inbox: Inbox[bytes], reader: Reader) -> None:
        self._talk = talk
        self._replying = _Replying(talk, b"RPUSH")
        self._inbox = inbox
        self._reader = reader
        # The id of each request of the last arrival, and where and as what it wants its reply.
        self._asked: list[tuple[bytes, bytes]] = []

    async def receive(self) -> ReceivedBatch:
        done, self._asked = [number for number, _ in self._asked], []
        self._reader.ask(done)
        bodies, marks, redelivered = await self._inbox.take()
        for mark in marks:
            number, _, to = mark.partition(b" ")
            self._asked.append((number, to))
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        await self._replying.send([to for _, to in self._asked], bodies)
        if wait:
            await self._replying.confirmed()

    async def close(self) -> None:
        await self._replying.confirmed()
        await self._reader.close([number for number, _ in self._asked])
        await self._talk.close()


def responders_of(destination: str) -> bytes:
    """What the channels of all responders begin with."""
    return f"responders:{destination}:".encode()
