"""What a point asks of a system, feature by feature: a system that lacks one cannot play the point, and says why."""

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


def needed(point: Point) -> list[str]:
    """The features without which it cannot be played."""
    answered = point.pattern == "request-reply"
    wanted = {
        "queues": point.domain == "queue",
        "topics": point.domain == "topic",
        "competing consumers": point.domain == "queue" and max(point.consumers, point.responders) > point.destinations,
        "persistent": point.persistent,
        "confirmed": not answered and point.send == "confirmed",
        "transactions": point.transaction > 0,
        "client acknowledgement": point.acknowledge == "client",
        "lazy acknowledgement": point.acknowledge == "dups_ok",
        "selectors": bool(point.selector),
        "durable subscriptions": point.durable,
        "request/reply": answered,
        "retrieval by correlation id": answered and point.preload > 0,
        "depth": point.preload > 0 or point.load != "both",
        "bindings": point.topology == "bindings",
        "distributed": point.topology == "distributed",
    }
    return [feature for feature in FEATURES if wanted[feature]]
