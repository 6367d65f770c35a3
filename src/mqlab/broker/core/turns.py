"""Whose turn it is to get a message, where all consumers of a queue are alike: those who have room, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqlab.broker.core.apart import comes_apart, take_apart
from mqlab.broker.core.links import Consumer
from mqlab.wire.columns import Value

if TYPE_CHECKING:
    from mqlab.broker.core.queue import Queue

# Messages of a batch that go to one consumer, although others could have a part of them: a part costs as much as many
# messages do.
_LEAST_SHARE: Final = 16


def dispatch(queue: Queue) -> None:
    """Give what stands in line to those who have room: of a batch, each about as much as the others."""
    while queue.ready:
        span = queue.head()
        consumer = None if span is None else _next_ready(queue)
        if span is None or consumer is None:
            return
        rows = min(consumer.credit, max(_LEAST_SHARE, -(-span.payload.rows // (1 + len(queue.ready)))))
        if comes_apart(queue, span, rows):
            span, rows = take_apart(queue, span), 1
        if span.rows > rows:
            span = span.take_first(rows)
        else:
            queue.unlink(span)
        _take_room(queue, consumer, span.rows)
        queue.give(consumer, span)


def taker(queue: Queue, headers: Mapping[str, Value]) -> Consumer | None:
    """Who gets a message with these headers that comes now; None: it has to stand in line first."""
    consumer = None if queue.finding is None else queue.finding.taker(headers)
    if consumer is not None or queue.selective or not queue.ready:
        return consumer
    for line in queue.lines:
        if line.first is not None:
            return None
    consumer = _next_ready(queue)
    if consumer is not None:
        _take_room(queue, consumer, 1)
    return consumer


def _next_ready(queue: Queue) -> Consumer | None:
    """Whose turn it is; it is no longer in line for it then."""
    ready = queue.ready
    while ready:
        consumer = ready.popleft()
        if consumer.credit > 0 and not consumer.paused:
            return consumer
        consumer.waiting = False
    return None


def _take_room(queue: Queue, consumer: Consumer, messages: int) -> None:
    """It had its turn; if it has room left, it will have another."""
    consumer.credit -= messages
    if consumer.credit > 0:
        queue.ready.append(consumer)
    else:
        consumer.waiting = False
