"""The audit of a run that goes on, as far as it is known: what is under way, and what has gone wrong for good.

The state is the ranges of sequence numbers that were sent and received, joined where they touch: a few for each
producer and subscription, however long the run is. A run whose messages come in so wild an order that they would be too
many has no audit before its end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.pipeline.counts.seen_ranges import IN_ORDER, LATE, MARKED, MOST_RANGES, SENT, Ranges, united
from mqlab.pipeline.kernels.deliveries import NO_SUBSCRIPTION
from mqlab.pipeline.kernels.run_events import Array

# A consumer, a destination and a producer, by their numbers.
Stream = tuple[int, int, int]


@dataclass(frozen=True)
class AuditSoFar:
    """Messages, once for each subscription: sent and not received yet; copies of messages that were received before,
    marked as redelivered or not; messages whose first copy came after a later message.
    """

    not_received: int
    received_again: int
    out_of_order: int


@dataclass
class RunningAudit:
    _sent: Ranges = field(default_factory=Ranges.none)
    # The reader is the subscription.
    _received: Ranges = field(default_factory=Ranges.none)
    # The end of the highest message that each consumer has received of each producer.
    _highest: dict[Stream, int] = field(default_factory=dict)
    # The number of each subscription by consumer and destination.
    _subscriptions: dict[tuple[int, int], int] = field(default_factory=dict)
    _received_again: int = 0
    _out_of_order: int = 0
    is_known: bool = True

    @property
    def kept(self) -> int:
        """How many ranges are kept."""
        return len(self._sent.first) + len(self._received.first) + len(self._highest)

    def add(self, ranges: Mapping[int, Ranges] | None, roles: pa.Table, received: int) -> None:
        """Count what new files have: `received` messages, and the ranges that `read_ranges` gives."""
        if not self.is_known:
            return
        if ranges is None:
            self._give_up()
            return
        consumers = roles.filter(pc.equal(roles["role"], "consumer"))
        places = (consumers[name].to_pylist() for name in ("number", "destination", "subscription"))
        self._subscriptions |= {(number, at): subscription for number, at, subscription in zip(*places, strict=True)}
        self._sent = united([self._sent, ranges[SENT]])
        late_until = self._late_until(ranges[IN_ORDER])
        late = [ranges[LATE], ranges[IN_ORDER]._replace(end=late_until)]
        others = [ranges[MARKED], ranges[IN_ORDER]._replace(first=late_until)]
        # Joined in this order, each adds the messages that were not received before.
        before = self._received.messages
        in_order = self._with(self._received, others)
        self._received = self._with(in_order, late)
        self._out_of_order += self._received.messages - in_order.messages
        self._received_again += received - (self._received.messages - before)
        for stream, end in (pair for kind in (IN_ORDER, LATE, MARKED) for pair in _ends(ranges[kind])):
            self._highest[stream] = max(end, self._highest.get(stream, 0))
        if self.kept > MOST_RANGES:
            self._give_up()

    def _give_up(self) -> None:
        self.is_known = False
        self._sent = self._received = Ranges.none()
        self._highest.clear()

    @property
    def so_far(self) -> AuditSoFar | None:
        """None: it is not known before the end."""
        if not self.is_known:
            return None
        sent = [
            of_destination._replace(reader=np.full(len(of_destination.first), subscription))
            for destination, subscription in sorted({(at, number) for (_, at), number in self._subscriptions.items()})
            for of_destination in [self._sent.of(self._sent.destination == destination)]
        ]
        not_received = united([self._received, *sent]).messages - self._received.messages
        return AuditSoFar(not_received, self._received_again, self._out_of_order)

    def _with(self, received: Ranges, parts: Sequence[Ranges]) -> Ranges:
        """And what consumers have received, as that of their subscriptions."""
        ranges = united(parts)
        readers = zip(ranges.reader.tolist(), ranges.destination.tolist(), strict=True)
        subscriptions = [self._subscriptions.get(reader, NO_SUBSCRIPTION) for reader in readers]
        return united([received, ranges._replace(reader=np.array(subscriptions, np.int64))])

    def _late_until(self, in_order: Ranges) -> Array:
        """Where each range of new messages ends to be below one that its consumer had received before them."""
        highest = np.array([self._highest.get(stream, 0) for stream, _ in _ends(in_order)], np.int64)
        # A second copy of the highest message itself is in order, as in the audit.
        return np.maximum(in_order.first, np.minimum(in_order.end, highest - 1))


def _ends(ranges: Ranges) -> Iterator[tuple[Stream, int]]:
    for consumer, destination, producer, _, end in zip(*(column.tolist() for column in ranges), strict=True):
        yield (consumer, destination, producer), end
