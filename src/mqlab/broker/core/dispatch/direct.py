"""The short way of a single message: at once to who waits for it, without ever standing in line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqlab.broker.core.dispatch.round_robin import taker
from mqlab.broker.core.effects import deliver
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer, Producer
from mqlab.broker.core.routing.ordering import SORTED_BY
from mqlab.wire.native.columns import Value, decode_single
from mqlab.wire.native.payload import Payload

# With any of these in its header a message may have to wait, or belongs to others, or may have come before.
_NOT_AT_ONCE: Final = SORTED_BY | {"duplicate_id"}
_NO_HEADERS: Final[Mapping[str, Value]] = MappingProxyType({})
# The headers of a message, if somebody has read them already.
DecodedHeaders = Mapping[str, Value] | None


def try_deliver(producer: Producer, payload: Payload, headers: DecodedHeaders) -> bool:
    """Of a message that is not persistent. False: nobody waits, or there is more to look at; nothing has happened."""
    queue = producer.destination
    if not isinstance(queue, Queue) or queue.closed or queue.full:
        return False
    if headers is None:
        headers = decode_single(payload).values
    consumer = taker(queue, headers) if _NOT_AT_ONCE.isdisjoint(headers) else None
    if consumer is None:
        return False
    _give(queue, consumer, payload, producer.origin)
    return True


def reserve_single(producer: Producer, payload: Payload, headers: DecodedHeaders) -> tuple[Queue, Span] | None:
    """A persistent message that was not refused: on its queue, yet not visible. None: there is more to look at."""
    queue = producer.destination
    if not isinstance(queue, Queue) or not queue.stored or queue.subscription is not None:
        return None
    if not _NOT_AT_ONCE.isdisjoint(decode_single(payload).values if headers is None else headers):
        return None
    number = queue.next_id
    queue.next_id = number + 1
    span = Span(payload, number, True, None, 0, producer.origin)
    queue.reserve(span)
    queue.unseen.add(span)
    return queue, span


def try_deliver_reserved(queue: Queue, span: Span) -> bool:
    """One that was set down becomes visible, to who waits for it. False: to nobody yet; nothing has happened."""
    payload = span.payload
    if not isinstance(payload, Payload):
        return False
    consumer = taker(queue, decode_single(payload).values if queue.finding is not None else _NO_HEADERS)
    if consumer is None:
        return False
    queue.unseen.discard(span)
    queue.count_put(span)
    queue.give(consumer, span)
    return True


def _give(queue: Queue, consumer: Consumer, payload: Payload, origin: str) -> None:
    """All that `reserve`, `put` and `give` of a queue do, in one go: for a message alone each call counts."""
    number, first, context, policy = queue.next_id, consumer.next_delivery, queue.context, queue.policy
    queue.next_id, consumer.next_delivery = number + 1, first + 1
    span = Span(payload, number, False, None, 0, origin)
    memory = span.memory
    queue.messages += 1
    queue.size += span.size
    queue.in_memory += memory
    context.memory += memory
    if queue.size >= policy.queue_limit or 0 < policy.message_limit <= queue.messages:
        queue.full = True
    consumer.unacknowledged.append((first, span))
    counters, watch = queue.counters, queue.watch
    counters.put += 1
    if watch is not None:
        now = span.since = watch.last_put = watch.last_get = context.monotonic_us
        if now >= watch.sums_at:
            watch.sum_up(queue)
    counters.delivered += 1
    if watch is not None and counters.delivered >= watch.looks_at:
        watch.looks_at = counters.delivered + watch.every
        watch.times.append(0)
    context.effects.append(deliver((consumer, first, span)))
