"""Wake times of queues: messages on them become due, or expire."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from mqlab.broker import limits
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreSession

# When (ms since 1970), a number that keeps the order of those at the same time, and the queue.
Wake = tuple[int, int, Queue]


def wake_due(wakes: list[Wake], now: int) -> None:
    """Wake the queues whose time has come, a slice of them: the rest stays, and is due at once."""
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


def set_back(queues: Sequence[Queue], placed: set[Span], sessions: Iterable[CoreSession], step_ms: int) -> None:
    """The wall clock was set back by so much: delays last as long as before.

    `placed`: messages of prepared transactions.
    """
    for queue in queues:
        queue.clock_set_back(step_ms)
    for span in placed.union(*(queue.hidden for queue in queues)):
        span.due = max(0, span.due - step_ms)
    for session in sessions:
        for _, span in session.transaction.sends:
            span.due -= step_ms
