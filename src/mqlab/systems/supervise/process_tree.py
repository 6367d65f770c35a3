"""What a process and all its descendants use of the machine, also those that have ended."""

import time
from dataclasses import dataclass
from typing import Final

import psutil

# Who belongs to the tree is looked up this seldom, since that means a look at every process of the machine.
_LOOK_SECONDS: Final = 0.5
# A figure that falls is looked at again: a process may have ended in the midst of the look.
_LOOKS: Final = 3


@dataclass(frozen=True)
class ResourceUsage:
    """All but `rss` count up."""

    cpu_seconds: float
    rss: int
    bytes_read: int
    bytes_written: int


class ProcessTree:
    """Of everything below `root`, which itself only waits: not counted, but for what those it waited for have used.

    The system adds what a process has used to its parent's account once that has waited for it, so that the sum over
    those who live is the whole. What nobody waits for is kept by the difference: no figure ever falls.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: list[psutil.Process] = []
        self._looked = 0.0
        self._before = (0.0, 0, 0)
        self._kept = (0.0, 0, 0)

    def processes(self) -> list[psutil.Process]:
        """Those that live now; none if the root is gone, but those last seen."""
        try:
            self._known = psutil.Process(self._root).children(recursive=True)
        except psutil.Error:
            self._known = [one for one in self._known if one.is_running()]
        self._looked = time.monotonic()
        return self._known

    def usage(self) -> ResourceUsage:
        """Raises psutil.NoSuchProcess if the root is gone."""
        if not self._known or time.monotonic() > self._looked + _LOOK_SECONDS:
            self.processes()
        now, rss = self._sum()
        for _ in range(_LOOKS):
            if not _fell(now, self._before):
                break
            self.processes()
            now, rss = self._sum()
        kept, before = self._kept, self._before
        self._kept = (
            kept[0] + max(0.0, before[0] - now[0]), kept[1] + max(0, before[1] - now[1]),
            kept[2] + max(0, before[2] - now[2]),
        )  # fmt: skip
        self._before = now
        return ResourceUsage(now[0] + self._kept[0], rss, now[1] + self._kept[1], now[2] + self._kept[2])

    def _sum(self) -> tuple[tuple[float, int, int], int]:
        root = psutil.Process(self._root)
        times, moved = root.cpu_times(), root.io_counters()
        cpu, rss = times.children_user + times.children_system, 0
        read, written = moved.read_bytes, moved.write_bytes
        for one in self._known:
            try:
                with one.oneshot():
                    times, moved = one.cpu_times(), one.io_counters()
                    rss += one.memory_info().rss
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            cpu += times.user + times.system + times.children_user + times.children_system
            read += moved.read_bytes
            written += moved.write_bytes
        return (cpu, read, written), rss


def _fell(now: tuple[float, int, int], before: tuple[float, int, int]) -> bool:
    return any(a < b for a, b in zip(now, before, strict=True))
