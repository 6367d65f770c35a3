"""Splitting a batch into single messages, where consumers take its messages one by one: cutting one message out of a
batch costs as much as many single messages."""

from typing import Final

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.wire.native.coalescing import split_batch

# A consumer that takes as many messages at a time gets them as a part of the batch.
_PART: Final = 4
# Smaller batches are not worth it; larger ones would keep others waiting, and single messages take more memory.
_LEAST, _MOST = 16, 2048


def is_worth_splitting(queue: Queue, span: Span, rows: int) -> bool:
    """Whether a span is better split for a consumer that takes so many of its messages now."""
    return rows < _PART and _LEAST <= span.rows <= _MOST and can_split(queue, span)


def can_split(queue: Queue, span: Span) -> bool:
    """Not where messages expire or are received by id: each would need an entry of its own. And no other part of the
    batch may have later ids: the correlation index finds a batch by its first id.
    """
    if span.expires or queue.receives is not None:
        return False
    return isinstance(span.index, range) and span.index.stop == span.payload.rows


def split_span(queue: Queue, span: Span) -> Span:
    """Replace a span by single messages. Returns the first."""
    made = [
        Span(
            payload, number, span.persistent, delivered=span.delivered, origin=span.origin, priority=span.priority,
            due=span.due, doubtful=span.doubtful,
        )
        for number, payload in enumerate(split_batch(span.encoded()), span.first_id)
    ]  # fmt: skip
    queue.replace([span], made)
    return made[0]
