"""Messages of a client: the broker gets them in batches, and acknowledges each when it is safe."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.model.destination_names import TOPIC
from mqlab.broker.server.adapter.connection import Action
from mqlab.broker.server.adapter.producers import PLAIN, AdapterProducers
from mqlab.broker.server.adapter.receipts import PendingReceipts, Receipts
from mqlab.broker.server.mqtt.components import MqttComponents
from mqlab.broker.server.mqtt.messages import (
    QOS,
    RETAIN,
    Fields,
    check_payload_format,
    encode_message,
    encode_messages,
    fields_of,
    split,
)  # fmt: skip
from mqlab.broker.server.mqtt.publishing import MessageBatch, MessageKey, TopicResolver
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.from_broker import acknowledgements, refused
from mqlab.wire.mqtt.from_client import PublishRun
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.coalescing import join_singles
from mqlab.wire.native.frames import Frame

# Of an acknowledgement; one with a reason has a byte more, and is never packed with others.
_ANSWER_BYTES: Final = 4
_PUBACK: Final = packets.PUBACK << 4
_ANSWERS: Final = {1: packets.PUBACK, 2: packets.PUBREC}


class IncomingMessages:
    def __init__(self, components: MqttComponents) -> None:
        self._c = components
        self._topics = TopicResolver()
        self._batch: MessageBatch | None = None
        self.receipts: Receipts[bytes] = Receipts(self._write_answers)
        self.producers: AdapterProducers[PendingReceipts[bytes]] = AdapterProducers(components.commands, self._answered)
        # Destinations that the client must not send to, until the next message to them is refused.
        self._denied: set[str] = set()
        # Messages with QoS 1 that are not acknowledged.
        self._unanswered = 0

    def add(self, run: PublishRun) -> Iterable[Action]:
        """Add messages to the current batch. Returns the actions of an earlier one. Raises MqttViolationError."""
        topic, properties = self._topics.resolve(run)
        key = MessageKey(run.flags >> 1, bool(run.flags & 1), topic, run.properties)
        if self._batch is not None and self._batch.add(key, run):
            return ()
        actions = self.finish_batch()
        self._batch = MessageBatch(key, properties, run)
        return actions

    def finish_batch(self) -> Iterable[Action]:
        batch, self._batch = self._batch, None
        return () if batch is None else (partial(self.publish, batch),)

    def refused(self, frame: Frame, reason: Reason) -> None:
        """The broker has refused messages, or to open a producer."""
        if not frame.amount:
            destination = self.producers.forget_refused(frame.link)
            if destination is not None:
                self._denied.add(destination)
            return
        answer = self.producers.refused(frame.link, frame.first + frame.amount - 1)
        if answer is not None:
            self._refuse_messages(answer, reason)

    def publish(self, batch: MessageBatch) -> bool:
        assert self._c.session is not None
        destination, qos = batch.destination, batch.key.qos
        if batch.is_forbidden or destination in self._denied:
            self._denied.discard(destination)
            self._refuse_batch(batch, Reason.NOT_AUTHORIZED)
            return True
        if qos == 2 and not self._has_room(batch.ids):
            self._refuse_batch(batch, Reason.QUOTA_EXCEEDED)
            return True
        producer = self.producers.ready(PLAIN, destination)
        if producer is None:
            return False
        if not self._c.core.destinations.exists(destination):
            # It was deleted: a new one of that name is another destination.
            self.producers.close(PLAIN, destination)
            return False
        fields = fields_of(batch.properties, self._c.clock_ms()) if batch.properties else {}
        if batch.properties:
            check_payload_format(batch.properties, split(batch.chunks))
        if qos == 2 or (qos and not self._c.has_store):
            fields[QOS] = qos
        answer = self._expect(qos, batch.ids)
        if answer is not None and self._c.version == 5 and self._is_unheard(destination):
            kind = _ANSWERS[qos]
            answer.ids = [refused(kind, number, Reason.NO_MATCHING_SUBSCRIBERS) for number in batch.ids]
        if batch.key.retain and not self._retain(batch, destination, fields, answer):
            return True
        payload = self._payload(batch, fields)
        if payload is None:
            # The client has sent them before.
            assert answer is not None
            self.receipts.done(answer)
            return True
        self.producers.send(producer, payload, answer, persistent=qos > 0 and self._c.has_store)
        return True

    def _has_room(self, ids: Sequence[int]) -> bool:
        """Whether the session can remember these packet ids; those of messages that come again it knows."""
        session = self._c.session
        assert session is not None
        return not session.durable or self._c.mqtt.has_room or all(number in session.received for number in ids)

    def _is_unheard(self, destination: str) -> bool:
        """Whether the destination is a topic without subscriptions."""
        kind, _, short = destination.partition(":")
        topic = self._c.core.destinations.routing.topics.get(short) if kind == TOPIC else None
        return topic is not None and not topic.subscriptions

    def _expect(self, qos: int, ids: Sequence[int]) -> PendingReceipts[bytes] | None:
        """The acknowledgement of messages, which is due when the broker has them. Raises MqttViolationError."""
        if not qos:
            return None
        assert self._c.session is not None
        received, most = self._c.session.received, limits.MQTT_RECEIVE_MAXIMUM
        if qos == 1:
            self._unanswered += len(ids)
        unreleased = len(received) if qos == 1 else len({*received, *ids})
        if self._c.version == 5 and self._unanswered + unreleased > most:
            raise MqttViolationError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {most} messages are under way")
        return self.receipts.expect([acknowledgements(_ANSWERS[qos], ids)])

    def _answered(self, answer: PendingReceipts[bytes]) -> None:
        self.receipts.done(answer)
        self._c.socket.write_later(b"")

    def _write_answers(self, answers: Sequence[bytes]) -> None:
        self._unanswered -= sum(len(answer) // _ANSWER_BYTES for answer in answers if answer[0] == _PUBACK)
        self._c.socket.write(b"".join(answers))

    def _retain(
        self, batch: MessageBatch, destination: str, fields: Fields, answer: PendingReceipts[bytes] | None
    ) -> bool:
        """Keep the message for later subscriptions. Return False if there is no room."""
        [body] = split(batch.chunks)
        try:
            self._c.mqtt.retained.check_room(body)
        except MqttViolationError as error:
            if answer is not None:
                self._refuse_messages(answer, error.reason)
            return False
        if answer is not None:
            answer.steps += 1
        then = None if answer is None else partial(self._answered, answer)
        self._c.mqtt.retained.retain(destination, body, {**fields, QOS: batch.key.qos}, then)
        fields[RETAIN] = True
        return True

    def _payload(self, batch: MessageBatch, fields: Fields) -> Payload | None:
        """None: the client has sent all of them before."""
        session = self._c.session
        assert session is not None
        if not fields:
            return encode_messages(batch.chunks)
        bodies = split(batch.chunks)
        if batch.key.qos < 2:
            singles = [encode_message(body, fields) for body in bodies]
        else:
            singles = []
            for number, body in zip(batch.ids, bodies, strict=True):
                known = session.received.get(number)
                if known is None or session.durable:
                    # A broker that was killed may not have the message: the duplicate id tells.
                    token = known or self._c.mqtt.receive(session, number)
                    known_by = {"duplicate_id": token} if session.durable else {}
                    singles.append(encode_message(body, {**fields, **known_by}))
            if not singles:
                return None
        return singles[0] if len(singles) == 1 else join_singles(singles)

    def _refuse_batch(self, batch: MessageBatch, reason: Reason) -> None:
        answer = self._expect(batch.key.qos, batch.ids)
        if answer is not None:
            self._refuse_messages(answer, reason)

    def _refuse_messages(self, answer: PendingReceipts[bytes], reason: Reason) -> None:
        """MQTT 3.1.1 has no way to refuse a message, so the connection ends."""
        if self._c.version != 5:
            self._c.socket.refuse_with(reason, "a message was refused")
            return
        kind, ids = _kind_and_ids(b"".join(answer.ids))
        answer.ids = [refused(kind, number, reason) for number in ids]
        if kind == packets.PUBREC and self._c.session is not None:
            for number in ids:
                self._c.mqtt.forget_received(self._c.session, number)
        answer.steps = 1
        self._answered(answer)

    def released(self, number: int) -> None:
        """PUBREL: the client will not send a message with QoS 2 again."""
        assert self._c.session is not None
        if number not in self._c.session.received:
            unknown = refused(packets.PUBCOMP, number, Reason.PACKET_ID_NOT_FOUND)
            self._c.socket.write(unknown if self._c.version == 5 else acknowledgements(packets.PUBCOMP, (number,)))
            return
        answer = partial(self._c.socket.write_later, acknowledgements(packets.PUBCOMP, (number,)))
        self._c.mqtt.forget_received(self._c.session, number, answer)


def _kind_and_ids(packed: bytes) -> tuple[int, list[int]]:
    """Of the PUBACK or PUBREC packets of an answer."""
    ids, at = [], 0
    while at < len(packed):
        ids.append(int.from_bytes(packed[at + 2 : at + 4], "big"))
        at += 2 + packed[at + 1]
    return packed[0] >> 4, ids
