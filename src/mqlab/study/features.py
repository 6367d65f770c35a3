"""The features that a point requires of a system. A system that lacks one cannot run the point."""

from collections.abc import Callable
from typing import Final, NamedTuple

from mqlab.study.point import Point


class Feature(NamedTuple):
    meaning: str
    is_required: Callable[[Point], bool]


# In the order in which they are shown.
FEATURES: Final = {
    "queues": Feature("each message goes to one consumer", lambda point: point.domain == "queue"),
    "topics": Feature("each message goes to every subscriber", lambda point: point.domain == "topic"),
    "competing consumers": Feature(
        "several consumers share a queue",
        lambda point: point.domain == "queue" and max(point.consumers, point.responders) > point.destinations,
    ),
    "persistent": Feature("a confirmed message survives a crash of the broker", lambda point: point.persistent),
    "confirmed": Feature(
        "the broker confirms a send", lambda point: point.pattern != "request-reply" and point.send == "confirmed"
    ),
    "transactions": Feature("sends or receipts take effect together", lambda point: point.transaction > 0),
    "client acknowledgement": Feature(
        "the consumer acknowledges messages itself", lambda point: point.acknowledge == "client"
    ),
    "lazy acknowledgement": Feature(
        "acknowledgements may be late, so messages may be delivered twice", lambda point: point.acknowledge == "dups_ok"
    ),
    "properties": Feature(
        "messages have properties of the application, which protocols also call headers",
        lambda point: bool(point.selector or point.properties),
    ),
    "priority": Feature("messages have a priority", lambda point: bool(point.priority)),
    "expiry": Feature("messages expire", lambda point: point.expires > 0),
    "keys": Feature("messages have a key: a message group or a record key", lambda point: bool(point.key)),
    "selectors": Feature("a consumer selects messages by their properties", lambda point: bool(point.selector)),
    "durable subscriptions": Feature(
        "a subscriber gets the messages of the time it was disconnected", lambda point: point.durable
    ),
    "request/reply": Feature(
        "a reply goes to the requester that sent the request", lambda point: point.pattern == "request-reply"
    ),
    "retrieval by correlation id": Feature(
        "requesters share a reply queue, and each receives its own replies",
        lambda point: point.pattern == "request-reply" and point.preload > 0,
    ),
    "depth": Feature(
        "a client can query the depth of a queue and delete the queue",
        lambda point: point.preload > 0 or point.load != "both",
    ),
    "bindings": Feature("clients inside the broker's own process", lambda point: point.topology == "bindings"),
    "distributed": Feature("channels between two brokers", lambda point: point.topology == "distributed"),
}


def required_features(point: Point) -> list[str]:
    return [name for name, feature in FEATURES.items() if feature.is_required(point)]
