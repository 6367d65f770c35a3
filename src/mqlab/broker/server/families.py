"""The broker's counters as Prometheus names them."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mqlab.broker.core.destinations import TEMPORARY
from mqlab.broker.core.queue import Queue
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

Values = dict[str, float]


class Families:
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
        self._broker.look_at_the_clock()
        shown: dict[str, Values] = {}
        for queue in self._broker.core.house.all():
            label, lasting = _label(queue)
            counted: Values = dict(asdict(queue.counters))
            _add(shown.setdefault(label, {}), _now(queue))
            if lasting:
                _add(shown[label], counted)
            else:
                self._count(label, queue, counted)
        for label, counted in self._fleeting.items():
            _add(shown.setdefault(label, _now(None)), counted)
        return _Taken(self._broker.status(), shown)

    def _count(self, label: str, queue: Queue, counted: Values) -> None:
        """What came since the last look: so the sum never falls when one of them goes."""
        before = self._seen.get(queue, {})
        more = {key: value - before.get(key, 0) for key, value in counted.items()}
        _add(self._fleeting.setdefault(label, {}), more)
        self._seen[queue] = counted


class _Taken(Collector):
    def __init__(self, status: dict[str, Any], destinations: dict[str, Values]) -> None:
        self._status = status
        self._destinations = destinations

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


def _number(value: float | str) -> float:
    """Of a reason, whether there is one."""
    return bool(value) if isinstance(value, str) else value


def _add(to: Values, more: Values) -> None:
    for key, value in more.items():
        to[key] = to.get(key, 0) + value
