"""SUBSCRIBE and UNSUBSCRIBE: consumers of the broker for the topic filters of a client."""

from functools import partial
from typing import Final

from mqlab.broker import limits
from mqlab.broker.server.adapter.producers import PLAIN
from mqlab.broker.server.mqtt.components import MqttComponents
from mqlab.broker.server.mqtt.deliveries import MqttSubscription
from mqlab.broker.server.mqtt.messages import RETAINED, Fields, encode_message, qos_of
from mqlab.broker.server.mqtt.session import SubscriptionOptions
from mqlab.broker.server.mqtt.state import subscription_name
from mqlab.broker.server.mqtt.topics import SYS, TopicFilter, parse_filter
from mqlab.wire.mqtt.from_broker import suback, unsuback
from mqlab.wire.mqtt.from_client import Filter, SubscribePacket, UnsubscribePacket
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason
from mqlab.wire.native.frames import Kind

# The native session of subscriptions that clients with different client ids share.
_SHARED_SESSION: Final = 2


class PendingSubscribe:
    """A SUBSCRIBE whose subscriptions are not all open yet."""

    def __init__(self, packet: SubscribePacket) -> None:
        self.packet_id = packet.packet_id
        self.reasons: list[int] = [int(Reason.UNSPECIFIED_ERROR)] * len(packet.filters)
        # Subscriptions that are not open yet, and one for the SUBSCRIBE itself while it is handled.
        self.opening = 1
        # Subscriptions that get retained messages after SUBACK.
        self.to_retained: list[MqttSubscription] = []


