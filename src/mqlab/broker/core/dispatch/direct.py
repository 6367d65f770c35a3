"""Direct delivery: a single message goes to a waiting consumer without entering a list of the queue.

Without it, RR1 has 17 % and `bindings` has 27 % fewer round trips a second of processor time (`bench/cpu_time.py OLD`).
`test_direct_equals_queued` proves that it has the same effects as the queued path.

Each function returns without any change where the message needs the queued path.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqlab.broker.core.dispatch.round_robin import take_consumer
from mqlab.broker.core.effects import deliver
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.broker.core.routing.ordering import ORDERING_HEADERS
from mqlab.wire.native.columns import Value, decode_single
from mqlab.wire.native.payload import Payload

# A message with one of these headers needs ordering, a delay, grouping or duplicate detection: the queued path.
_NEEDS_QUEUE: Final = ORDERING_HEADERS | {"duplicate_id"}
_NO_HEADERS: Final[Mapping[str, Value]] = MappingProxyType({})
# The headers of a message, if they are decoded already.
DecodedHeaders = Mapping[str, Value] | None


def try_deliver(producer: CoreProducer, payload: Payload, headers: DecodedHeaders) -> bool:
    """Deliver a non-persistent message now. False: no consumer waits, or the message needs the queued path."""
    queue = producer.destination
    if not isinstance(queue, Queue) or queue.closed or queue.full:
        return False
    if headers is None:
        headers = decode_single(payload).values
    consumer = take_consumer(queue, headers) if _NEEDS_QUEUE.isdisjoint(headers) else None
    if consumer is None:
        return False
    first = consumer.next_delivery
    span = queue.put_delivered(consumer, payload, producer.origin)
    queue.context.effects.append(deliver((consumer, first, span)))
    return True


def reserve_single(producer: CoreProducer, payload: Payload, headers: DecodedHeaders) -> tuple[Queue, Span] | None:
    """Reserve a persistent message that becomes visible when it is durable. None: it needs the queued path."""
    queue = producer.destination
    if not isinstance(queue, Queue) or not queue.stored or queue.subscription is not None:
        return None
    if not _NEEDS_QUEUE.isdisjoint(decode_single(payload).values if headers is None else headers):
        return None
    return queue, queue.reserve_single(payload, producer.origin)


def try_deliver_reserved(queue: Queue, span: Span) -> bool:
    """Deliver a reserved message that is durable now. False: no consumer waits for it yet."""
    payload = span.payload
    if not isinstance(payload, Payload):
        return False
    consumer = take_consumer(queue, decode_single(payload).values if queue.receives is not None else _NO_HEADERS)
    if consumer is None:
        return False
    queue.unhide(span)
    queue.count_put(span)
    # `deliver_span`, without a call for each message.
    queue.context.effects.append(deliver((consumer, queue.count_delivered(consumer, span), span)))
    return True
