"""Messages that were delivered in vain come back to their queue: very many of them in slices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mqlab.broker import limits
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue


def put_back(queue: Queue, spans: Iterable[Span]) -> None:
    """To where their ids belong."""
    queue.returned.extend(sorted(spans, key=lambda span: span.first_id))
    _enter_some(queue)


def _enter_some(queue: Queue) -> None:
    """The queue dispatches nothing before all are back: a later message must not overtake an earlier one."""
    returned = queue.returned
    for _ in range(min(limits.SLICE, len(returned))):
        queue.enter(returned.popleft())
    queue.is_due = bool(returned)
    if returned:
        queue.context.effects.append(Continue(partial(_enter_some, queue)))
    else:
        queue.dispatch()
