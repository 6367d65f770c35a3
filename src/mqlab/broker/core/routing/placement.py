"""Where messages go: ids and room on every queue they are for, and what the journal must know of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mqlab.broker.core.dispatch.selection import chosen_of
from mqlab.broker.core.durability.records import Commit, Put, Remove
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Session
from mqlab.broker.core.routing.duplicates import Sent
from mqlab.broker.core.routing.ordering import PLAIN, Place, places
from mqlab.broker.core.routing.remote_queues import TRANSMISSION
from mqlab.wire.native.bodies import Payload

Placed = list[tuple[Queue, Span]]


class Placing(NamedTuple):
    """Messages that are where they belong, yet not visible."""

    placed: Placed
    put: Put | None
    # Rows that a subscription's selector left out of what is put.
    left_out: tuple[Remove, ...]
    # What of it had not been sent before, if it can be told.
    fresh: Payload | None = None
    # Some of it had been sent before.
    again: bool = False


class Ended(NamedTuple):
    """A transaction with nothing left to do but to be decided."""

    # What it puts and what it removes, and the record of both.
    placed: Placed
    removed: Placed
    said: Commit
    # What duplicates of its sends are known by.
    sent: list[Sent]


def place(
    queues: Iterable[Queue], payload: Payload, *, persistent: bool, origin: str, sender: Session | None
) -> Placing:
    placed: Placed = []
    targets: list[tuple[int, int]] = []
    left_out: list[Remove] = []
    where = places(payload)
    for queue in queues:
        wanted = _wanted(queue, payload, persistent, sender)
        if wanted is not None and not wanted.any():
            continue
        base, stored = queue.new_ids(payload.rows), persistent and queue.stored
        spans: Iterable[Span]
        if wanted is None and where is PLAIN:
            # By far the most.
            spans = (Span(payload, base, persistent=persistent, origin=origin),)
        else:
            spans = _spans(payload, base, where, wanted, persistent, origin)
        for span in spans:
            queue.reserve(span)
            if stored:
                queue.unseen.add(span)
            placed.append((queue, span))
        if where[0].grouped:
            queue.note_group()
        if stored:
            targets.append((queue.number, base))
            if wanted is not None and not wanted.all():
                others = Span(payload, base, persistent=True, index=np.flatnonzero(~wanted))
                left_out.append(Remove(queue.number, tuple(others.ranges())))
    return Placing(placed, Put(tuple(targets), payload, origin) if targets else None, tuple(left_out))


def restored(payload_span: Span, queue: Queue) -> list[Span]:
    """A span as the journal gave it back, told apart as it was when it came."""
    whole = payload_span.whole()
    moved = bool(payload_span.origin) and queue.subscription is None and not queue.name.startswith(TRANSMISSION)
    found = []
    for where in places(whole):
        index = _both(payload_span.index, where.rows)
        if len(index):
            span = payload_span.of_rows(index)
            span.priority, span.due, span.expires = where.priority, where.due, 0 if moved else where.expires
            found.append(span)
        if where.grouped:
            queue.note_group()
    return found


def removes(removed: Placed) -> list[Remove]:
    """What the journal must know of messages that are gone."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for queue, span in removed:
        if queue.stored and span.persistent and not queue.closed:
            ranges.setdefault(queue.number, []).extend(span.ranges())
    return [Remove(number, tuple(found)) for number, found in ranges.items()]


def _wanted(queue: Queue, payload: Payload, persistent: bool, sender: Session | None) -> np.ndarray[Any, Any] | None:
    """Which messages a subscription gets; None: all."""
    subscription = queue.subscription
    if subscription is None:
        return None
    if sender is not None and not subscription.wants(sender):
        return np.zeros(payload.rows, dtype=bool)
    return chosen_of(subscription.selector, payload, persistent=persistent) if subscription.selector else None


def _spans(
    payload: Payload, base: int, where: tuple[Place, ...], wanted: np.ndarray[Any, Any] | None, persistent: bool,
    origin: str,
) -> Iterable[Span]:  # fmt: skip
    for place_ in where:
        index = place_.rows
        if wanted is not None:
            index = _both(range(payload.rows), index)
            index = np.asarray(index)[wanted[np.asarray(index)]]
            if not len(index):
                continue
        yield Span(
            payload, base, persistent=persistent, index=index, origin=origin, priority=place_.priority,
            due=place_.due, expires=place_.expires,
        )  # fmt: skip


def _both(
    rows: range | np.ndarray[Any, Any], others: range | np.ndarray[Any, Any] | None
) -> range | np.ndarray[Any, Any]:
    if others is None:
        return rows
    return np.intersect1d(np.asarray(rows), np.asarray(others), assume_unique=True)
