"""The names of the metrics, with their units: the words that exhibits, claims and measures share."""

from typing import Final

METRICS: Final = {
    "rate.received": "messages/s",  # total over the consumers: with topics every delivered copy counts
    "rate.sent": "messages/s",
    "bytes.received": "bytes/s",
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
    "rss.broker": "bytes",
    "rss.agents": "bytes",
    "syncs": "1/s",
    "sync.share": "%",  # of the time, spent inside a sync
    "holds": "count",  # how often a producer was held back
    "held.seconds": "s",  # for how long, all producers together
}
