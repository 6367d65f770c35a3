"""Translates MQTT topics to destinations of the broker, and back.

The levels of an MQTT topic are separated by slashes, those of the broker's topics by full stops, and `+` is `*`. Each
pair changes places, so every name has exactly one name on the other side. `$queue/NAME` is the queue `NAME`.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from mqlab.broker.core.model.destination_names import QUEUE, TOPIC, BadNameError, parse
from mqlab.broker.patterns import matches
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason

_SWAPPED: Final = str.maketrans("/.+*", "./*+")
_QUEUE_TOPICS: Final = "$queue/"
_SHARED: Final = "$share/"
SYS: Final = "$SYS/"
# A native name may have this sign inside of a level, an MQTT topic never.
_HASH: Final = "%23"


class TopicFilter(NamedTuple):
    """`group`: of a shared subscription, or ""."""

    written: str
    group: str
    destination: str

    @property
    def excludes_system_topics(self) -> bool:
        """A wildcard at the beginning does not match topics that begin with a dollar sign."""
        return self.destination.startswith((f"{TOPIC}:*", f"{TOPIC}:#"))

    def matches(self, destination: str) -> bool:
        if self.excludes_system_topics and destination.startswith(f"{TOPIC}:$"):
            return False
        return matches(self.destination, destination)


@lru_cache(maxsize=4096)
def destination_of(topic: str) -> str:
    """The destination of messages to a topic. Raises MqttViolationError."""
    if not topic or "+" in topic or "#" in topic:
        raise MqttViolationError(Reason.TOPIC_NAME_INVALID, "a topic has at least one character and no wildcard")
    if topic.startswith(_SHARED):
        raise MqttViolationError(Reason.TOPIC_NAME_INVALID, "messages cannot be sent to a shared subscription")
    return _checked(_translated(topic), Reason.TOPIC_NAME_INVALID)


@lru_cache(maxsize=4096)
def parse_filter(written: str) -> TopicFilter:
    """Raises MqttViolationError."""
    group, topic = "", written
    if written.startswith(_SHARED):
        group, slash, topic = written.removeprefix(_SHARED).partition("/")
        if not group or not slash or "+" in group or "#" in group:
            raise _invalid("a shared subscription is $share/GROUP/FILTER")
    levels = topic.split("/")
    if not topic or any(("+" in level or "#" in level) and len(level) > 1 for level in levels) or "#" in levels[:-1]:
        raise _invalid("in a topic filter, + is a whole level, and # is the last level")
    destination = _translated(topic)
    if destination.startswith(f"{QUEUE}:") and group:
        raise _invalid("the consumers of a queue share it without a group")
    return TopicFilter(written, group, _checked(destination, Reason.TOPIC_FILTER_INVALID, patterns=True))


@lru_cache(maxsize=4096)
def topic_of(destination: str) -> str:
    """The MQTT topic of a destination."""
    kind, colon, short = destination.partition(":")
    if not colon or kind not in (QUEUE, TOPIC):
        # A reply-to of another system stays as it is.
        return destination
    topic = short.translate(_SWAPPED).replace("#", _HASH)
    return _QUEUE_TOPICS + topic if kind == QUEUE else topic


def _translated(topic: str) -> str:
    if topic.startswith(_QUEUE_TOPICS):
        return f"{QUEUE}:{topic.removeprefix(_QUEUE_TOPICS).translate(_SWAPPED)}"
    return f"{TOPIC}:{topic.translate(_SWAPPED)}"


def _checked(destination: str, reason: Reason, *, patterns: bool = False) -> str:
    try:
        parse(destination, patterns=patterns)
    except BadNameError as error:
        raise MqttViolationError(reason, str(error)) from None
    return destination


def _invalid(message: str) -> MqttViolationError:
    return MqttViolationError(Reason.TOPIC_FILTER_INVALID, message)
