"""Selective dispatch: consumers with selectors, exclusive consumers, and message groups."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.dispatch.delivery import deliver_span, dispatch_later
from mqlab.broker.core.dispatch.selection import chosen_of, chosen_of_singles, is_single, weight_of
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.broker.core.model.span_list import SpanCursor, SpanList
from mqlab.broker.core.routing.ordering import groups
from mqlab.wire.native.payload import RowFlags

# Single messages for which a short selector is evaluated at once.
_AHEAD: Final = 1024
# The cost in a slice of evaluating a short selector; to look at a span costs 1.
_EVALUATION: Final = 16


class _Budget:
    """How many spans dispatch may still look at before other connections are served."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = limits.SLICE


def dispatch(queue: Queue) -> None:
    """Deliver a span to each consumer with credit in turn, until none gets anything or the slice is used up."""
    if queue.dispatch_deferred:
        return
    exclusive = next((consumer for consumer in queue.consumers if consumer.exclusive), None)
    served, budget = True, _Budget()
    while served:
        served = False
        for consumer in [*queue.ready]:
            if not consumer.ready:
                queue.drop_ready(consumer)
            elif exclusive is None or consumer is exclusive:
                span = _next_for(queue, consumer, budget)
                if span is not None:
                    consumer.credit -= span.rows
                    deliver_span(queue, consumer, span)
                    served = True
                if span is not None or budget.left <= 0:
                    queue.end_turn(consumer)
                if budget.left <= 0:
                    dispatch_later(queue)
                    return


def _next_for(queue: Queue, consumer: QueueConsumer, budget: _Budget) -> Span | None:
    """Take the next messages for the consumer out of their list, no more than it has credit for."""
    budget.left -= 1
    for span_list in queue.span_lists:
        cursor = _cursor(queue, span_list, consumer)
        span = span_list.after(cursor) if cursor else span_list.first
        while span is not None and budget.left > 0:
            following = span.after
            budget.left -= 1
            if queue.drop_expired(span):
                flags = _flags(queue, consumer, span, budget)
                if flags is None or flags.any():
                    return take(queue, span, flags, consumer.credit)
                if cursor is not None:
                    cursor.at = span
            span = following
    return None


def _cursor(queue: Queue, span_list: SpanList, consumer: QueueConsumer) -> SpanCursor | None:
    """The position of a consumer that does not take every message: it has rejected all spans before.

    A group gets another consumer only when its consumer leaves; the queue then resets all cursors.
    """
    if consumer.selector is None and not queue.grouped:
        return None
    if span_list not in consumer.cursors:
        consumer.cursors[span_list] = SpanCursor()
        span_list.cursors.append(consumer.cursors[span_list])
    return consumer.cursors[span_list]


def _flags(queue: Queue, consumer: QueueConsumer, span: Span, budget: _Budget) -> RowFlags | None:
    """A flag for each message of the span that the consumer may have; None: all."""
    flags = None if consumer.selector is None else _chosen(consumer, span, budget)
    if queue.grouped and (flags is None or flags.any()):
        flags = _of_its_groups(queue, consumer, span, np.ones(span.rows, dtype=bool) if flags is None else flags)
    return flags


def _chosen(consumer: QueueConsumer, span: Span, budget: _Budget) -> RowFlags:
    assert consumer.selector is not None
    if span not in consumer.flags_ahead:
        weight = weight_of(consumer.selector)
        budget.left -= _EVALUATION * weight
        _evaluate_ahead(consumer, span, _AHEAD // weight)
    flags: RowFlags = consumer.flags_ahead[span][np.asarray(span.index)]
    return flags


def _evaluate_ahead(consumer: QueueConsumer, span: Span, most: int) -> None:
    """Evaluate the selector for a whole batch, or for up to `most` single messages that follow one another."""
    assert consumer.selector is not None
    consumer.flags_ahead.clear()
    if not is_single(span):
        consumer.flags_ahead[span] = chosen_of(consumer.selector, span.whole(), persistent=span.persistent)
        return
    ahead: list[Span] = []
    following: Span | None = span
    while following is not None and is_single(following) and len(ahead) < most:
        ahead.append(following)
        following = following.after
    flags = chosen_of_singles(consumer.selector, ahead)
    consumer.flags_ahead.update((following, flags[at : at + 1]) for at, following in enumerate(ahead))


def _of_its_groups(queue: Queue, consumer: QueueConsumer, span: Span, flags: RowFlags) -> RowFlags:
    """Flag messages of no group, of the consumer's groups, and of one new group, which the consumer claims.

    It claims one group at a time, so that groups spread over the consumers, and only if it has credit for a message.
    """
    credit, may_claim = consumer.credit, True
    for at, group in enumerate(groups(span)):
        if not flags[at]:
            continue
        if credit and group is not None:
            owner = queue.groups.get(group)
            if owner is None and may_claim:
                queue.claim_group(group, consumer)
                owner, may_claim = consumer, False
            flags[at] = owner is consumer
        else:
            flags[at] = credit > 0
        credit -= int(flags[at])
    return flags


def take(queue: Queue, span: Span, flags: RowFlags | None, most: int) -> Span:
    """Take the flagged messages of a span (None: all) out of its list, but no more than `most` of them."""
    taken = cut_off(span, flags, most)
    if taken is span:
        queue.unlink(span)
    return taken


def cut_off(span: Span, flags: RowFlags | None, most: int) -> Span:
    """Split the flagged messages off the span; if that is all of it, return the span itself."""
    if flags is None or bool(flags.all()):
        return span.take_first(most) if span.rows > most else span
    rows = np.flatnonzero(flags)
    if len(rows) > most:
        flags = np.zeros(len(flags), dtype=bool)
        flags[rows[:most]] = True
    return span.take(flags)


def take_ids(queue: Queue, ranges: Iterable[tuple[int, int]]) -> list[Span]:
    """Take these messages (first id, rows) out of the lists, as far as they are there."""
    taken = []
    ranges = [*ranges]
    begin = min((first for first, _ in ranges), default=0)
    end = max((first + rows for first, rows in ranges), default=0)
    for span in [span for spans in queue.span_lists for span in spans.until(end) if span.last_id >= begin]:
        flags = span.within(ranges)
        if flags.all():
            queue.unlink(span)
            taken.append(span)
        elif flags.any():
            taken.append(span.take(flags))
    return taken
