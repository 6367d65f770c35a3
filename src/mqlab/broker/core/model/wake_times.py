"""Queues that must be looked at again at some time: messages on them become due, or expire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mqlab.broker import limits

if TYPE_CHECKING:
    from mqlab.broker.core.model.messages import Span
    from mqlab.broker.core.model.queue import Queue
    from mqlab.broker.core.model.sessions import Session

# When (ms since 1970), a number that keeps the order of those at the same time, and the queue.
Wake = tuple[int, int, "Queue"]


def wake_due(wakes: list[Wake], now: int) -> None:
    """Those whose time has come, as far as one slice goes: the rest stays, and is due at once."""
    left = limits.SLICE
    due: list[Wake] = []
    while wakes and wakes[0][0] <= now and len(due) < limits.SLICE:
        due.append(heappop(wakes))
    for at, (_, _, queue) in enumerate(due):
        if left <= 0:
            for wake in due[at:]:
                heappush(wakes, wake)
            return
        left -= 1 + queue.wake(left)


def set_back(queues: Sequence[Queue], placed: set[Span], sessions: Iterable[Session], step_ms: int) -> None:
    """The wall clock shows so much less than before: delays go on as if nothing had happened.

    `placed`: messages of prepared transactions.
    """
    for queue in queues:
        queue.clock_set_back(step_ms)
    for span in placed.union(*(queue.unseen for queue in queues)):
        span.due = max(0, span.due - step_ms)
    for session in sessions:
        for _, span in session.transaction.sends:
            span.due -= step_ms
