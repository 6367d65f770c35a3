"""Delivery ids: the messages that an acknowledgement covers, and those that are requeued."""

from bisect import bisect_right
from collections import deque

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing.placement import Placed


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
    held = [*consumer.unacknowledged]
    at = max(0, bisect_right(held, first, key=lambda delivery: delivery[0]) - 1)
    taken, left = [], held[:at]
    for begin, span in held[at:]:
        low, high = max(0, first - begin), min(span.rows, first + rows - begin)
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
    consumer.unacknowledged = deque(left)
    return taken


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
