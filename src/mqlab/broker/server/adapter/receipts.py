"""Receipts, in the order of the frames: each also says that all earlier frames are done."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

# The receipt that the client gets when a frame is done.
ReceiptT = TypeVar("ReceiptT")


class PendingReceipts(Generic[ReceiptT]):
    """Frames that are not done, and the receipts that the client wants for them: none, one or several.

    `steps`: how many steps are left until they are done.
    """

    __slots__ = ("done", "ids", "steps")

    def __init__(self, ids: Sequence[ReceiptT]) -> None:
        self.ids = ids
        self.done = False
        self.steps = 1


class Receipts(Generic[ReceiptT]):
    """Calls `write` with receipts that are due. A frame without a receipt also delays later receipts."""

    def __init__(self, write: Callable[[Sequence[ReceiptT]], None]) -> None:
        self._write = write
        self._waiting: deque[PendingReceipts[ReceiptT]] = deque()

    @property
    def idle(self) -> bool:
        return not self._waiting

    def expect(self, ids: Sequence[ReceiptT] = ()) -> PendingReceipts[ReceiptT]:
        pending = PendingReceipts(ids)
        self._waiting.append(pending)
        return pending

    def done(self, pending: PendingReceipts[ReceiptT]) -> None:
        """A step of the frames is done; the last one makes the receipts due."""
        pending.steps -= 1
        if pending.steps:
            return
        pending.done = True
        waiting = self._waiting
        while waiting and waiting[0].done:
            ids = waiting.popleft().ids
            if ids:
                self._write(ids)
