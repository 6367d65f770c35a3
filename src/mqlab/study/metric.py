"""The metric registry: every metric once, with what the pipeline, the reports, the study language and docs/studies.md
need to know of it. A new metric is a line here and a value in the module of `pipeline/tables` that computes it.
"""

from dataclasses import dataclass
from typing import Final, Literal

Direction = Literal["higher", "lower"]
ReportTable = Literal["points", "latency", "resources", ""]


@dataclass(frozen=True)
class Metric:
    """`label` names it in captions, `head` in the column of `table`: the table of a report that shows it for all points
    ("": only exhibits and claims use it). `better` says which of two values is the better one.
    """

    name: str
    unit: str
    label: str
    meaning: str
    better: Direction
    table: ReportTable = ""
    head: str = ""


# The percentiles of latencies and response times, with the share of messages that took no longer, in per mille.
PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999}
_STATISTICS: Final = {
    **{name: (f"{share / 10:g}\u00a0%", f"{share / 10:g} % took no longer") for name, share in PERCENTILES.items()},
    "max": ("longest", "the longest"),
    "mean": ("mean", "the mean"),
}


def _durations(kind: str, label: str, meaning: str, *names: str) -> list[Metric]:
    return [
        Metric(f"{kind}.{name}", "s", f"{label}, {statistic}", f"{meaning}: {explained}", "lower", "latency")
        for name, (statistic, explained) in _STATISTICS.items()
        if not names or name in names
    ]


# In the order of the columns of a report.
_METRICS: Final = (
    Metric("rate.work", "messages/s", "rate",
           "round trips; messages sent, where only the producers work; otherwise messages received", "higher"),
    Metric("rate.round_trips", "round trips/s", "rate of round trips", "requests whose reply was received", "higher",
           "points", "Round trips"),
    Metric("rate.received", "messages/s", "rate at the consumers",
           "messages received by all consumers; of a topic, every copy counts", "higher", "points", "Received"),
    Metric("rate.sent", "messages/s", "rate at the producers", "messages sent by all producers", "higher", "points",
           "Sent"),
    Metric("bytes.round_trips", "bytes/s", "bytes of round trips", "round trips times the size of the body", "higher",
           "points", "Bytes of round trips"),
    Metric("bytes.received", "bytes/s", "bytes at the consumers", "bytes of the bodies received", "higher", "points",
           "Received"),
    Metric("copies", "count", "times each message was delivered",
           "deliveries of each message sent, over the whole run, by the audit", "higher"),
    Metric("message.records", "count", "records in a message",
           "records in each message on the wire, sent and received; more than 1: packed", "higher", "points",
           "Records a message"),
    Metric("frame.messages", "count", "messages in a frame",
           "messages in each frame on the wire, where the client library tells; it may coalesce messages", "higher",
           "points", "Messages a frame"),
    Metric("message.waits", "count", "waits for each message",
           "how often a producer waited for confirmations, for each message it sent; 1: confirmed one by one",
           "lower"),
    *_durations("response", "response time", "from the call that sends a request (open loop: its planned time) to its "
                "reply"),
    *_durations("latency", "latency", "from the call that hands a message over (open loop: its planned time) to its "
                "receipt"),
    *_durations("confirm", "confirm", "from the send to its confirmation", "p50", "p99"),
    Metric("fault.outage", "s", "time without service",
           "the longest time in which no message arrived, from a fault on; a lower bound if none came any more",
           "lower", "latency"),
    Metric("fault.recovery", "s", "time to recover",
           "from a fault until the system serves again, the fault is undone and the backlog is as before; a point has "
           "none if one of its runs has none", "lower", "latency"),
    Metric("cpu.broker", "%", "CPU of the system", "CPU of the system, of one core", "lower", "resources"),
    Metric("cpu.agents", "%", "CPU of the agents", "CPU of the agents, of one core", "lower", "resources"),
    Metric("cpu.lab", "%", "CPU of the lab's own work",
           "CPU of the lab's own work in the agents (numbering, checking and recording messages), of one core", "lower",
           "resources"),
    Metric("cpu.message", "s", "CPU for each message",
           "CPU time of system and agents for each message received (each round trip)", "lower", "resources"),
    Metric("rss.broker", "bytes", "memory of the system", "most memory of the system that was resident", "lower",
           "resources"),
    Metric("rss.agents", "bytes", "memory of the agents", "most memory of the agents that was resident", "lower",
           "resources"),
    Metric("syncs", "1/s", "syncs", "syncs of files to the disk", "lower", "resources"),
    Metric("sync.share", "%", "time inside a sync", "share of the time that the system spent inside a sync", "lower",
           "resources"),
    Metric("holds", "count", "times a producer was held back", "how often flow control held a producer back", "lower",
           "resources"),
    Metric("held.seconds", "s", "time producers were held back",
           "how long flow control held producers back, all together", "lower", "resources"),
    Metric("onset", "s", "time until a producer was held back",
           "from the start of the load to the first time that flow control held a producer back", "higher",
           "resources"),
)  # fmt: skip

METRICS: Final = {metric.name: metric for metric in _METRICS}


# The kinds of metrics that are durations of single messages.
DURATIONS: Final = ("response", "latency", "confirm")
# A percentile with fewer independent observations beyond it is not shown.
FEWEST_BEYOND: Final = 10


def is_between_agents(name: str) -> bool:
    """Whether a metric begins on the clock of one agent and ends on that of another."""
    return name.startswith("latency.")


def is_duration(name: str) -> bool:
    return name.startswith(tuple(f"{kind}." for kind in DURATIONS))


def fewest_observations(name: str) -> int:
    """How many independent observations a percentile needs; 0 for all other metrics."""
    kind, _, statistic = name.partition(".")
    if kind not in DURATIONS or statistic not in PERCENTILES:
        return 0
    return FEWEST_BEYOND * 1000 // (1000 - PERCENTILES[statistic])


def is_throughput(name: str) -> bool:
    """Whether a metric counts messages or bytes a second: where the lab is the bottleneck, it is a lower bound."""
    return name.startswith(("rate.", "bytes."))


def metrics_of(table: ReportTable) -> list[str]:
    """The names of the metrics that a table of the report shows, in the order of its columns."""
    return [metric.name for metric in _METRICS if metric.table == table]
