"""Redelivery: messages that consumers did not acknowledge come back to their queue, very many of them in slices."""

from collections.abc import Iterable
from functools import partial

from mqlab.broker import limits
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue


def requeue(queue: Queue, spans: Iterable[Span]) -> None:
    """Put messages back to where their ids belong, and dispatch when all are there."""
    queue.requeue(sorted(spans, key=lambda span: span.first_id))
    _enter_slice(queue)


def _enter_slice(queue: Queue) -> None:
    if queue.enter_requeued(limits.SLICE):
        queue.context.effects.append(Continue(partial(_enter_slice, queue)))
    else:
        queue.dispatch()
