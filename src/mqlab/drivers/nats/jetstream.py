"""JetStream: streams in files, a publisher that counts confirmations, and pull consumers."""

import json
from itertools import groupby
from typing import Final

from mqlab.drivers.api import DriverError, Matrix, Properties
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.message_rows import message_rows
from mqlab.drivers.nats.client import NatsClient, NatsNames
from mqlab.json_values import JsonObject
from mqlab.wire import nats
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.native.bodies import Bodies

# Unconfirmed messages and bytes of one sender before it waits: less than the limit at which a stream refuses more.
_MAX_UNCONFIRMED: Final = 4096
_MAX_UNCONFIRMED_BYTES: Final = 16 << 20
# Long enough that JetStream never redelivers a message to a slow consumer that still works on it.
_ACK_WAIT_SECONDS: Final = 600.0
_INACTIVE_NS: Final = 3600 * 10**9
# Error code: a stream of this name exists with other subjects.
_STREAM_EXISTS: Final = 10058
# The JetStream consumer of every queue, which all competing receivers share.
SHARED: Final = "all"


async def create_stream(client: NatsClient, names: NatsNames, *, also_core: bool = False) -> None:
    """Create a stream. With `also_core` it also keeps non-persistent messages, for durable subscriptions."""
    core_subjects = [names.subject] if also_core else []
    config = {
        "name": names.stream, "subjects": [names.stored, f"{names.stored}.>", *core_subjects], "storage": "file",
        "retention": "workqueue" if names.is_queue else "interest", "max_consumers": -1, "num_replicas": 1,
    }  # fmt: skip
    answer = await client.jetstream_request(f"STREAM.CREATE.{names.stream}", config)
    if answer.get("error", {}).get("err_code") == _STREAM_EXISTS:
        if not also_core:
            return
        answer = await client.jetstream_request(f"STREAM.UPDATE.{names.stream}", config)
    _check(answer, f"the stream {names.stream}")


