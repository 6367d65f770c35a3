"""JetStream: streams that keep messages in files, publishing with confirmation, and consumers that pull."""

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from mqlab.drivers.api import DriverError, Matrix
from mqlab.drivers.common.confirmations import Confirming
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.connection import Talk
from mqlab.drivers.nats.names import Place
from mqlab.wire import nats
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.native.bodies import Bodies

# Messages and bytes that one sender has under way before it waits: less than a stream refuses to hold unwritten.
_MOST_UNCONFIRMED: Final = 4096
_MOST_UNCONFIRMED_BYTES: Final = 16 << 20
# No message is delivered again while its consumer is at work on it: the lab's are slow, never silently gone.
_ACKNOWLEDGE_NANOSECONDS: Final = 600 * 10**9
_INACTIVE_NANOSECONDS: Final = 3600 * 10**9
# A stream of that name is there with other subjects.
_OTHER_STREAM: Final = 10058
# The one consumer of a queue, shared by all that compete for its messages.
SHARED: Final = "all"


async def make_stream(talk: Talk, place: Place, *, also_plain: bool = False) -> None:
    """With `also_plain` it keeps what is sent without the wish to be kept, too: for those who are away."""
    plain = [place.subject] if also_plain else []
    wish = {
        "name": place.stream, "subjects": [place.stored, f"{place.stored}.>", *plain], "storage": "file",
        "retention": "workqueue" if place.is_queue else "interest", "max_consumers": -1, "num_replicas": 1,
    }  # fmt: skip
    said = await talk.api(f"STREAM.CREATE.{place.stream}", wish)
    if _error_code(said) == _OTHER_STREAM:
        if not also_plain:
            return
        said = await talk.api(f"STREAM.UPDATE.{place.stream}", wish)
    _check(said, f"the stream {place.stream}")


async def make_consumer(talk: Talk, place: Place, name: str, *, lasts: bool, filtered: str = "") -> None:
    """The one of a queue, or one that is a subscription to a topic; `lasts`: also while nobody uses it."""
    wish: dict[str, object] = {
        "name": name, "ack_policy": "explicit" if place.is_queue else "all", "ack_wait": _ACKNOWLEDGE_NANOSECONDS,
        "deliver_policy": "all" if place.is_queue else "new", "replay_policy": "instant", "max_ack_pending": -1,
    }  # fmt: skip
    if lasts:
        wish["durable_name"] = name
    else:
        wish["inactive_threshold"] = _INACTIVE_NANOSECONDS
    if filtered:
        wish["filter_subject"] = filtered
    said = await talk.api(
        f"CONSUMER.CREATE.{place.stream}.{name}{filtered and f'.{filtered}'}",
        {"stream_name": place.stream, "config": wish},
    )
    _check(said, f"the consumer {name} of {place.stream}")


async def delete_consumer(talk: Talk, stream: str, name: str) -> None:
    _check(await talk.api(f"CONSUMER.DELETE.{stream}.{name}", {}), f"the consumer {name} of {stream}")


