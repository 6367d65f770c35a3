"""The broker's counters as Prometheus names them."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mqlab.broker.core import monitoring
from mqlab.broker.core.model.destination_names import TEMPORARY
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.server.broker import Broker


class _Family(NamedTuple):
    """`key` names the value in what is shown of the broker, or of a destination."""

    key: str
    name: str
    about: str
    counter: bool = True
    scale: float = 1


_BROKER: Final = (
    _Family("connections", "connections", "Connections of clients.", counter=False),
    _Family("sessions", "sessions", "Sessions of clients.", counter=False),
    _Family("queues", "queues", "Queues.", counter=False),
    _Family("topics", "topics", "Topics.", counter=False),
    _Family("subscriptions", "subscriptions", "Subscriptions to topics.", counter=False),
    _Family("prepared", "prepared_transactions", "Transactions that wait for a decision.", counter=False),
    _Family("memory", "memory_bytes", "Bytes of messages in memory.", counter=False),
    _Family("disk_full", "disk_full", "1: nothing persistent is accepted, since the disk is full.", counter=False),
    _Family("held_producers", "held_producers", "Producers that are held back now.", counter=False),
    _Family("holds", "holds", "How often a producer was held back."),
    _Family("held_ms", "held_seconds", "How long producers were held back, added up.", scale=0.001),
    _Family("syncs", "syncs", "Syncs of the journal."),
    _Family("sync_seconds", "sync_seconds", "Time spent in them."),
    _Family("journal_bytes", "journal_bytes", "Bytes written to the journal."),
    _Family("journal_length", "journal_length_bytes", "Bytes of the journal's files.", counter=False),
    _Family("checkpoints", "checkpoints", "Checkpoints: what was needed of an old file was written again."),
    _Family("checkpoint_seconds", "checkpoint_seconds", "Time the broker stood still for them."),
    _Family("checkpoint_bytes", "checkpoint_bytes", "Bytes written again by them."),
    _Family("longest_turn_ns", "longest_turn_seconds", "The longest that the broker let all others wait.", False, 1e-9),
)
_DESTINATION: Final = (
    _Family("messages", "messages", "Messages not yet acknowledged.", counter=False),
    _Family("bytes", "bytes", "Bytes of them.", counter=False),
    _Family("consumers", "consumers", "Consumers.", counter=False),
    _Family("full", "full", "1: at its limit; of those shown as one, how many are.", counter=False),
    _Family("put", "put", "Messages that were sent to it."),
    _Family("delivered", "delivered", "Messages given to consumers, each time counted."),
    _Family("redelivered", "redelivered", "Those of them that had been delivered before."),
    _Family("acknowledged", "acknowledged", "Messages that consumers were done with."),
    _Family("expired", "expired", "Messages that nobody took in time."),
    _Family("dead", "dead_letters", "Messages given up after deliveries in vain."),
    _Family("dropped", "dropped", "Messages dropped because their subscription was full."),
    _Family("saved", "saved", "Messages that went to disk for want of memory."),
)
# As far as there is monitoring, and only of destinations that are shown by themselves: a mean of means says nothing.
_WATCHED: Final = (
    _Family("on_queue_short_us", "queue_time_seconds", "Time on the queue, the last looks.", counter=False, scale=1e-6),
    _Family("on_queue_long_us", "queue_time_long_seconds", "The same, many looks.", counter=False, scale=1e-6),
    _Family("put_rate", "put_rate", "Messages sent to it a second, of late.", counter=False),
    _Family("get_rate", "get_rate", "Messages given to consumers a second, of late.", counter=False),
    _Family("oldest_age_ms", "oldest_age_seconds", "Age of its oldest message.", counter=False, scale=0.001),
    _Family("last_put_ms", "last_put_seconds", "When it was last sent to, since 1970.", counter=False, scale=0.001),
    _Family("last_get_ms", "last_get_seconds", "When it was last received from.", counter=False, scale=0.001),
)
_CHANNEL: Final = (
    _Family("running", "channel_running", "1: it is connected and can move messages.", counter=False),
    _Family("messages", "channel_messages", "Messages it has moved."),
    _Family("bytes", "channel_bytes", "Bytes of them."),
    _Family("batches", "channel_batches", "Batches they went in."),
    _Family("refused", "channel_refused", "Messages that the other broker refused: dead letters here."),
    _Family("lost", "channel_lost", "Non-persistent messages that a death of the other broker took."),
    _Family("in_doubt", "channel_in_doubt", "Messages that may or may not have arrived yet.", counter=False),
    _Family("batch_short", "channel_batch_size", "Messages in a batch, the last looks.", counter=False),
    _Family("round_trip_short_us", "channel_round_trip_seconds", "Of a batch, the last looks.", False, 1e-6),
    _Family("round_trip_long_us", "channel_round_trip_long_seconds", "The same, many looks.", False, 1e-6),
)

Values = dict[str, float]


class PrometheusMetrics:
    """Takes the counters of a broker, again and again.

    Subscriptions without a name and temporary queues come and go, so they are shown as one for each topic, and one
    for all temporary queues. What one of them counted between the last look and its end is missing from that.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: WeakKeyDictionary[Queue, Values] = WeakKeyDictionary()
        self._fleeting: dict[str, Values] = {}

    def taken(self) -> Collector:
        """The counters as they are now."""
        self._broker.update_clock()
        shown: dict[str, Values] = {}
        watched: dict[str, dict[str, Any]] = {}
        for queue in self._broker.core.destinations.all_queues():
            label, lasting = _label(queue)
            counted: Values = dict(asdict(queue.counters))
            _add(shown.setdefault(label, {}), _now(queue))
            if lasting:
                _add(shown[label], counted)
                watched[label] = monitoring.describe(queue) or {}
            else:
                self._count(label, queue, counted)
        for label, counted in self._fleeting.items():
            _add(shown.setdefault(label, _now(None)), counted)
        channels = {one["to"]: _of_channel(one) for one in self._broker.channels.status()}
        return _Taken(self._broker.status(), shown, watched, channels)

    def _count(self, label: str, queue: Queue, counted: Values) -> None:
        """What came since the last look: so the sum never falls when one of them goes."""
        before = self._seen.get(queue, {})
        more = {key: value - before.get(key, 0) for key, value in counted.items()}
        _add(self._fleeting.setdefault(label, {}), more)
        self._seen[queue] = counted


