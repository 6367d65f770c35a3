"""Request and reply over NATS: through inboxes, or, where both must be kept, through streams.

A request that is kept cannot name an inbox (the confirmation goes there), so its subject ends with the words that
the subject of its reply ends with: the stream of the replies, the requester and the correlation id.
"""

import secrets
from collections.abc import Sequence

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply, Requester, Responder
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.connection import Talk
from mqlab.drivers.nats.jetstream import Publisher, Pull, make_consumer
from mqlab.drivers.nats.links import PlainFeed
from mqlab.drivers.nats.names import Place, escaped
from mqlab.wire import nats


class PlainRequester(Requester):
    def __init__(self, talk: Talk, place: Place) -> None:
        self._talk = talk
        self._subject = place.subject.encode()

    async def request(self, body: bytes, correlation_id: str) -> Reply:  # noqa: ARG002 - each request has an inbox
        return Reply(await self._talk.ask(self._subject, body), False)

    async def close(self) -> None:
        """Nothing is under way."""


class PlainResponder(Responder):
    def __init__(self, talk: Talk, inbox: Inbox[nats.Subjects], feed: PlainFeed) -> None:
        self._talk = talk
        self._inbox = inbox
        self._feed = feed
        self._asked: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        bodies, self._asked, redelivered = await self._inbox.take()
        if not all(mark.reply for mark in self._asked):
            raise DriverError("a request does not say where its reply should go")
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        pairs = zip(self._asked, bodies, strict=True)
        await self._talk.send(b"".join([nats.publish(mark.reply, body) for mark, body in pairs]))
        if wait:
            await self._talk.flushed()

    async def close(self) -> None:
        await self._feed.close()


class StoredRequester(Requester):
    def __init__(self, talk: Talk, asked: Place, replies: Place, name: str) -> None:
        self._publisher = Publisher(talk)
        self._subject = f"{asked.stored}.{replies.stored.rpartition('.')[2]}.{name}."
        self._inbox: Inbox[nats.Subjects] = Inbox(1, talk.hold, talk.let_go)
        self._pull = Pull(talk, replies, name, 1, self._inbox)

    @classmethod
    async def opened(cls, talk: Talk, asked: Place, replies: Place) -> "StoredRequester":
        name = f"requester-{secrets.token_hex(8)}"
        await make_consumer(talk, replies, name, lasts=False, filtered=f"{replies.stored}.{name}.*")
        return cls(talk, asked, replies, name)

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        wanted = escaped(correlation_id)
        await self._publisher.publish_one(f"{self._subject}{wanted}".encode(), body)
        while True:
            bodies, marks, redelivered = await self._inbox.take(is_reply=True)
            await self._pull.acknowledge(marks)
            # The reply to a request that was given up may come first.
            if marks[0].subject.rpartition(b".")[2] == wanted.encode():
                return Reply(bodies[0], redelivered)

    async def close(self) -> None:
        await self._publisher.close()
        await self._pull.close([], delete=True)


class StoredResponder(Responder):
    def __init__(self, talk: Talk, inbox: Inbox[nats.Subjects], pull: Pull) -> None:
        self._publisher = Publisher(talk)
        self._inbox = inbox
        self._pull = pull
        self._asked: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        if self._asked:
            marks, self._asked = self._asked, []
            await self._pull.acknowledge(marks)
        bodies, self._asked, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        for mark, body in zip(self._asked, bodies, strict=True):
            # stored.queue.REQUESTS.REPLIES.REQUESTER.CORRELATION
            words = mark.subject.split(b".")
            if len(words) != 6:
                raise DriverError("a request does not say where its reply should go")
            await self._publisher.publish_one(b".".join((*words[:2], *words[3:])), body)
        if wait:
            await self._publisher.confirmed()

    async def close(self) -> None:
        await self._publisher.close()
        await self._pull.close(self._asked, delete=False)