async def create_consumer(
    client: NatsClient,
    names: NatsNames,
    name: str,
    *,
    durable: bool,
    filtered: str = "",
    redeliver_after_s: float | None = None,
) -> None:
    """Create the consumer of a queue or of a subscription; a `durable` one stays without a receiver.

    JetStream redelivers what is not acknowledged after `redeliver_after_s`, also if the connection was lost before.
    """
    ack_wait_ns = round((redeliver_after_s or _ACK_WAIT_SECONDS) * 1e9)
    config: dict[str, object] = {
        "name": name, "ack_policy": "explicit" if names.is_queue else "all", "ack_wait": ack_wait_ns,
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
    """Publishes persistent messages and counts their confirmations."""

    def __init__(self, client: NatsClient) -> None:
        self._client = client
        self._inbox = client.new_inbox().encode()
        self._sid = client.subscribe(self._inbox.decode(), self._confirmed, self._handle_status_reply)
        self._confirmations = ConfirmationCounter()
        client.on_lost(self._confirmations.fail)
        self._templates: dict[tuple[bytes, int], FrameTemplate] = {}
        self.wait_confirmed = self._confirmations.wait_confirmed

    async def publish(self, subject: bytes, bodies: Matrix, properties: Properties | None = None) -> None:
        """Return when the messages are written. `wait_confirmed` waits for the confirmations."""
        size = bodies.shape[1]
        if properties is not None:
            await self._publish_with_headers(subject, bodies, properties)
            return
        template = self._templates.get((subject, size))
        if template is None:
            template = self._templates[subject, size] = nats.template(subject, size, self._inbox)
        max_rows = max(1, min(_MAX_UNCONFIRMED, _MAX_UNCONFIRMED_BYTES // (size + 1)))
        for first in range(0, len(bodies), max_rows):
            rows = bodies[first : first + max_rows]
            await self._confirmations.reserve(len(rows), max_rows)
            await self._client.send(template.filled(rows))

    async def _publish_with_headers(self, subject: bytes, bodies: Matrix, properties: Properties) -> None:
        messages = encode_with_headers(subject, bodies, properties, self._inbox)
        max_rows = max(1, min(_MAX_UNCONFIRMED, _MAX_UNCONFIRMED_BYTES // (bodies.shape[1] + 1)))
        for first in range(0, len(messages), max_rows):
            part = messages[first : first + max_rows]
            await self._confirmations.reserve(len(part), max_rows)
            await self._client.send(b"".join(part))

    def publish_one(self, subject: bytes, body: bytes) -> None:
        """The caller waits for the confirmation, or for a reply, before it publishes many more."""
        self._confirmations.count_sent(1)
        self._client.write(nats.publish(subject, body, self._inbox))

    async def close(self) -> None:
        await self.wait_confirmed()
        self._client.unsubscribe(self._sid)
        self._client.remove_subscription(self._sid, self._confirmations.fail)

    def _confirmed(self, delivered: nats.SubscriptionBatch) -> None:
        if delivered.bodies.data.tobytes().find(b'"error"') >= 0:
            for body in delivered.bodies.tolist():
                answer = json.loads(body)
                if "error" in answer:
                    self._confirmations.fail(f"JetStream refused a message: {_error_text(answer)}")
                    return
        self._confirmations.confirm(len(delivered.bodies))

    def _handle_status_reply(self, headed: nats.HeaderMessage) -> None:
        self._confirmations.fail(f"no stream took a message: {headed.status} {headed.words}".rstrip())


def encode_with_headers(subject: bytes, bodies: Matrix, properties: Properties, reply: bytes = b"") -> list[bytes]:
    return [
        nats.publish_with_headers(subject, body.tobytes(), nats.encode_headers(row.properties), reply)
        for body, row in zip(bodies, message_rows(len(bodies), properties, None), strict=True)
    ]


class JetStreamConsumer:
    """Pulls as many messages as its inbox has capacity for, and more when some are acknowledged."""

    def __init__(
        self, client: NatsClient, names: NatsNames, name: str, capacity: int, inbox: Inbox[nats.Subjects]
    ) -> None:
        self._client = client
        self._names = names
        self._name = name
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{names.stream}.{name}".encode()
        self._capacity = capacity
        self._inbox = inbox
        self._subject = client.new_inbox()
        self._sid = client.subscribe(self._subject, self._delivered, self._handle_status)
        client.on_lost(inbox.fail)
        self._free = capacity
        self._pull()

    def acknowledge(self, tags: list[nats.Subjects]) -> None:
        """Acknowledge each message of a queue; for a topic, the last one acknowledges all before it."""
        replies = [tag.reply for tag in (tags if self._names.is_queue else tags[-1:])]
        self._free += len(tags)
        more = self._pull_request() if 2 * self._free >= self._capacity else b""
        self._client.write(nats.publish_same(replies, b"+ACK") + more)

    async def close(self, unacknowledged: list[nats.Subjects], *, delete: bool) -> None:
        """End the consumer; JetStream redelivers its unacknowledged messages at once."""
        self._client.unsubscribe(self._sid)
        await self._client.flush()
        tags = [*unacknowledged, *self._inbox.drain_tags()]
        self._client.write(nats.publish_same([tag.reply for tag in tags], b"-NAK"))
        self._client.remove_subscription(self._sid, self._inbox.fail)
        if delete:
            await delete_consumer(self._client, self._names.stream, self._name)
        else:
            await self._client.flush()

    def _pull(self) -> None:
        if self._free > 0:
            self._client.write(self._pull_request())

    def _pull_request(self) -> bytes:
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
        for redelivered, rows in groupby(again):
            end = begin + len(list(rows))
            part = Bodies(bodies.data, bodies.offsets[begin : end + 1])
            self._inbox.put(part, tags[begin:end], redelivered)
            begin = end

    def _handle_status(self, headed: nats.HeaderMessage) -> None:
        if not headed.status:
            # A message with properties.
            body, run = Bodies.of([headed.body]), (1, headed.subject, headed.reply)
            self._delivered(nats.SubscriptionBatch(headed.sid, body, [run]))
        elif headed.status in (404, 408):
            self._free += int(headed.headers.get("Nats-Pending-Messages", "0"))
            self._pull()
        elif headed.status != 100:
            self._inbox.fail(f"JetStream ended the delivery: {headed.status} {headed.words}")


def _is_redelivered(reply: bytes) -> bool:
    words = reply.split(b".")
    # $JS.ACK.[domain.account.]stream.consumer.deliveries. ...
    return words[6 if len(words) > 9 else 4] != b"1"


def _check(answer: JsonObject, failure: str) -> None:
    if "error" in answer:
        raise DriverError(f"JetStream refused {failure}: {_error_text(answer)}")


def _error_text(answer: JsonObject) -> str:
    return str(answer["error"].get("description", answer["error"]))
