"""The names of the metrics, with their units: the words that exhibits, claims and measures share."""

from typing import Final

METRICS: Final = {
    # What a point is about: its round trips; with load: send what was sent; otherwise what was received.
    "rate.work": "messages/s",
    "rate.received": "messages/s",  # total over the consumers: with topics every delivered copy counts
    "rate.sent": "messages/s",
    "bytes.received": "bytes/s",
    "rate.round_trips": "round trips/s",  # requests whose reply came
    "bytes.round_trips": "bytes/s",  # round trips x the size of the body
    "copies": "count",  # of each message that were delivered, over the whole run: as many as the audit found
    "response.p50": "s",  # from the planned time of a request to its reply
    "response.p90": "s",
    "response.p99": "s",
    "response.p99.9": "s",
    "response.max": "s",
    "response.mean": "s",
    "latency.p50": "s",  # from the planned time of a message to its receipt
    "latency.p90": "s",
    "latency.p99": "s",
    "latency.p99.9": "s",
    "latency.max": "s",
    "latency.mean": "s",
    "confirm.p50": "s",  # from the send to its confirmation
    "confirm.p99": "s",
    "cpu.broker": "%",  # of one core
    "cpu.agents": "%",
    "cpu.message": "s",  # of broker and agents together, for each message received (each round trip)
    "rss.broker": "bytes",
    "rss.agents": "bytes",
    "syncs": "1/s",
    "sync.share": "%",  # of the time, spent inside a sync
    "holds": "count",  # how often a producer was held back
    "held.seconds": "s",  # for how long, all producers together
    "onset": "s",  # from the start of the load to the first time that a producer was held back
}
