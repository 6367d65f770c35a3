"""The broker's counters as Prometheus metric families."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mqlab.broker.core import monitoring
from mqlab.broker.core.model.destination_names import TEMPORARY
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.server.broker import Broker
from mqlab.json_values import JsonObject


class _Family(NamedTuple):
    """`key` names the value in the status of the broker, of a destination or of a channel."""

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
    _Family("disk_full", "disk_full", "1: the disk is full, so persistent sends are refused.", counter=False),
    _Family("held_producers", "held_producers", "Producers that wait for credit.", counter=False),
    _Family("holds", "holds", "How often a producer had to wait for credit."),
    _Family("held_ms", "held_seconds", "Total time that producers waited for credit.", scale=0.001),
    _Family("syncs", "syncs", "Syncs of the journal."),
    _Family("sync_seconds", "sync_seconds", "Time spent in them."),
    _Family("journal_bytes", "journal_bytes", "Bytes written to the journal."),
    _Family("journal_length", "journal_length_bytes", "Bytes of the journal's files.", counter=False),
    _Family("checkpoints", "checkpoints", "Checkpoints of the journal."),
    _Family("checkpoint_seconds", "checkpoint_seconds", "Time that checkpoints took."),
    _Family("checkpoint_bytes", "checkpoint_bytes", "Bytes that checkpoints wrote."),
    _Family("longest_turn_ns", "longest_turn_seconds", "The longest turn of the event loop.", False, 1e-9),
)
_DESTINATION: Final = (
    _Family("messages", "messages", "Messages that are not acknowledged.", counter=False),
    _Family("bytes", "bytes", "Bytes of these messages.", counter=False),
    _Family("consumers", "consumers", "Consumers.", counter=False),
    _Family("full", "full", "1: at its limit; the number of full queues if a label stands for several.", counter=False),
    _Family("put", "put", "Messages that were sent to it."),
    _Family("delivered", "delivered", "Deliveries to consumers."),
    _Family("redelivered", "redelivered", "Deliveries of messages that had been delivered before."),
    _Family("acknowledged", "acknowledged", "Messages that consumers acknowledged."),
    _Family("expired", "expired", "Messages that expired."),
    _Family("dead", "dead_letters", "Messages moved to the dead letter queue."),
    _Family("dropped", "dropped", "Messages dropped because their subscription was full."),
    _Family("saved", "saved", "Messages that were paged out."),
)
# Only with monitoring, and only for destinations with a label of their own: a mean of means says nothing.
_MONITORED: Final = (
    _Family("on_queue_short_us", "queue_time_seconds", "Time on the queue, recent mean.", counter=False, scale=1e-6),
    _Family("on_queue_long_us", "queue_time_long_seconds", "The same, long-term mean.", counter=False, scale=1e-6),
    _Family("put_rate", "put_rate", "Messages sent to it a second, recently.", counter=False),
    _Family("get_rate", "get_rate", "Messages delivered a second, recently.", counter=False),
    _Family("oldest_age_ms", "oldest_age_seconds", "Age of its oldest message.", counter=False, scale=0.001),
    _Family("last_put_ms", "last_put_seconds", "Time of the last send, since 1970.", counter=False, scale=0.001),
    _Family("last_get_ms", "last_get_seconds", "Time of the last delivery, since 1970.", counter=False, scale=0.001),
)
_CHANNEL: Final = (
    _Family("running", "channel_running", "1: the channel is connected.", counter=False),
    _Family("messages", "channel_messages", "Messages that the channel has moved."),
    _Family("bytes", "channel_bytes", "Bytes of these messages."),
    _Family("batches", "channel_batches", "Batches that the channel has moved."),
    _Family("refused", "channel_refused", "Messages that the other broker refused, now dead letters."),
    _Family("lost", "channel_lost", "Non-persistent messages lost in a crash of the other broker."),
    _Family("in_doubt", "channel_in_doubt", "Messages that may or may not have arrived.", counter=False),
    _Family("batch_short", "channel_batch_size", "Messages in a batch, recent mean.", counter=False),
    _Family("round_trip_short_us", "channel_round_trip_seconds", "Round trip of a batch, recent mean.", False, 1e-6),
    _Family("round_trip_long_us", "channel_round_trip_long_seconds", "The same, long-term mean.", False, 1e-6),
)

Values = dict[str, float]


class PrometheusMetrics:
    """Takes snapshots of the counters of a broker.

    Subscriptions without a name and temporary queues are short-lived, so there is one label for each topic and one for
    all temporary queues. Their sums miss what a queue counted between the last snapshot and its end.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last_counters: WeakKeyDictionary[Queue, Values] = WeakKeyDictionary()
        self._short_lived: dict[str, Values] = {}

    def snapshot(self) -> Collector:
        """The counters as they are now."""
        self._broker.update_clock()
        destinations: dict[str, Values] = {}
        monitored: dict[str, JsonObject] = {}
        for queue in self._broker.core.destinations.all_queues():
            label, is_separate = _label(queue)
            counted: Values = dict(asdict(queue.counters))
            _add(destinations.setdefault(label, {}), _gauges(queue))
            if is_separate:
                _add(destinations[label], counted)
                monitored[label] = monitoring.describe(queue) or {}
            else:
                self._add_increase(label, queue, counted)
        for label, counted in self._short_lived.items():
            _add(destinations.setdefault(label, _gauges(None)), counted)
        channels = {channel["to"]: _channel_values(channel) for channel in self._broker.channels.status()}
        return _Snapshot(self._broker.status(), destinations, monitored, channels)

    def _add_increase(self, label: str, queue: Queue, counted: Values) -> None:
        """Add what the queue has counted since the last snapshot, so that the sum never falls when a queue ends."""
        before = self._last_counters.get(queue, {})
        increase = {key: value - before.get(key, 0) for key, value in counted.items()}
        _add(self._short_lived.setdefault(label, {}), increase)
        self._last_counters[queue] = counted


