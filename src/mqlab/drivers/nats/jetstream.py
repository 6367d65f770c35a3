"""JetStream: streams that keep messages in files, publishing with confirmation, and consumers that pull."""

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from mqlab.drivers.api import DriverError, Matrix
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.client import NatsClient
from mqlab.drivers.nats.names import NatsNames
from mqlab.wire import nats
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.native.bodies import Bodies

# Messages and bytes that one sender has under way before it waits: less than a stream refuses to hold unwritten.
_MAX_UNCONFIRMED: Final = 4096
_MAX_UNCONFIRMED_BYTES: Final = 16 << 20
# No message is delivered again while its consumer is at work on it: the lab's are slow, never silently gone.
_ACK_WAIT_NS: Final = 600 * 10**9
_INACTIVE_NS: Final = 3600 * 10**9
# A stream of that name is there with other subjects.
_OTHER_STREAM: Final = 10058
# The one consumer of a queue, shared by all that compete for its messages.
SHARED: Final = "all"


async def create_stream(client: NatsClient, names: NatsNames, *, also_core: bool = False) -> None:
    """With `also_plain` it keeps what is sent without the wish to be kept, too: for those who are away."""
    core_subjects = [names.subject] if also_core else []
    config = {
        "name": names.stream, "subjects": [names.stored, f"{names.stored}.>", *core_subjects], "storage": "file",
        "retention": "workqueue" if names.is_queue else "interest", "max_consumers": -1, "num_replicas": 1,
    }  # fmt: skip
    answer = await client.jetstream_request(f"STREAM.CREATE.{names.stream}", config)
    if _error_code(answer) == _OTHER_STREAM:
        if not also_core:
            return
        answer = await client.jetstream_request(f"STREAM.UPDATE.{names.stream}", config)
    _check(answer, f"the stream {names.stream}")


async def create_consumer(
    client: NatsClient, names: NatsNames, name: str, *, durable: bool, filtered: str = ""
) -> None:
    """The one of a queue, or one that is a subscription to a topic; `lasts`: also while nobody uses it."""
    config: dict[str, object] = {
        "name": name, "ack_policy": "explicit" if names.is_queue else "all", "ack_wait": _ACK_WAIT_NS,
        "deliver_policy": "all" if names.is_queue else "new", "replay_policy": "instant", "max_ack_pending": -1,
    }  # fmt: skip
    if durable:
        config["durable_name"] = name
    else:
        config["inactive_threshold"] = _INACTIVE_NS
    if filtered:
        config["filter_subject"] = filtered
    answer = await client.jetstream_request(
        f"CONSUMER.CREATE.{names.stream}.{name}{filtered and f'.{filtered}'}",
        {"stream_name": names.stream, "config": config},
    )
    _check(answer, f"the consumer {name} of {names.stream}")


async def delete_consumer(client: NatsClient, stream: str, name: str) -> None:
    _check(await client.jetstream_request(f"CONSUMER.DELETE.{stream}.{name}", {}), f"the consumer {name} of {stream}")


