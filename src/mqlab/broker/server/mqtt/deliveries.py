"""Messages to a client: in order, no more under way than the client can take."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from mqlab.broker import limits
from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.adapter.id_ranges import ranges_of
from mqlab.broker.server.mqtt.messages import RETAIN, RETAINED, properties_of, qos_of
from mqlab.broker.server.mqtt.session import MqttSession, SubscriptionOptions
from mqlab.broker.server.mqtt.topics import TopicFilter, topic_of
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.from_broker import publish, publish_table
from mqlab.wire.mqtt.packets import Version
from mqlab.wire.mqtt.properties import Property, encode_fields, with_length
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import decode_batch, decode_single
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind

_REDELIVERED, _PERSISTENT = int(Flag.REDELIVERED), int(Flag.PERSISTENT)
_PUBLISH: Final = packets.PUBLISH << 4
_DUPLICATE: Final = 8
_PACKET_IDS: Final = 65_535
_NO_TOPIC: Final = b"\0\0"


class MqttSubscription:
    def __init__(self, link: int, topic_filter: TopicFilter, options: SubscriptionOptions) -> None:
        self.link = link
        self.filter = topic_filter
        self.options = options
        # The destination of the next deliveries; "": the one of the subscription.
        self.origin = ""
        self.is_open = self.is_closed = False
        # The packet ids of its messages follow from the ids of messages on its queue, so they are the same when a
        # message is sent again, also after a restart.
        self._offset = crc32(topic_filter.written.encode()) % _PACKET_IDS

    def packet_id(self, message_id: int) -> int:
        return 1 + (self._offset + message_id) % _PACKET_IDS


class UnderWay(NamedTuple):
    """A message with QoS 1 or 2 that the client has not acknowledged. `released`: QoS 2, and the client has it."""

    subscription: MqttSubscription | None
    delivery: int
    message_id: int
    qos: int
    released: bool = False


class PendingDelivery:
    """Messages that the broker has delivered; those from row `at` on are not sent to the client yet."""

    def __init__(self, subscription: MqttSubscription, frame: Frame, ranges: Sequence[tuple[int, int]]) -> None:
        _, flags, delivered, _, first, rows, data = frame
        self.subscription = subscription
        self.first, self.rows, self.at = first, rows, 0
        self.topic = topic_of(subscription.origin or subscription.filter.destination)
        self.persistent = bool(flags & _PERSISTENT)
        self.duplicate = bool(flags & _REDELIVERED) and delivered > 0
        self._ranges = ranges
        self.payload = Payload(data, rows, flags & FORM)

    @property
    def left(self) -> int:
        return self.rows - self.at

    def message_ids(self) -> list[int]:
        """Of the rows that are left."""
        return [number for first, rows in self._ranges for number in range(first, first + rows)][self.at :]

    def messages(self) -> "Iterator[tuple[bytes | memoryview, dict[str, Any]]]":
        """Body, headers and properties of each row that is left."""
        if self.payload.form & SINGLE:
            single = decode_single(self.payload)
            yield single.body, single.values
            return
        for row in decode_batch(self.payload).slice(self.at).to_pylist():
            body = row.pop("body")
            yield body, {name: value for name, value in row.items() if value is not None}


class ClientLimits(NamedTuple):
    """The limits that the client has set."""

    receive_maximum: int = limits.MQTT_RECEIVE_MAXIMUM
    max_packet: int = 0
    topic_aliases: int = 0


class Deliveries:
    """The subscriptions of a connection, and what is under way. `take` returns the bytes for the socket."""

    def __init__(self, commands: NativeCommands, session: MqttSession, version: Version, most: ClientLimits) -> None:
        self._commands = commands
        self._session = session
        self._version = version
        self._most = most
        self.by_filter: dict[str, MqttSubscription] = {}
        self._by_link: dict[int, MqttSubscription] = {}
        self._waiting: deque[PendingDelivery] = deque()
        self._aliases: dict[str, int] = {}
        self._written: list[bytes] = []
        # PendingDelivery ids to acknowledge when the bytes are with the socket.
        self._to_settle: list[tuple[MqttSubscription, int, int]] = []
        self.under_way: dict[int, UnderWay] = {
            number: UnderWay(None, 0, message_id, 2, released=True)
            for number, (_, message_id) in session.released.items()
        }

    # Subscriptions

    def open(
        self, topic_filter: TopicFilter, options: SubscriptionOptions, session: int, name: str
    ) -> MqttSubscription:
        """Open a consumer; `name` of a durable subscription, or ""."""
        subscription = MqttSubscription(self._commands.new_link(), topic_filter, options)
        self.by_filter[topic_filter.written] = self._by_link[subscription.link] = subscription
        document: dict[str, object] = {"destination": topic_filter.destination}
        if name:
            document["durable"] = name
        if topic_filter.group:
            document["shared"] = name
        if options.no_local:
            document["no_local"] = True
        credit = limits.MQTT_PREFETCH
        if options.qos:
            credit = min(credit, self._most.receive_maximum)
        self._commands.add_json(Kind.OPEN_CONSUMER, document, session=session, link=subscription.link, amount=credit)
        return subscription

    def linked(self, link: int) -> MqttSubscription | None:
        return self._by_link.get(link)

    def close(self, subscription: MqttSubscription) -> None:
        """Its messages under way stay so; the broker has them back."""
        self._commands.add(Kind.CLOSE, link=subscription.link)
        self.forget(subscription)

    def forget(self, subscription: MqttSubscription) -> None:
        subscription.is_closed = True
        del self._by_link[subscription.link]
        if self.by_filter.get(subscription.filter.written) is subscription:
            del self.by_filter[subscription.filter.written]
        self._waiting = deque(delivery for delivery in self._waiting if delivery.subscription is not subscription)
        self._to_settle = [entry for entry in self._to_settle if entry[0] is not subscription]

    # Messages

    def deliver(self, frame: Frame, ranges: Sequence[tuple[int, int]]) -> None:
        subscription = self._by_link.get(frame.link)
        if subscription is None:
            return
        self._waiting.append(PendingDelivery(subscription, frame, ranges))
        self.advance()

    def advance(self) -> None:
        """Write as many messages as the client can take."""
        while self._waiting:
            delivery = self._waiting[0]
            topic_filter = delivery.subscription.filter
            if topic_filter.excludes_system_topics and delivery.topic.startswith("$"):
                self._skip(delivery, delivery.left)
            elif delivery.payload.form & COLUMNS or self._session.released:
                self._write_singly(delivery)
            else:
                self._write_alike(delivery)
            if delivery.left:
                return
            self._waiting.popleft()

    def take(self) -> bytes:
        written, self._written = self._written, []
        return b"".join(written)

    def unsent(self) -> list[tuple[int, int, int]]:
        """Link, first delivery id and number of messages that the client was not sent."""
        return [(delivery.subscription.link, delivery.first + delivery.at, delivery.left) for delivery in self._waiting]

    def settle_written(self) -> None:
        """Acknowledge messages with QoS 0, which are with the socket."""
        settled, self._to_settle = self._to_settle, []
        for subscription, first, rows in settled:
            self._settle(subscription, first, rows)

    def _write_alike(self, delivery: PendingDelivery) -> None:
        """Messages that have only bodies."""
        subscription = delivery.subscription
        qos = min(subscription.options.qos, int(delivery.persistent))
        rows, ids = delivery.left, []
        if qos:
            ids = self._free_ids(delivery)
            rows = len(ids)
            if not rows:
                return
        topic, alias = self._topic_field(delivery.topic)
        properties = self._encoded(alias, subscription, {})
        first = _PUBLISH | qos << 1 | (_DUPLICATE if qos and delivery.duplicate else 0)
        begin, bodies = delivery.at, decode(delivery.payload)
        delivery.at += rows
        table = bodies.table()
        if table is not None and not (alias and topic != _NO_TOPIC) and not self._most.max_packet:
            self._written.append(publish_table(first, topic, ids, properties, table[begin : begin + rows]))
        else:
            for at in range(rows):
                packet = publish(first, topic, ids[at] if ids else 0, properties, bodies[begin + at])
                is_written = self._write(packet, subscription, delivery.first + begin + at, ids[at] if ids else 0)
                if is_written and alias:
                    self._aliases[delivery.topic], topic = alias, _NO_TOPIC
        if not qos:
            self._to_settle.append((subscription, delivery.first + begin, rows))

    def _free_ids(self, delivery: PendingDelivery) -> list[int]:
        """The packet ids of the next messages, as many as the client can take now."""
        subscription, under_way = delivery.subscription, self.under_way
        room = self._most.receive_maximum - len(under_way)
        ids = []
        for at, message_id in enumerate(delivery.message_ids()[: max(0, room)]):
            number = subscription.packet_id(message_id)
            if number in under_way:
                break
            under_way[number] = UnderWay(subscription, delivery.first + delivery.at + at, message_id, 1)
            ids.append(number)
        return ids

    def _write_singly(self, delivery: PendingDelivery) -> None:
        """Messages with headers and properties, or of a session with released ones: each is looked at."""
        subscription, options = delivery.subscription, delivery.subscription.options
        released = {*self._session.released.values()}
        for message_id, (body, fields) in zip(delivery.message_ids(), [*delivery.messages()], strict=True):
            qos = min(options.qos, qos_of(fields, persistent=delivery.persistent))
            number = delivery.first + delivery.at
            if qos == 2 and (subscription.filter.written, message_id) in released:
                # The client has it; only the end of the handshake is missing.
                self._skip(delivery, 1)
                continue
            packet_id = subscription.packet_id(message_id) if qos else 0
            if qos:
                if packet_id in self.under_way or len(self.under_way) >= self._most.receive_maximum:
                    return
                self.under_way[packet_id] = UnderWay(subscription, number, message_id, qos)
            else:
                self._to_settle.append((subscription, number, 1))
            delivery.at += 1
            retain = fields.get(RETAINED) or (options.retain_as_published and fields.get(RETAIN))
            first = _PUBLISH | qos << 1 | bool(retain) | (_DUPLICATE if qos and delivery.duplicate else 0)
            topic, alias = self._topic_field(delivery.topic)
            packet = publish(first, topic, packet_id, self._encoded(alias, subscription, fields), body)
            if self._write(packet, subscription, number, packet_id) and alias:
                self._aliases[delivery.topic] = alias

    def _write(self, packet: bytes, subscription: MqttSubscription, number: int, packet_id: int) -> bool:
        """Return False if the client cannot take it: the broker drops it, as if it was delivered."""
        if not self._most.max_packet or len(packet) <= self._most.max_packet:
            self._written.append(packet)
            return True
        if packet_id:
            del self.under_way[packet_id]
            self._to_settle.append((subscription, number, 1))
        return False

    def _skip(self, delivery: PendingDelivery, rows: int) -> None:
        self._to_settle.append((delivery.subscription, delivery.first + delivery.at, rows))
        delivery.at += rows

    def _topic_field(self, topic: str) -> tuple[bytes, int]:
        """The encoded topic, and its alias or 0. The client knows a new alias once a packet with it is written."""
        if topic in self._aliases:
            return _NO_TOPIC, self._aliases[topic]
        is_free = len(self._aliases) < self._most.topic_aliases
        return packets.text(topic), len(self._aliases) + 1 if is_free else 0

    def _encoded(self, alias: int, subscription: MqttSubscription, fields: dict[str, Any]) -> bytes:
        """The properties of a message, with their length; none in MQTT 3.1.1."""
        if self._version != 5:
            return b""
        values = properties_of(fields, self._now_ms()) if fields else {}
        if alias:
            values[Property.TOPIC_ALIAS] = alias
        if subscription.options.identifier:
            values[Property.SUBSCRIPTION_ID] = subscription.options.identifier
        return with_length(encode_fields(values)) if values else b"\0"

    def _now_ms(self) -> int:
        return self.clock_ms

    # ms since 1970; the connection sets it before each delivery.
    clock_ms = 0

    # Acknowledgements of the client

    def acknowledged(self, ids: Sequence[int]) -> None:
        """PUBACK, or PUBREC with an error: the message is done."""
        by_subscription: dict[MqttSubscription, list[int]] = {}
        for number in ids:
            message = self.under_way.get(number)
            if message is None or message.released:
                continue
            del self.under_way[number]
            if message.subscription is not None and not message.subscription.is_closed:
                by_subscription.setdefault(message.subscription, []).append(message.delivery)
        for subscription, deliveries in by_subscription.items():
            for first, last in ranges_of(deliveries):
                self._settle(subscription, first, last - first + 1)
        self.advance()

    def received(self, number: int) -> UnderWay | None:
        """PUBREC: the client has a message with QoS 2. Returns it, unless it is unknown."""
        message = self.under_way.get(number)
        if message is None or message.qos != 2:
            return None
        if not message.released:
            self.under_way[number] = message._replace(released=True)
            subscription = message.subscription
            if subscription is not None and not subscription.is_closed:
                self._settle(subscription, message.delivery, 1)
        return message

    def completed(self, number: int) -> bool:
        """PUBCOMP: the packet id is free again. Returns whether it was in use."""
        message = self.under_way.get(number)
        if message is None or not message.released:
            return False
        del self.under_way[number]
        self.advance()
        return True

    def _settle(self, subscription: MqttSubscription, first: int, rows: int) -> None:
        self._commands.add(Kind.ACKNOWLEDGE_ROWS, link=subscription.link, first=first, amount=rows)
        self._commands.add(Kind.ACKNOWLEDGE, link=subscription.link, amount=rows)
