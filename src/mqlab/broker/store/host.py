"""What the journal needs of whoever runs it, and what it counts for him."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mqlab.broker.core.durability.records import Declare, Remember


class JournalHost(Protocol):
    def run_sync(self, work: Callable[[], None], done: Callable[[BaseException | None], None], *, quick: bool) -> None:
        """Do the work without blocking the caller, then call `done` where the journal is called from.

        `quick`: it is likely to be over sooner than a thread would have begun it; a host with nothing else to do may
        do both before this returns.
        """

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call the action after that time."""

    def on_durable(self, lsn: int) -> None: ...

    def on_failure(self, error: BaseException) -> None: ...

    def on_disk_full(self, reason: str) -> None:
        """There is no room on disk, and why; or ("") there is again. Until then nothing should be sent to the disk."""

    def declarations(self) -> Iterable[Declare]:
        """The queues there are, for the head of a new file."""

    def remembered(self) -> Iterable[Remember]:
        """All ids that must be known again as duplicates, for the head of a new file.

        Only ids of messages whose record was appended: the head may outlive a record that was not.
        """

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """Append again what is still needed of a file, before this returns, so that the file can go.

        `intervals`: for each queue (by number) the ids [first, end) that the file has. Those of them that are
        persistent and not removed by a record appended before are put again, with the same ids, and no others.
        `xids`: these transactions are prepared again, after the puts.
        """


@dataclass(slots=True)
class JournalCounters:
    count: int = 0
    seconds: float = 0.0
    # All bytes of records that were written.
    bytes: int = 0
    # Files carried forward: how many, the bytes written again for them, and how long the broker stood still.
    checkpoints: int = 0
    carried_bytes: int = 0
    checkpoint_seconds: float = 0.0
