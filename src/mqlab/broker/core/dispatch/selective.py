"""Dispatch where consumers differ: selectors, groups that stay with one consumer, a consumer that excludes others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.dispatch.selection import chosen_of, chosen_of_singles, is_single
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.model.span_list import Cursor, SpanList
from mqlab.broker.core.routing.ordering import groups

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# Single messages that a selector looks at in one go.
_AHEAD: Final = 1024
# What it costs to evaluate a selector at all, in looks at a message.
_EVALUATION: Final = 16


class _Slice:
    """How much may still be looked at before others have their turn."""

    __slots__ = ("looks",)

    def __init__(self) -> None:
        self.looks = limits.SLICE


def dispatch(queue: Queue) -> None:
    """Everybody who has room gets a span in turn, until nobody can be given anything, or the slice is used up."""
    if queue.is_due:
        return
    exclusive = next((one for one in queue.consumers if one.exclusive), None)
    served, left = True, _Slice()
    while served:
        served = False
        for consumer in [*queue.ready]:
            if not consumer.ready:
                queue.ready.remove(consumer)
                consumer.waiting = False
            elif exclusive is None or consumer is exclusive:
                span = _next_for(queue, consumer, left)
                if span is not None:
                    consumer.credit -= span.rows
                    queue.give(consumer, span)
                    served = True
                if span is not None or left.looks <= 0:
                    # The next time another is the first.
                    queue.ready.remove(consumer)
                    queue.ready.append(consumer)
                if left.looks <= 0:
                    queue.dispatch_later()
                    return


def _next_for(queue: Queue, consumer: Consumer, left: _Slice) -> Span | None:
    """Off the line: what the consumer may have next, no more than it has room for."""
    left.looks -= 1
    for line in queue.span_lists:
        cursor = _cursor(line, consumer)
        span = line.after(cursor) if cursor else line.first
        while span is not None and left.looks > 0:
            following = span.after
            left.looks -= 1
            if queue.drop_expired(span):
                flags = _flags(queue, consumer, span, left)
                if flags is None or flags.any():
                    return take(queue, span, flags, consumer.credit)
                if cursor is not None:
                    cursor.at = span
            span = following
    return None


def _cursor(line: SpanList, consumer: Consumer) -> Cursor | None:
    """How far one that does not take everything has looked: what it passed over is not for it.

    Groups of others become its own only when their consumer goes, and then everybody looks again.
    """
    if consumer.selector is None and not consumer.queue.grouped:
        return None
    if line not in consumer.cursors:
        consumer.cursors[line] = Cursor()
        line.cursors.append(consumer.cursors[line])
    return consumer.cursors[line]


def _flags(queue: Queue, consumer: Consumer, span: Span, left: _Slice) -> np.ndarray[Any, Any] | None:
    """Which messages of the span the consumer may have; None: all."""
    flags = None if consumer.selector is None else _chosen(consumer, span, left)
    if queue.grouped and (flags is None or flags.any()):
        flags = _of_its_groups(queue, consumer, span, np.ones(span.rows, dtype=bool) if flags is None else flags)
    return flags


def _chosen(consumer: Consumer, span: Span, left: _Slice) -> np.ndarray[Any, Any]:
    if span not in consumer.known:
        left.looks -= _EVALUATION
        _look_ahead(consumer, span)
    flags: np.ndarray[Any, Any] = consumer.known[span][np.asarray(span.index)]
    return flags


def _look_ahead(consumer: Consumer, span: Span) -> None:
    """Evaluate the selector for a whole batch, or for all single messages that follow one another."""
    assert consumer.selector is not None
    consumer.known.clear()
    if not is_single(span):
        consumer.known[span] = chosen_of(consumer.selector, span.whole(), persistent=span.persistent)
        return
    ahead: list[Span] = []
    following: Span | None = span
    while following is not None and is_single(following) and len(ahead) < _AHEAD:
        ahead.append(following)
        following = following.after
    flags = chosen_of_singles(consumer.selector, ahead)
    consumer.known.update((one, flags[at : at + 1]) for at, one in enumerate(ahead))


def _of_its_groups(queue: Queue, consumer: Consumer, span: Span, flags: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Messages of no group, of the consumer's groups, and of one new group, which is its own from now on.

    One at a time, so that the groups spread over the consumers; and only if there is room for a message of it.
    """
    room, may_claim = consumer.credit, True
    for at, group in enumerate(groups(span)):
        if not flags[at]:
            continue
        if room and group is not None:
            owner = queue.groups.get(group)
            if owner is None and may_claim:
                owner = queue.groups[group] = consumer
                may_claim = False
                if len(queue.groups) > limits.GROUPS:
                    del queue.groups[next(iter(queue.groups))]
            flags[at] = owner is consumer
        else:
            flags[at] = room > 0
        room -= int(flags[at])
    return flags


def take(queue: Queue, span: Span, flags: np.ndarray[Any, Any] | None, most: int) -> Span:
    """Off the line: those messages of a span that are flagged (None: all), but no more than `most` of them."""
    taken = cut_off(span, flags, most)
    if taken is span:
        queue.unlink(span)
    return taken


def cut_off(span: Span, flags: np.ndarray[Any, Any] | None, most: int) -> Span:
    """They leave the span, or are all of it: then it is returned itself."""
    if flags is None or bool(flags.all()):
        return span.take_first(most) if span.rows > most else span
    rows = np.flatnonzero(flags)
    if len(rows) > most:
        flags = np.zeros(len(flags), dtype=bool)
        flags[rows[:most]] = True
    return span.take(flags)


def take_ids(queue: Queue, ranges: Iterable[tuple[int, int]]) -> list[Span]:
    """These messages (first id, rows) leave the line, as far as they stand in it."""
    taken = []
    wanted = [*ranges]
    begin = min((first for first, _ in wanted), default=0)
    end = max((first + rows for first, rows in wanted), default=0)
    for span in [span for line in queue.span_lists for span in line.until(end) if span.last_id >= begin]:
        flags = span.within(wanted)
        if flags.all():
            queue.unlink(span)
            taken.append(span)
        elif flags.any():
            taken.append(span.take(flags))
    return taken
