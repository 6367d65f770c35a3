"""Receipts, in the order of the frames: each also says that all earlier frames are done."""

from collections import deque
from collections.abc import Callable, Sequence


class PendingReceipts:
    """Frames that are not done, and the receipts that the client wants for them: none, one or several."""

    __slots__ = ("done", "ids")

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.done = False


class Receipts:
    """Calls `write` with receipts that are due. A frame without a receipt also delays later receipts."""

    def __init__(self, write: Callable[[Sequence[str]], None]) -> None:
        self._write = write
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
                self._write(ids)
