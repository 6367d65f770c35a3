"""The route of a single message: to a waiting consumer, without entering a list of the queue.

Without it, RR1 has 17 % and `bindings` has 27 % fewer round trips a second of processor time, and G has 8 % fewer
persistent messages (`bench/cpu_time.py OLD`). `test_both_ways_do_the_same` proves that it has the same effects as the
queued path.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqlab.broker.core.context import Effects
from mqlab.broker.core.dispatch.round_robin import take_consumer
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Put
from mqlab.broker.core.effects import Confirm, deliver
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.broker.core.removal import Removal
from mqlab.broker.core.routing.ordering import ORDERING_HEADERS
from mqlab.wire.native.columns import Value, decode_single
from mqlab.wire.native.payload import Payload

# A message with one of these headers needs ordering, a delay, grouping or duplicate detection: the queued path.
_NEEDS_QUEUE: Final = ORDERING_HEADERS | {"duplicate_id"}
_NO_HEADERS: Final[Mapping[str, Value]] = MappingProxyType({})
# The headers of a message, if they are decoded already.
DecodedHeaders = Mapping[str, Value] | None


class SingleSends:
    """Sends of single messages outside transactions.

    A method returns False, without any change, if the message needs the queued path.
    """

    def __init__(self, records: PendingRecords, flow: FlowControl, removal: Removal, effects: Effects) -> None:
        self._records = records
        self._flow = flow
        self._removal = removal
        self._effects = effects

    def deliver(
        self, producer: CoreProducer, payload: Payload, confirm: Confirm | None, headers: DecodedHeaders
    ) -> bool:
        """Deliver a non-persistent message, unless an earlier send of its producer is not durable yet."""
        queue, last_lsn = producer.destination, producer.last_lsn
        is_after_pending = last_lsn and self._records.is_pending(last_lsn)
        if is_after_pending or not isinstance(queue, Queue) or queue.closed or queue.full:
            return False
        if headers is None:
            headers = decode_single(payload).values
        consumer = take_consumer(queue, headers) if _NEEDS_QUEUE.isdisjoint(headers) else None
        if consumer is None:
            return False
        first = consumer.next_delivery
        span = queue.put_delivered(consumer, payload, producer.origin)
        self._effects.append(deliver(consumer, first, span))
        if confirm is not None:
            self._effects.append(confirm)
        if producer.spent * 2 >= producer.window or self._flow.short:
            self._flow.renew(producer)
        return True

    def append(
        self, producer: CoreProducer, payload: Payload, confirm: Confirm | None, headers: DecodedHeaders
    ) -> bool:
        """Append the record of a persistent message, and deliver the message when the record is durable."""
        queue = producer.destination
        if not isinstance(queue, Queue) or not queue.stored or queue.subscription is not None:
            return False
        if not _NEEDS_QUEUE.isdisjoint(decode_single(payload).values if headers is None else headers):
            return False
        span = queue.reserve_single(payload, producer.origin)
        put = Put(((queue.number, span.base),), payload, producer.origin)
        producer.last_lsn = self._records.append_single(put, producer, confirm, self._sent, producer, queue, span)
        return True

    def _sent(self, producer: CoreProducer, queue: Queue, span: Span) -> None:
        payload, consumer = span.payload, None
        if isinstance(payload, Payload) and not queue.closed:
            headers = decode_single(payload).values if queue.receives is not None else _NO_HEADERS
            consumer = take_consumer(queue, headers)
        if consumer is None:
            self._removal.make_visible([(queue, span)])
        else:
            queue.unhide(span)
            queue.count_put(span)
            self._effects.append(deliver(consumer, queue.count_delivered(consumer, span), span))
        self._flow.renew(producer)
