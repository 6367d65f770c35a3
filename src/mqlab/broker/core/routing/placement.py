"""Placement: messages get ids on every queue that they go to; they are reserved there, not visible yet."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mqlab.broker.core.dispatch.selection import chosen_of
from mqlab.broker.core.durability.records import Commit, Put, Remove
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.routing.duplicates import SentIds
from mqlab.broker.core.routing.ordering import UNORDERED, Partition, partition
from mqlab.broker.core.routing.remote_queues import TRANSMISSION
from mqlab.wire.native.payload import Payload, RowFlags, RowIndex

Placed = list[tuple[Queue, Span]]


class Placement(NamedTuple):
    """Messages that are reserved on their queues, not visible yet, and their record."""

    placed: Placed
    put: Put | None
    # Rows of the record that a subscription's selector left out.
    left_out: tuple[Remove, ...]
    # The payload without duplicates; None if it has no duplicate ids.
    fresh: Payload | None = None
    # Duplicates were left out.
    has_duplicates: bool = False


class EndedTransaction(NamedTuple):
    """The messages that a transaction puts and removes, and the record of both."""

    placed: Placed
    removed: Placed
    record: Commit
    # The duplicate ids of its sends.
    sent: list[SentIds]


def place(
    queues: Iterable[Queue], payload: Payload, *, persistent: bool, origin: str, sender: CoreSession | None
) -> Placement:
    """Place a payload on each of the queues; a subscription gets the messages that it wants."""
    placed: Placed = []
    targets: list[tuple[int, int]] = []
    left_out: list[Remove] = []
    partitions = partition(payload)
    for queue in queues:
        flags = _selected(queue, payload, persistent, sender)
        if flags is not None and not flags.any():
            continue
        base, stored = queue.new_ids(payload.rows), persistent and queue.stored
        spans: Iterable[Span]
        if flags is None and partitions is UNORDERED:
            # The usual case.
            spans = (Span(payload, base, persistent=persistent, origin=origin),)
        else:
            spans = _spans(payload, base, partitions, flags, persistent, origin)
        for span in spans:
            if stored:
                queue.reserve_hidden(span)
            else:
                queue.reserve(span)
            placed.append((queue, span))
        if partitions[0].grouped:
            queue.note_group()
        if stored:
            targets.append((queue.number, base))
            if flags is not None and not flags.all():
                others = Span(payload, base, persistent=True, index=np.flatnonzero(~flags))
                left_out.append(Remove(queue.number, tuple(others.ranges())))
    return Placement(placed, Put(tuple(targets), payload, origin) if targets else None, tuple(left_out))


def restored(payload_span: Span, queue: Queue) -> list[Span]:
    """A span of the journal, split as it was when it arrived."""
    whole = payload_span.whole()
    moved = bool(payload_span.origin) and queue.subscription is None and not queue.name.startswith(TRANSMISSION)
    spans = []
    for part in partition(whole):
        index = _both(payload_span.index, part.rows)
        if len(index):
            span = payload_span.of_rows(index)
            span.priority, span.due, span.expires = part.priority, part.due, 0 if moved else part.expires
            spans.append(span)
        if part.grouped:
            queue.note_group()
    return spans


def removal_records(removed: Placed) -> list[Remove]:
    """The records of messages that are removed from their queues."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for queue, span in removed:
        if queue.stored and span.persistent and not queue.closed:
            ranges.setdefault(queue.number, []).extend(span.ranges())
    return [Remove(number, tuple(ids)) for number, ids in ranges.items()]


def _selected(queue: Queue, payload: Payload, persistent: bool, sender: CoreSession | None) -> RowFlags | None:
    """A flag for each message that a subscription gets; None: all."""
    subscription = queue.subscription
    if subscription is None:
        return None
    if sender is not None and subscription.leaves_out(sender.owner, sender.client, sender.user):
        return np.zeros(payload.rows, dtype=bool)
    return chosen_of(subscription.selector, payload, persistent=persistent) if subscription.selector else None


def _spans(
    payload: Payload, base: int, partitions: tuple[Partition, ...], flags: RowFlags | None,
    persistent: bool, origin: str,
) -> Iterable[Span]:  # fmt: skip
    for part in partitions:
        index = part.rows
        if flags is not None:
            index = _both(range(payload.rows), index)
            index = np.asarray(index)[flags[np.asarray(index)]]
            if not len(index):
                continue
        yield Span(
            payload, base, persistent=persistent, index=index, origin=origin, priority=part.priority,
            due=part.due, expires=part.expires,
        )  # fmt: skip


def _both(rows: RowIndex, others: RowIndex | None) -> RowIndex:
    if others is None:
        return rows
    return np.intersect1d(np.asarray(rows), np.asarray(others), assume_unique=True)
