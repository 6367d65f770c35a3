"""Messages from a client: consecutive ones to the same topic become one batch."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.server.mqtt.topics import SYS, destination_of
from mqlab.wire.mqtt.from_client import PublishRun
from mqlab.wire.mqtt.properties import IN_PUBLISH, Properties, Property, decode_properties
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason

# Messages with QoS 2 of a batch, and acknowledgements of a run: the broker may store something for each. Others get
# their turn between two of them.
STORED_TOGETHER: Final = 64
# Bytes of the bodies of a batch.
_MOST_BATCH: Final = 256 * 1024


class MessageKey(NamedTuple):
    """The values that all messages of a batch share. `properties` are encoded, with the topic alias."""

    qos: int
    retain: bool
    topic: str
    properties: bytes


class MessageBatch:
    def __init__(self, key: MessageKey, properties: Properties, run: PublishRun) -> None:
        self.key = key
        self.properties = properties
        self.chunks: list[tuple[int, bytes]] = []
        self.ids: list[int] = []
        self._size = 0
        self._append(run)

    @property
    def destination(self) -> str:
        """Raises MqttViolationError."""
        return destination_of(self.key.topic)

    @property
    def is_forbidden(self) -> bool:
        """Only the broker sends to its own topics."""
        return self.key.topic.startswith(SYS)

    def add(self, key: MessageKey, run: PublishRun) -> bool:
        """Return False if the messages do not belong to the batch."""
        # Of a topic the last message is retained, so each is handled alone.
        if key != self.key or key.retain or (key.qos == 2 and len(self.ids) >= STORED_TOGETHER):
            return False
        if self._size + len(run.bodies) > _MOST_BATCH:
            return False
        self._append(run)
        return True

    def _append(self, run: PublishRun) -> None:
        self.chunks.append((run.rows, run.bodies))
        self.ids += run.ids
        self._size += len(run.bodies)


def parts_of(run: PublishRun) -> Iterator[PublishRun]:
    """The run itself, or short ones if its messages have QoS 2."""
    if run.flags >> 1 != 2 or run.rows <= STORED_TOGETHER:
        yield run
        return
    size = len(run.bodies) // run.rows
    for begin in range(0, run.rows, STORED_TOGETHER):
        end = min(run.rows, begin + STORED_TOGETHER)
        yield run._replace(ids=run.ids[begin:end], rows=end - begin, bodies=run.bodies[begin * size : end * size])


class TopicResolver:
    """The topics of a client's messages, some of which it names by a number: a topic alias."""

    def __init__(self) -> None:
        self._aliases: dict[int, str] = {}
        self._last: tuple[bytes, bytes] | None = None
        self._resolved: tuple[str, Properties] = ("", {})

    def resolve(self, run: PublishRun) -> tuple[str, Properties]:
        """Topic and properties of a message. Raises MqttViolationError."""
        if self._last != (run.topic, run.properties):
            self._resolved = self._resolve(run)
            self._last = run.topic, run.properties
        return self._resolved

    def _resolve(self, run: PublishRun) -> tuple[str, Properties]:
        try:
            topic = run.topic.decode()
        except UnicodeDecodeError:
            raise MqttViolationError(Reason.MALFORMED_PACKET, "a topic is not UTF-8") from None
        if "\0" in topic:
            raise MqttViolationError(Reason.MALFORMED_PACKET, "a topic has a character that MQTT forbids")
        properties = decode_properties(run.properties, IN_PUBLISH) if run.properties else {}
        alias = properties.pop(Property.TOPIC_ALIAS, None)
        if alias is not None:
            if not 0 < alias <= limits.MQTT_TOPIC_ALIASES:
                raise MqttViolationError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias}")
            if topic:
                self._aliases[alias] = topic
            elif alias not in self._aliases:
                raise MqttViolationError(Reason.PROTOCOL_ERROR, f"topic alias {alias} is not known")
            topic = self._aliases[alias]
        return topic, properties
