"""The features that a point requires of a system. A system that lacks one cannot run the point."""

from typing import Final

from mqlab.study.point import Point

# In the order in which they are shown.
FEATURES: Final = {
    "queues": "each message goes to one consumer",
    "topics": "each message goes to every subscriber",
    "competing consumers": "several consumers share a queue",
    "persistent": "a confirmed message survives a crash of the broker",
    "confirmed": "the broker confirms a send",
    "transactions": "sends or receipts take effect together",
    "client acknowledgement": "the consumer acknowledges messages itself",
    "lazy acknowledgement": "acknowledgements may be late, so messages may be delivered twice",
    "selectors": "a consumer selects messages by their properties",
    "durable subscriptions": "a subscriber gets the messages of the time it was disconnected",
    "request/reply": "a reply goes to the requester that sent the request",
    "retrieval by correlation id": "requesters share a reply queue, and each receives its own replies",
    "depth": "a client can query the depth of a queue and delete the queue",
    "bindings": "clients inside the broker's own process",
    "distributed": "channels between two brokers",
}


def required_features(point: Point) -> list[str]:
    """Return the features that a system must have to run the point."""
    request_reply = point.pattern == "request-reply"
    required = {
        "queues": point.domain == "queue",
        "topics": point.domain == "topic",
        "competing consumers": point.domain == "queue" and max(point.consumers, point.responders) > point.destinations,
        "persistent": point.persistent,
        "confirmed": not request_reply and point.send == "confirmed",
        "transactions": point.transaction > 0,
        "client acknowledgement": point.acknowledge == "client",
        "lazy acknowledgement": point.acknowledge == "dups_ok",
        "selectors": bool(point.selector),
        "durable subscriptions": point.durable,
        "request/reply": request_reply,
        "retrieval by correlation id": request_reply and point.preload > 0,
        "depth": point.preload > 0 or point.load != "both",
        "bindings": point.topology == "bindings",
        "distributed": point.topology == "distributed",
    }
    return [feature for feature in FEATURES if required[feature]]