class Subscriber:
    def __init__(self, components: MqttComponents) -> None:
        self._c = components
        # By link: the SUBSCRIBE that waits for it, the number of its filter, and whether retained messages follow.
        self._opening: dict[int, tuple[PendingSubscribe, int, bool]] = {}
        self._has_shared_session = False

    def subscribe(self, packet: SubscribePacket) -> bool:
        pending = PendingSubscribe(packet)
        identifier = packet.properties.get(Property.SUBSCRIPTION_ID, 0)
        for index, wanted in enumerate(packet.filters):
            try:
                topic_filter = parse_filter(wanted.topic)
            except MqttViolationError as error:
                pending.reasons[index] = error.reason
                continue
            if topic_filter.group and wanted.no_local:
                raise MqttViolationError(Reason.PROTOCOL_ERROR, "a shared subscription cannot leave out own messages")
            self._subscribe_to(pending, index, topic_filter, wanted, identifier)
        self._subscribed(pending)
        return True

    def _subscribe_to(
        self, pending: PendingSubscribe, index: int, topic_filter: TopicFilter, wanted: Filter, identifier: int
    ) -> None:
        deliveries, session = self._c.deliveries, self._c.session
        assert deliveries is not None and session is not None  # noqa: PT018 - both are set by the login
        is_queue = topic_filter.destination.startswith("queue:")
        # A message of several consumers cannot wait for one of them, as QoS 2 demands.
        qos = min(wanted.qos, 1) if topic_filter.group or is_queue else wanted.qos
        durable = not is_queue and (session.durable or bool(topic_filter.group))
        existing = deliveries.by_filter.get(wanted.topic)
        if existing is None and len(deliveries.by_filter) >= limits.MQTT_SUBSCRIPTIONS:
            pending.reasons[index] = Reason.QUOTA_EXCEEDED
            return
        known = session.subscriptions.get(wanted.topic)
        no_local = wanted.no_local and not is_queue
        options = SubscriptionOptions(qos, no_local, wanted.retain_as_published, identifier, durable)
        wants_retained = wanted.retain_handling == 0 or (wanted.retain_handling == 1 and known is None)
        wants_retained = wants_retained and not topic_filter.group and not is_queue
        if topic_filter.written.startswith(SYS):
            self._c.mqtt.watch_system_topics()
        if existing is not None and existing.options.no_local == options.no_local:
            options.durable = existing.options.durable
            existing.options = session.subscriptions[wanted.topic] = options
            pending.reasons[index] = qos
            if wants_retained and existing.is_open:
                pending.to_retained.append(existing)
            return
        if existing is not None:
            deliveries.close(existing)
        subscription = self.open_consumer(topic_filter, options)
        pending.opening += 1
        pending.reasons[index] = qos
        self._opening[subscription.link] = pending, index, wants_retained

    def open_consumer(self, topic_filter: TopicFilter, options: SubscriptionOptions) -> MqttSubscription:
        assert self._c.deliveries is not None
        session = PLAIN
        if topic_filter.group:
            session = _SHARED_SESSION
            if not self._has_shared_session:
                self._has_shared_session = True
                document = {"transacted": False, "shared": True}
                self._c.commands.add_json(Kind.OPEN_SESSION, document, session=_SHARED_SESSION)
        name = subscription_name(topic_filter) if options.durable else ""
        return self._c.deliveries.open(topic_filter, options, session, name)

    def opened(self, link: int) -> None:
        subscription = self._c.deliveries.linked(link) if self._c.deliveries is not None else None
        if subscription is None:
            return
        subscription.is_open = True
        opening = self._opening.pop(link, None)
        if opening is None:
            return
        pending, _, wants_retained = opening
        assert self._c.session is not None
        self._c.session.subscriptions[subscription.filter.written] = subscription.options
        if wants_retained:
            pending.to_retained.append(subscription)
        self._subscribed(pending)

    def _subscribed(self, pending: PendingSubscribe) -> None:
        """Write SUBACK when all subscriptions are open, or refused, and the session is stored."""
        pending.opening -= 1
        if not pending.opening and self._c.session is not None:
            self._c.mqtt.save(self._c.session, partial(self._write_suback, pending))

    def _write_suback(self, pending: PendingSubscribe) -> None:
        self._c.socket.write_later(suback(self._c.version, pending.packet_id, pending.reasons))
        for subscription in pending.to_retained:
            if not subscription.is_closed and self._c.session is not None:
                self._send_retained(subscription)

    def _send_retained(self, subscription: MqttSubscription) -> None:
        """Put retained messages on the queue of the subscription: they are delivered as others are."""
        queue = self._c.native.queue_of(subscription.link)
        for message in self._c.mqtt.retained_for(subscription.filter):
            qos = qos_of(message.fields, persistent=False)
            fields: Fields = {**message.fields, RETAINED: True}
            payload = encode_message(message.body, fields)
            persistent = qos > 0 and self._c.has_store
            self._c.core.put(queue, payload, persistent=persistent, origin=message.destination)
        self._c.run_effects()

    def unsubscribe(self, packet: UnsubscribePacket) -> bool:
        deliveries, session = self._c.deliveries, self._c.session
        assert deliveries is not None and session is not None  # noqa: PT018 - both are set by the login
        subscriptions = [deliveries.by_filter.get(written) for written in packet.filters]
        if any(subscription is not None and not subscription.is_open for subscription in subscriptions):
            return False
        reasons = []
        for written, subscription in zip(packet.filters, subscriptions, strict=True):
            if subscription is None or written not in session.subscriptions:
                reasons.append(int(Reason.NO_SUBSCRIPTION_EXISTED))
                continue
            deliveries.close(subscription)
            self._c.socket.send_commands()
            self._c.mqtt.delete_subscription(session, written)
            reasons.append(int(Reason.SUCCESS))
        answer = unsuback(self._c.version, packet.packet_id, reasons)
        self._c.mqtt.save(session, partial(self._c.socket.write_later, answer))
        return True

    def refuse(self, subscription: MqttSubscription, reason: Reason) -> None:
        assert self._c.deliveries is not None
        self._c.deliveries.forget(subscription)
        opening = self._opening.pop(subscription.link, None)
        if opening is not None:
            pending, index, _ = opening
            pending.reasons[index] = reason
            self._subscribed(pending)