class Publisher:
    """Publishes what must be confirmed, and counts the confirmations."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._inbox = talk.inbox().encode()
        self._sid = talk.subscribe(self._inbox.decode(), self._confirmed, self._refused)
        self._confirming = Confirming()
        talk.when_gone(self._confirming.fail)
        self._templates: dict[tuple[bytes, int], FrameTemplate] = {}
        self.confirmed = self._confirming.all_but

    async def publish(self, subject: bytes, bodies: Matrix) -> None:
        """Returns when they are written; `confirmed`, when all are confirmed, or all but so many."""
        size = bodies.shape[1]
        template = self._templates.get((subject, size))
        if template is None:
            template = self._templates[subject, size] = nats.template(subject, size, self._inbox)
        most = max(1, min(_MOST_UNCONFIRMED, _MOST_UNCONFIRMED_BYTES // (size + 1)))
        for first in range(0, len(bodies), most):
            some = bodies[first : first + most]
            await self._confirming.sending(len(some), most)
            await self._talk.send(template.filled(some))

    async def publish_one(self, subject: bytes, body: bytes) -> None:
        await self._confirming.sending(1, _MOST_UNCONFIRMED)
        await self._talk.send(nats.publish(subject, body, self._inbox))

    async def close(self) -> None:
        await self.confirmed()
        self._talk.unsubscribe(self._sid)
        self._talk.forget(self._sid, self._confirming.fail)

    def _confirmed(self, delivered: nats.SubscriptionBatch) -> None:
        if delivered.bodies.data.tobytes().find(b'"error"') >= 0:
            for body in delivered.bodies.tolist():
                said = json.loads(body)
                if "error" in said:
                    self._confirming.fail(f"JetStream refused a message: {_words(said)}")
                    return
        self._confirming.confirm(len(delivered.bodies))

    def _refused(self, headed: nats.HeaderMessage) -> None:
        self._confirming.fail(f"no stream took a message: {headed.status} {headed.words}".rstrip())


class Pull:
    """Asks a consumer for as many messages as its inbox has room for, and for more when some are acknowledged."""

    def __init__(self, talk: Talk, place: Place, consumer: str, room: int, inbox: Inbox[nats.Subjects]) -> None:
        self._talk = talk
        self._place = place
        self._consumer = consumer
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{place.stream}.{consumer}".encode()
        self._room = room
        self._inbox = inbox
        self._subject = talk.inbox()
        self._sid = talk.subscribe(self._subject, self._delivered, self._status)
        talk.when_gone(inbox.fail)
        self._free = room
        self._ask()

    async def acknowledge(self, marks: list[nats.Subjects]) -> None:
        """Those of a subscription to a topic by the last of them, those of a queue each."""
        replies = [mark.reply for mark in (marks if self._place.is_queue else marks[-1:])]
        self._free += len(marks)
        more = self._asking() if 2 * self._free >= self._room else b""
        await self._talk.send(nats.publish_same(replies, b"+ACK") + more)

    async def close(self, unfinished: list[nats.Subjects], *, delete: bool) -> None:
        """What nobody has acknowledged goes to others, at once."""
        self._talk.unsubscribe(self._sid)
        await self._talk.flushed()
        marks = [*unfinished, *self._inbox.take_all()]
        self._talk.write(nats.publish_same([mark.reply for mark in marks], b"-NAK"))
        self._talk.forget(self._sid, self._inbox.fail)
        if delete:
            await delete_consumer(self._talk, self._place.stream, self._consumer)
        else:
            await self._talk.flushed()

    def _ask(self) -> None:
        if self._free > 0:
            self._talk.write(self._asking())

    def _asking(self) -> bytes:
        wish = b'{"batch":%d}' % self._free
        self._free = 0
        return nats.publish(self._next, wish, self._subject.encode())

    def _delivered(self, delivered: nats.SubscriptionBatch) -> None:
        marks = [nats.Subjects(*pair) for pair in zip(delivered.subjects, delivered.replies, strict=True)]
        again = [_is_redelivered(mark.reply) for mark in marks]
        if not any(again):
            self._inbox.put(delivered.bodies, marks)
            return
        bodies, begin = delivered.bodies, 0
        for redelivered, some in groupby(again):
            end = begin + len(list(some))
            part = Bodies(bodies.data, bodies.offsets[begin : end + 1])
            self._inbox.put(part, marks[begin:end], redelivered)
            begin = end

    def _status(self, headed: nats.HeaderMessage) -> None:
        if headed.status in (404, 408):
            self._free += int(headed.headers.get("Nats-Pending-Messages", "0"))
            self._ask()
        elif headed.status != 100:
            self._inbox.fail(f"JetStream ended the delivery: {headed.status} {headed.words}")


def _is_redelivered(reply: bytes) -> bool:
    words = reply.split(b".")
    # $JS.ACK.[domain.account.]stream.consumer.deliveries. ...
    return words[6 if len(words) > 9 else 4] != b"1"


def _error_code(said: Mapping[str, Any]) -> int:
    return int(said.get("error", {}).get("err_code", 0))


def _check(said: Mapping[str, Any], what: str) -> None:
    if "error" in said:
        raise DriverError(f"JetStream refused {what}: {_words(said)}")


def _words(said: Mapping[str, Any]) -> str:
    return str(said["error"].get("description", said["error"]))
