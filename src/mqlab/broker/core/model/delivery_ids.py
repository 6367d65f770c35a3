"""Deliveries by their ids: which messages an acknowledgement covers, and which come back."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.routing.placement import Placed


def taken_up_to(consumer: Consumer, up_to: int) -> list[Span]:
    """What was delivered up to that id, in parts where it ends inside a span."""
    spans, unacknowledged = [], consumer.unacknowledged
    while unacknowledged and unacknowledged[0][0] <= up_to:
        first, span = unacknowledged.popleft()
        covered = up_to - first + 1
        if covered < span.rows:
            part = span.take_first(covered)
            unacknowledged.appendleft((first + covered, span))
            span = part
        spans.append(span)
    return spans


def taken_rows(consumer: Consumer, first: int, rows: int) -> list[Span]:
    """Just these deliveries, as far as they are not acknowledged yet."""
    if consumer.unacknowledged and first <= consumer.unacknowledged[0][0]:
        # The oldest ones, as usual: nothing is searched for.
        return taken_up_to(consumer, first + rows - 1)
    held = [*consumer.unacknowledged]
    at = max(0, bisect_right(held, first, key=lambda one: one[0]) - 1)
    taken, kept = [], held[:at]
    for begin, span in held[at:]:
        low, high = max(0, first - begin), min(span.rows, first + rows - begin)
        if low >= high:
            kept.append((begin, span))
            continue
        for part_begin, part_end, done in ((0, low, False), (low, high, True), (high, span.rows, False)):
            if part_begin < part_end:
                part = span.of_rows(span.index[part_begin:part_end])
                if done:
                    taken.append(part)
                else:
                    kept.append((begin + part_begin, part))
    consumer.unacknowledged = deque(kept)
    return taken


def given_back(consumer: Consumer, first: int, rows: int, tried: bool) -> Placed:
    """Just these deliveries; marked as delivered, if they were tried in vain."""
    spans = taken_rows(consumer, first, rows)
    for span in spans:
        span.delivered += tried
    return [(consumer.queue, span) for span in spans]


def taken_back(consumer: Consumer, seen: int) -> Placed:
    """All it was given and did not acknowledge; marked as delivered up to the last one its application has seen."""
    parts: Placed = []
    for first, span in consumer.unacknowledged:
        known = min(span.rows, seen - first + 1)
        if 0 < known < span.rows:
            part = span.take_first(known)
            part.delivered += 1
            parts.append((consumer.queue, part))
        elif known > 0:
            span.delivered += 1
        parts.append((consumer.queue, span))
    consumer.unacknowledged.clear()
    return parts