class _Snapshot(Collector):
    def __init__(
        self, status: JsonObject, destinations: dict[str, Values], monitored: dict[str, JsonObject],
        channels: dict[str, JsonObject],
    ) -> None:  # fmt: skip
        self._status = status
        self._destinations = destinations
        self._monitored = monitored
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
        labelled = ((_MONITORED, "destination", self._monitored), (_CHANNEL, "to", self._channels))
        for families, label_name, objects in labelled if self._channels else labelled[:1]:
            for family in families:
                metric = _metric(family, (label_name,))
                for label, values in objects.items():
                    # An event that has not happened yet has no time.
                    if values.get(family.key) is not None:
                        metric.add_metric((label,), values[family.key] * family.scale)
                yield metric


def _metric(family: _Family, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if family.counter else GaugeMetricFamily
    return kind(f"mqlab_{family.name}", family.about, labels=labels)


def _label(queue: Queue) -> tuple[str, bool]:
    """The label of a queue, and whether the queue has the label for itself."""
    if queue.owner is not None:
        # The name of a queue cannot contain a star.
        return f"queue:{TEMPORARY}*", False
    subscription = queue.subscription
    if subscription is None or subscription.durable or subscription.terms.shared:
        return queue.full_name, True
    return f"topic:{subscription.terms.topic}", False


def _gauges(queue: Queue | None) -> Values:
    """Gauges of a queue; None: of a queue that no longer exists."""
    if queue is None:
        return {"messages": 0, "bytes": 0, "consumers": 0, "full": 0}
    return {"messages": queue.messages, "bytes": queue.size, "consumers": len(queue.consumers), "full": int(queue.full)}


def _channel_values(status: JsonObject) -> JsonObject:
    return {**status, **(status["monitoring"] or {}), "running": status["state"] == "running"}


def _number(value: float | str) -> float:
    """A text, such as a reason, counts as 1."""
    return bool(value) if isinstance(value, str) else value


def _add(total: Values, increase: Values) -> None:
    for key, value in increase.items():
        total[key] = total.get(key, 0) + value
