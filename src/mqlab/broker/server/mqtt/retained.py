"""Retained messages: the last one of each topic, which a new subscription gets."""

from collections.abc import Iterator
from typing import NamedTuple

from mqlab.broker import limits
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.mqtt.durable_map import DurableMap, Then
from mqlab.broker.server.mqtt.messages import RETAIN, Fields
from mqlab.broker.server.mqtt.topics import TopicFilter
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason


class RetainedMessage(NamedTuple):
    destination: str
    body: bytes
    fields: Fields


class RetainedMessages:
    def __init__(self, broker: ChannelHost) -> None:
        self._map = DurableMap(broker, "mqtt.retained")
        self._context = broker.core.context
        self._most = broker.settings.memory_limit // limits.MQTT_STATE_SHARE

    def __len__(self) -> int:
        return len(self._map)

    def check_room(self, body: bytes) -> None:
        """Raises MqttViolationError."""
        if self._map.size + len(body) > self._most:
            raise MqttViolationError(Reason.QUOTA_EXCEEDED, f"retained messages have at most {self._most} bytes")

    def retain(self, destination: str, body: bytes, fields: Fields, then: Then | None = None) -> None:
        """Replace the retained message of a topic; an empty body removes it. `then`: it is durable."""
        if body:
            kept = {name: value for name, value in fields.items() if name not in (RETAIN, "duplicate_id")}
            self._map.put(destination, body, kept, then)
        else:
            self._map.remove(destination, then)

    def matching(self, topic_filter: TopicFilter) -> Iterator[RetainedMessage]:
        now_ms = self._context.now_ms
        for destination, entry in self._map.items():
            expiration = entry.fields.get("expiration")
            if expiration and expiration <= now_ms:
                self._map.remove(destination)
            elif topic_filter.matches(destination):
                yield RetainedMessage(destination, entry.body, entry.fields)
