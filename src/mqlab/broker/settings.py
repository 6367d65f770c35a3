"""What a person may choose about a broker. Each field says what follows from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MIB = 1024 * 1024
_MOST_WINDOW = 1024 * MIB


class SettingError(ValueError):
    """A setting has a value the broker cannot work with."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    # Where persistent messages are kept. None: nothing is kept, and a persistent send is refused.
    data: Path | None = None
    # "tcp:HOST:PORT" (port 0: a free one) or "unix:PATH". Other than loopback needs `open_to_network`.
    listen: tuple[str, ...] = ("tcp:127.0.0.1:7766",)
    open_to_network: bool = False
    # "on": a persistent send is confirmed after the disk has it. "off": after the operating system has it, so a power
    # failure loses confirmed messages; every report of a run made with it says so.
    sync: Literal["on", "off"] = "on"
    # Imitate a turning disk: a sync completes at the next of so many marks a second (15,000 turns a minute: 250).
    # 0: the disk as it is.
    disk_marks: int = 0
    # Unacknowledged bytes of one queue or subscription above which its producers are held back.
    # More lets bursts pass and delays the messages behind them; nothing is ever dropped.
    queue_limit: int = 8 * MIB
    # The same for the whole broker.
    memory_limit: int = 1024 * MIB
    # Bytes a producer may send ahead of the broker (never more than the queue limit). Few batches would starve it.
    producer_window: int = 4 * MIB
    # A journal file is closed at this size, and removed once nothing in it is needed.
    segment_size: int = 64 * MIB
    # Write every call of the file layer, with its time, to this file: for proofs, not for production.
    file_trace: Path | None = None

    def __post_init__(self) -> None:
        if self.sync not in ("on", "off"):
            raise SettingError(f"sync: {self.sync!r} is neither on nor off")
        least = {"queue_limit": 1, "memory_limit": 1, "producer_window": 1, "segment_size": 64 * 1024, "disk_marks": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < smallest:
                raise SettingError(f"{name}: {value!r} is not a whole number of {smallest} or more")
        if self.producer_window > _MOST_WINDOW:
            raise SettingError(f"producer_window: {self.producer_window} is more than {_MOST_WINDOW}")
        if not self.listen:
            raise SettingError("listen: name at least one address, such as tcp:127.0.0.1:7766 or unix:/tmp/broker")
