"""Whose turn it is to get a message, where all consumers of a queue are alike: those who have room, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.dispatch.batch_split import can_come_apart, comes_apart, take_apart
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import Consumer
from mqlab.wire.native.columns import Value
from mqlab.wire.native.payload import COALESCED, Payload

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# Messages of a batch that go to one consumer, although others could have a part of them: a part costs as much as many
# messages do.
_LEAST_SHARE: Final = 16
# Messages for each consumer that cost less by themselves than as a part of a batch.
_FEW: Final = 4


def dispatch(queue: Queue) -> None:
    """Give what stands in line to those who have room: of a batch, each about as much as the others.

    Messages that an application sent one by one are dealt one by one, also if they came as one batch.
    """
    if queue.is_due:
        return
    left = limits.SLICE
    while queue.ready:
        if not left:
            queue.dispatch_later()
            return
        left -= 1
        span = queue.head()
        consumer = None if span is None else _next_ready(queue)
        if span is None or consumer is None:
            return
        if queue.ready and _are_singles(span):
            queue.ready.appendleft(consumer)
            if span.rows < _FEW * len(queue.ready) and can_come_apart(queue, span):
                # Few for each: these are cheaper as messages by themselves.
                take_apart(queue, span)
            else:
                _deal(queue, span)
            continue
        rows = min(consumer.credit, max(_LEAST_SHARE, -(-span.payload.rows // (1 + len(queue.ready)))))
        if comes_apart(queue, span, rows):
            span, rows = take_apart(queue, span), 1
        if span.rows > rows:
            span = span.take_first(rows)
        else:
            queue.unlink(span)
        _take_room(queue, consumer, span.rows)
        queue.give(consumer, span)


def _are_singles(span: Span) -> bool:
    """Several messages that were sent one by one. Of those on disk nobody asks: no consumer had room for them."""
    return span.rows > 1 and isinstance(span.payload, Payload) and span.payload.form & COALESCED > 0


def _deal(queue: Queue, span: Span) -> None:
    """Give each message to the consumer whose turn it is, just as if the messages had come one by one.

    A consumer gets its messages together. What nobody has room for stays in line.
    """
    turn = []
    for consumer in queue.ready:
        consumer.waiting = consumer.ready
        if consumer.waiting:
            turn.append(consumer)
    shares: dict[Consumer, list[np.ndarray[Any, Any]]] = {consumer: [] for consumer in turn}
    dealt = 0
    while turn and dealt < span.rows:
        count = len(turn)
        rounds, rest = divmod(span.rows - dealt, count)
        rounds = min(rounds, min(consumer.credit for consumer in turn))
        # Fewer messages than consumers are left: the first of these get one each, and their turn is over.
        takers, step = (turn, rounds * count) if rounds else (turn[:rest], rest)
        for at, consumer in enumerate(takers, dealt):
            shares[consumer].append(np.arange(at, dealt + step, count))
            consumer.credit -= rounds or 1
            consumer.waiting = consumer.credit > 0
        dealt += step
        turn = [one for one in (turn if rounds else [*turn[rest:], *takers]) if one.waiting]
    queue.ready.clear()
    queue.ready.extend(turn)
    rows = np.asarray(span.index)
    given = [(one, span.of_rows(rows[np.concatenate(share)])) for one, share in shares.items() if share]
    if dealt < span.rows:
        span.take_first(dealt)
    else:
        queue.unlink(span)
    for consumer, part in given:
        queue.give(consumer, part)


def taker(queue: Queue, headers: Mapping[str, Value]) -> Consumer | None:
    """Who gets a message with these headers that comes now; None: it has to stand in line first."""
    consumer = None if queue.finding is None else queue.finding.taker(headers)
    if consumer is not None or queue.selective or not queue.ready or queue.is_due:
        return consumer
    for line in queue.span_lists:
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
