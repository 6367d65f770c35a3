"""Direct delivery: a single message goes to a waiting consumer without entering a list of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqlab.broker.core.dispatch.delivery import deliver_span
from mqlab.broker.core.dispatch.round_robin import take_consumer
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Producer
from mqlab.broker.core.routing.ordering import ORDERING_HEADERS
from mqlab.wire.native.columns import Value, decode_single
from mqlab.wire.native.payload import Payload

# A message with one of these headers needs ordering, a delay, grouping or duplicate detection: the queued path.
_NEEDS_QUEUE: Final = ORDERING_HEADERS | {"duplicate_id"}
# The headers of a message, if they are decoded already.
DecodedHeaders = Mapping[str, Value] | None


def try_deliver(producer: Producer, payload: Payload, headers: DecodedHeaders) -> bool:
    """Deliver a non-persistent message now. False: no consumer waits, or the message needs the queued path."""
    queue = producer.destination
    if not isinstance(queue, Queue) or queue.closed or queue.full:
        return False
    if headers is None:
        headers = decode_single(payload).values
    consumer = take_consumer(queue, headers) if _NEEDS_QUEUE.isdisjoint(headers) else None
    if consumer is None:
        return False
    span = Span(payload, queue.new_ids(1), persistent=False, origin=producer.origin)
    queue.reserve(span)
    queue.count_put(span)
    deliver_span(queue, consumer, span)
    return True
