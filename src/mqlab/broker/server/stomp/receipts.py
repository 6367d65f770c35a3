"""Receipts, in the order in which they were asked for: each also says that all before it is done."""

from collections import deque
from collections.abc import Callable, Sequence


class PendingReceipts:
    """Frames of the client that are not done yet, and the receipts it wants for them: none, one or several."""

    __slots__ = ("done", "ids")

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.done = False


class Receipts:
    """`say` is told of the receipts that are due. What nobody asked a receipt for can hold later ones back, too."""

    def __init__(self, say: Callable[[Sequence[str]], None]) -> None:
        self._say = say
        self._waiting: deque[PendingReceipts] = deque()

    @property
    def idle(self) -> bool:
        return not self._waiting

    def expect(self, ids: Sequence[str] = ()) -> PendingReceipts:
        pending = PendingReceipts(ids)
        self._waiting.append(pending)
        return pending

    def done(self, pending: PendingReceipts) -> None:
        pending.done = True
        waiting = self._waiting
        while waiting and waiting[0].done:
            ids = waiting.popleft().ids
            if ids:
                self._say(ids)
