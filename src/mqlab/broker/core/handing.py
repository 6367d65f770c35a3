"""The short way of a lone message: at once to who waits for it, without ever standing in line."""

from __future__ import annotations

from typing import Final

from mqlab.broker.core.links import Producer
from mqlab.broker.core.messages import Span
from mqlab.broker.core.queue import Queue
from mqlab.broker.core.sorting import SORTED_BY
from mqlab.broker.core.turns import taker
from mqlab.wire.columns import decode_lone
from mqlab.wire.payload import Payload

# With any of these in its header a message may have to wait, or belongs to others, or may have come before.
_NOT_AT_ONCE: Final = SORTED_BY | {"duplicate_id"}


def hand_over(producer: Producer, payload: Payload) -> bool:
    """Of a message that is not persistent. False: nobody waits, or there is more to look at; nothing has happened."""
    queue = producer.destination
    if not isinstance(queue, Queue) or queue.closed or queue.full:
        return False
    headers = decode_lone(payload).values
    consumer = taker(queue, headers) if _NOT_AT_ONCE.isdisjoint(headers) else None
    if consumer is None:
        return False
    span = Span(payload, queue.new_ids(1), persistent=False, origin=producer.origin)
    queue.reserve(span)
    queue.count_put(span)
    queue.give(consumer, span)
    return True
