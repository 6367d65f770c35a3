"""A batch from which messages are taken one by one: to cut one out costs as much as many single ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_replacement import replace
from mqlab.wire.native.coalescing import split_batch

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# Messages at a time that are better cut out as a part.
_PART: Final = 4
# Batches of fewer are not worth it; of more, it would keep others waiting, and single messages take more memory.
_LEAST, _MOST = 16, 2048


def comes_apart(queue: Queue, span: Span, wanted: int) -> bool:
    """Whether a span in line is better taken apart for somebody who takes so many of its messages now."""
    return wanted < _PART and _LEAST <= span.rows <= _MOST and can_come_apart(queue, span)


def can_come_apart(queue: Queue, span: Span) -> bool:
    """Where messages expire, or are looked for by their ids, more would have to be told of each. And no other part of
    the batch may have ids behind: who looks for one of them later goes by where a batch begins.
    """
    if span.expires or queue.finding is not None:
        return False
    return isinstance(span.index, range) and span.index.stop == span.payload.rows


def take_apart(queue: Queue, span: Span) -> Span:
    """The messages of a span in line stand there by themselves from now on. Returns the first."""
    made = [
        Span(
            payload, number, span.persistent, delivered=span.delivered, origin=span.origin, priority=span.priority,
            due=span.due, doubtful=span.doubtful,
        )
        for number, payload in enumerate(split_batch(span.encoded()), span.first_id)
    ]  # fmt: skip
    replace(queue, [span], made)
    return made[0]
