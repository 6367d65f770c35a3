"""Delivery ids: the messages that an acknowledgement covers, and those that are requeued."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing.placement import Placed

# A delivery id, and the deliveries from it on.
Delivery = tuple[int, Span]

# So many are taken one by one; more are taken by one pass over all.
_FEW: Final = 16


def take_up_to(consumer: CoreConsumer, up_to: int) -> list[Span]:
    """Take the deliveries up to that id from the consumer; the last span is split if it goes on."""
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


def take_rows(consumer: CoreConsumer, first: int, rows: int) -> list[Span]:
    """Take these deliveries from the consumer, as far as they are not acknowledged yet."""
    if consumer.unacknowledged and first <= consumer.unacknowledged[0][0]:
        # The oldest deliveries, as usual: without a search.
        return take_up_to(consumer, first + rows - 1)
    held, end = consumer.unacknowledged, first + rows
    at = max(0, bisect_right(held, first, key=_first) - 1)
    if bisect_left(held, end, key=_first) - at > _FEW:
        taken, left = _split([*held][at:], first, end)
        consumer.unacknowledged = deque([*islice(held, at), *left])
        return taken
    # A client may have very many, and acknowledge them one by one in any order: the others are not touched.
    taken = []
    while at < len(held) and held[at][0] < end:
        parts, left = _split((held[at],), first, end)
        taken += parts
        del held[at]
        for delivery in left:
            held.insert(at, delivery)
            at += 1
    return taken


def _first(delivery: Delivery) -> int:
    return delivery[0]


def _split(held: Iterable[Delivery], first: int, end: int) -> tuple[list[Span], list[Delivery]]:
    """The parts of these deliveries from id `first` to before `end`, and the deliveries that are left."""
    taken, left = list[Span](), list[Delivery]()
    for begin, span in held:
        low, high = max(0, first - begin), min(span.rows, end - begin)
        if low >= high:
            left.append((begin, span))
            continue
        for part_begin, part_end, done in ((0, low, False), (low, high, True), (high, span.rows, False)):
            if part_begin < part_end:
                part = span.of_rows(span.index[part_begin:part_end])
                if done:
                    taken.append(part)
                else:
                    left.append((begin + part_begin, part))
    return taken, left


def take_to_requeue(consumer: CoreConsumer, first: int, rows: int, tried: bool) -> Placed:
    """Take these deliveries from the consumer; marked as delivered, if the application tried to process them."""
    spans = take_rows(consumer, first, rows)
    for span in spans:
        span.delivered += tried
    return [(consumer.queue, span) for span in spans]


def take_unacknowledged(consumer: CoreConsumer, seen: int) -> Placed:
    """Take all deliveries from the consumer; marked as delivered up to the last one that its application has seen."""
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
