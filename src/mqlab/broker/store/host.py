"""The component that runs the journal, as the journal sees it, and the journal's counters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mqlab.broker.core.durability.records import Declare, Remember


class JournalHost(Protocol):
    """The broker, as the journal sees it."""

    def run_sync(self, work: Callable[[], None], done: Callable[[BaseException | None], None], *, quick: bool) -> None:
        """Do the work without blocking the caller, then call `done` in the journal's thread.

        `quick`: the work is likely to end sooner than a thread would begin it; an idle host may do it, and call `done`,
        before this returns.
        """

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call the action after that time."""

    def on_durable(self, lsn: int) -> None:
        """All records up to this one are durable."""

    def on_failure(self, error: BaseException) -> None:
        """The journal has failed: nothing will become durable any more."""

    def on_disk_full(self, reason: str) -> None:
        """The disk is full, and why; "": it has room again. Meanwhile the host should append no messages."""

    def declarations(self) -> Iterable[Declare]:
        """All queues, for the header of a new file."""

    def remembered(self) -> Iterable[Remember]:
        """All duplicate ids to recognise, for the header of a new file.

        Only ids of messages whose record was appended: the header may outlive a record that was not.
        """

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """A checkpoint: append again what is still needed of a file, before this returns, so that the file can go.

        `intervals`: for each queue (by number) the ids [first, end) in the file. The host puts again those of them
        that are persistent and that no appended record removes, with the same ids, and no others.
        `xids`: transactions that the host prepares again, after the puts.
        """


@dataclass(slots=True)
class JournalCounters:
    syncs: int = 0
    sync_seconds: float = 0.0
    # Bytes of all records that were written.
    bytes: int = 0
    # Checkpoints: how many, the bytes they wrote, and how long they blocked the broker.
    checkpoints: int = 0
    carried_bytes: int = 0
    checkpoint_seconds: float = 0.0