class _Taken(Collector):
    def __init__(
        self, status: dict[str, Any], destinations: dict[str, Values], watched: dict[str, dict[str, Any]],
        channels: dict[str, dict[str, Any]],
    ) -> None:  # fmt: skip
        self._status = status
        self._destinations = destinations
        self._watched = watched
        self._channels = channels

    def collect(self) -> Iterator[Metric]:
        for family in _BROKER:
            if family.key in self._status:
                metric = _metric(family, ())
                metric.add_metric((), _number(self._status[family.key]) * family.scale)
                yield metric
        for family in _DESTINATION:
            metric = _metric(family, ("destination",))
            for label, values in self._destinations.items():
                metric.add_metric((label,), values[family.key])
            yield metric
        labelled = ((_WATCHED, "destination", self._watched), (_CHANNEL, "to", self._channels))
        for families, by, found in labelled if self._channels else labelled[:1]:
            for family in families:
                metric = _metric(family, (by,))
                for label, seen in found.items():
                    # Of what never happened there is no time.
                    if seen.get(family.key) is not None:
                        metric.add_metric((label,), seen[family.key] * family.scale)
                yield metric


def _metric(family: _Family, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if family.counter else GaugeMetricFamily
    return kind(f"mqlab_{family.name}", family.about, labels=labels)


def _label(queue: Queue) -> tuple[str, bool]:
    """What it is shown as, and whether it is shown by itself."""
    if queue.owner is not None:
        # No queue can have a star in its name.
        return f"queue:{TEMPORARY}*", False
    subscription = queue.subscription
    if subscription is None or subscription.durable or subscription.terms.shared:
        return queue.full_name, True
    return f"topic:{subscription.terms.topic}", False


def _now(queue: Queue | None) -> Values:
    """What is in it; of one that is gone, nothing."""
    if queue is None:
        return {"messages": 0, "bytes": 0, "consumers": 0, "full": 0}
    return {
        "messages": queue.messages,
        "bytes": queue.size,
        "consumers": len(queue.consumers),
        "full": int(queue.full),
    }


def _of_channel(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, **(shown["monitoring"] or {}), "running": shown["state"] == "running"}


def _number(value: float | str) -> float:
    """Of a reason, whether there is one."""
    return bool(value) if isinstance(value, str) else value


def _add(to: Values, more: Values) -> None:
    for key, value in more.items():
        to[key] = to.get(key, 0) + value
