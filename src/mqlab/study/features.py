"""The features that a point requires of a system. A system that lacks one cannot run the point."""

from typing import Final

from mqlab.study.point import Point

# In the order in which they are shown.
FEATURES: Final = {
    "queues": "each message goes to one consumer",
    "topics": "each message goes to every subscriber",
    "competing consumers": "several consumers share a queue",
    "persistent": "a confirmed message outlives the broker's death",
    "confirmed": "a send is answered",
    "transactions": "sends or receipts take effect together",
    "client acknowledgement": "the consumer says when it is done",
    "lazy acknowledgement": "acknowledgements may be late, so messages may come twice",
    "selectors": "a consumer chooses messages by their properties",
    "durable subscriptions": "a subscriber that was away gets what it missed",
    "request/reply": "a request finds its way, and its reply finds the requester",
    "retrieval by correlation id": "many requesters share a reply queue, and each takes its own replies",
    "depth": "the number of messages on a queue can be asked, and the queue be removed",
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
