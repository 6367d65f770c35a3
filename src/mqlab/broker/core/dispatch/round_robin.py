"""Round robin: consumers with credit get messages in turn, where none of them is selective."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.dispatch.delivery import deliver_span, dispatch_later
from mqlab.broker.core.effects import deliver
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.wire.native.coalescing import split_batch
from mqlab.wire.native.columns import Value
from mqlab.wire.native.payload import COALESCED, Payload, RowNumbers

# Messages of a batch that go to one consumer, although others have credit too: a part costs as much as many messages.
_LEAST_SHARE: Final = 16
# Fewer messages for each consumer cost less as single messages than as parts of a batch.
_FEW: Final = 4


def dispatch(queue: Queue) -> None:
    """Deliver the queue's messages to consumers with credit: of a batch, each gets about as much as the others.

    Messages that an application sent one by one are dealt one by one, also if they were coalesced into a batch.
    """
    if queue.dispatch_deferred:
        return
    left = limits.SLICE
    while queue.ready:
        if not left:
            dispatch_later(queue)
            return
        left -= 1
        span = _head(queue)
        consumer = None if span is None else queue.take_ready()
        if span is None or consumer is None:
            return
        if queue.ready and _is_coalesced(span):
            queue.set_ready([consumer, *queue.ready])
            if span.rows < _FEW * len(queue.ready) and can_split(queue, span):
                split_span(queue, span)
            else:
                _deal(queue, span)
            continue
        rows = min(consumer.credit, max(_LEAST_SHARE, -(-span.payload.rows // (1 + len(queue.ready)))))
        if is_worth_splitting(queue, span, rows):
            span, rows = split_span(queue, span), 1
        if span.rows > rows:
            span = span.take_first(rows)
        else:
            queue.unlink(span)
        queue.use_credit(consumer, span.rows)
        # `deliver_span`, without a call for each message.
        queue.context.effects.append(deliver(consumer, queue.count_delivered(consumer, span), span))


def _is_coalesced(span: Span) -> bool:
    """Several messages that were sent one by one, and are in memory: paged-out ones are not dealt."""
    return span.rows > 1 and isinstance(span.payload, Payload) and span.payload.form & COALESCED > 0


def _deal(queue: Queue, span: Span) -> None:
    """Deliver each message to the consumer whose turn it is, as if the messages had come one by one.

    A consumer gets its messages together. Messages for which no consumer has credit stay.
    """
    turn = []
    for consumer in queue.ready:
        consumer.waiting = consumer.ready
        if consumer.waiting:
            turn.append(consumer)
    shares: dict[QueueConsumer, list[RowNumbers]] = {consumer: [] for consumer in turn}
    dealt = 0
    while turn and dealt < span.rows:
        count = len(turn)
        rounds, rest = divmod(span.rows - dealt, count)
        rounds = min(rounds, min(consumer.credit for consumer in turn))
        # Fewer messages than consumers are left: the first consumers get one each, and their turn is over.
        takers, step = (turn, rounds * count) if rounds else (turn[:rest], rest)
        for at, consumer in enumerate(takers, dealt):
            shares[consumer].append(np.arange(at, dealt + step, count))
            consumer.credit -= rounds or 1
            consumer.waiting = consumer.credit > 0
        dealt += step
        turn = [consumer for consumer in (turn if rounds else [*turn[rest:], *takers]) if consumer.waiting]
    queue.set_ready(turn)
    rows = np.asarray(span.index)
    parts = [(consumer, span.of_rows(rows[np.concatenate(share)])) for consumer, share in shares.items() if share]
    if dealt < span.rows:
        span.take_first(dealt)
    else:
        queue.unlink(span)
    for consumer, part in parts:
        deliver_span(queue, consumer, part)


def take_consumer(queue: Queue, headers: Mapping[str, Value]) -> QueueConsumer | None:
    """The consumer that gets a message with these headers now, with its credit used; None: the message must queue."""
    consumer = None if queue.receives is None else queue.receives.take_consumer(headers)
    if consumer is not None or queue.selective or not queue.ready or queue.dispatch_deferred:
        return consumer
    for span_list in queue.span_lists:
        if span_list.first is not None:
            return None
    consumer = queue.take_ready()
    if consumer is not None:
        queue.use_credit(consumer, 1)
    return consumer


def _head(queue: Queue) -> Span | None:
    """The span that is delivered next; expired ones are removed on the way, no more than a slice of them."""
    now, budget = queue.context.now_ms, limits.SLICE
    for span_list in queue.span_lists:
        span = span_list.first
        while span is not None:
            if not 0 < span.expires <= now or queue.drop_expired(span):
                return span
            span = span_list.first
            budget -= 1
            if not budget:
                dispatch_later(queue)
                return None
    return None


# A consumer that takes as many messages at a time gets them as a part of the batch.
_PART: Final = 4
# Smaller batches are not worth it; larger ones would keep others waiting, and single messages take more memory.
_LEAST, _MOST = 16, 2048


def is_worth_splitting(queue: Queue, span: Span, rows: int) -> bool:
    """Whether a span is better split for a consumer that takes so many of its messages now: parts are dear."""
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