class JetStreamPublisher:
    """Publishes what must be confirmed, and counts the confirmations."""

    def __init__(self, client: NatsClient) -> None:
        self._client = client
        self._inbox = client.inbox().encode()
        self._sid = client.subscribe(self._inbox.decode(), self._confirmed, self._handle_status_reply)
        self._confirmations = ConfirmationCounter()
        client.on_lost(self._confirmations.fail)
        self._templates: dict[tuple[bytes, int], FrameTemplate] = {}
        self.wait_confirmed = self._confirmations.wait_confirmed

    async def publish(self, subject: bytes, bodies: Matrix) -> None:
        """Returns when they are written; `confirmed`, when all are confirmed, or all but so many."""
        size = bodies.shape[1]
        template = self._templates.get((subject, size))
        if template is None:
            template = self._templates[subject, size] = nats.template(subject, size, self._inbox)
        most = max(1, min(_MAX_UNCONFIRMED, _MAX_UNCONFIRMED_BYTES // (size + 1)))
        for first in range(0, len(bodies), most):
            some = bodies[first : first + most]
            await self._confirmations.reserve(len(some), most)
            await self._client.send(template.filled(some))

    async def publish_one(self, subject: bytes, body: bytes) -> None:
        await self._confirmations.reserve(1, _MAX_UNCONFIRMED)
        await self._client.send(nats.publish(subject, body, self._inbox))

    async def close(self) -> None:
        await self.wait_confirmed()
        self._client.unsubscribe(self._sid)
        self._client.remove_subscription(self._sid, self._confirmations.fail)

    def _confirmed(self, delivered: nats.SubscriptionBatch) -> None:
        if delivered.bodies.data.tobytes().find(b'"error"') >= 0:
            for body in delivered.bodies.tolist():
                answer = json.loads(body)
                if "error" in answer:
                    self._confirmations.fail(f"JetStream refused a message: {_words(answer)}")
                    return
        self._confirmations.confirm(len(delivered.bodies))

    def _handle_status_reply(self, headed: nats.HeaderMessage) -> None:
        self._confirmations.fail(f"no stream took a message: {headed.status} {headed.words}".rstrip())


class JetStreamConsumer:
    """Asks a consumer for as many messages as its inbox has room for, and for more when some are acknowledged."""

    def __init__(
        self, client: NatsClient, names: NatsNames, name: str, capacity: int, inbox: Inbox[nats.Subjects]
    ) -> None:
        self._client = client
        self._names = names
        self._name = name
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{names.stream}.{name}".encode()
        self._capacity = capacity
        self._inbox = inbox
        self._subject = client.inbox()
        self._sid = client.subscribe(self._subject, self._delivered, self._handle_status)
        client.on_lost(inbox.fail)
        self._free = capacity
        self._ask()

    async def acknowledge(self, tags: list[nats.Subjects]) -> None:
        """Those of a subscription to a topic by the last of them, those of a queue each."""
        replies = [tag.reply for tag in (tags if self._names.is_queue else tags[-1:])]
        self._free += len(tags)
        more = self._asking() if 2 * self._free >= self._capacity else b""
        await self._client.send(nats.publish_same(replies, b"+ACK") + more)

    async def close(self, unacknowledged: list[nats.Subjects], *, delete: bool) -> None:
        """What nobody has acknowledged goes to others, at once."""
        self._client.unsubscribe(self._sid)
        await self._client.flush()
        tags = [*unacknowledged, *self._inbox.drain_tags()]
        self._client.write(nats.publish_same([tag.reply for tag in tags], b"-NAK"))
        self._client.remove_subscription(self._sid, self._inbox.fail)
        if delete:
            await delete_consumer(self._client, self._names.stream, self._name)
        else:
            await self._client.flush()

    def _ask(self) -> None:
        if self._free > 0:
            self._client.write(self._asking())

    def _asking(self) -> bytes:
        config = b'{"batch":%d}' % self._free
        self._free = 0
        return nats.publish(self._next, config, self._subject.encode())

    def _delivered(self, delivered: nats.SubscriptionBatch) -> None:
        tags = [nats.Subjects(*pair) for pair in zip(delivered.subjects, delivered.replies, strict=True)]
        again = [_is_redelivered(tag.reply) for tag in tags]
        if not any(again):
            self._inbox.put(delivered.bodies, tags)
            return
        bodies, begin = delivered.bodies, 0
        for redelivered, some in groupby(again):
            end = begin + len(list(some))
            part = Bodies(bodies.data, bodies.offsets[begin : end + 1])
            self._inbox.put(part, tags[begin:end], redelivered)
            begin = end

    def _handle_status(self, headed: nats.HeaderMessage) -> None:
        if headed.status in (404, 408):
            self._free += int(headed.headers.get("Nats-Pending-Messages", "0"))
            self._ask()
        elif headed.status != 100:
            self._inbox.fail(f"JetStream ended the delivery: {headed.status} {headed.words}")


def _is_redelivered(reply: bytes) -> bool:
    words = reply.split(b".")
    # $JS.ACK.[domain.account.]stream.consumer.deliveries. ...
    return words[6 if len(words) > 9 else 4] != b"1"


def _error_code(answer: Mapping[str, Any]) -> int:
    return int(answer.get("error", {}).get("err_code", 0))


def _check(answer: Mapping[str, Any], failure: str) -> None:
    if "error" in answer:
        raise DriverError(f"JetStream refused {failure}: {_words(answer)}")


def _words(answer: Mapping[str, Any]) -> str:
    return str(answer["error"].get("description", answer["error"]))
