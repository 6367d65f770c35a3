"""Replacement: spans of a queue take the place of others with the same messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqlab.broker.core.model.span_list import SpanList

if TYPE_CHECKING:
    from mqlab.broker.core.model.messages import Span
    from mqlab.broker.core.model.queue import Queue


def replace(queue: Queue, run: Sequence[Span], made: Sequence[Span]) -> None:
    """`run`: spans that follow one another in a line of the queue; `made` take their place there."""
    full, line = queue.full, run[0].span_list
    assert isinstance(line, SpanList)
    for span in run:
        line.unlink(span)
        queue.release(span)
    for span in made:
        queue.reserve(span)
        span.since = run[0].since
        line.insert(span)
        if queue.finding is not None:
            queue.finding.replaced(span)
    # Nothing has left it: who waits for room is told when something does.
    queue.full |= full
