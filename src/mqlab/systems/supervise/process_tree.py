"""The resources of a process and all its descendants, including those that have ended."""

import time
from dataclasses import dataclass
from typing import Final

import psutil

# The list of descendants is renewed this seldom, since that reads every process of the machine.
_REFRESH_SECONDS: Final = 0.5
# A counter that falls is read again: a process may have ended during the reading.
_RETRIES: Final = 3


@dataclass(frozen=True)
class ResourceUsage:
    """All but `rss` are counters."""

    cpu_seconds: float
    rss: int
    bytes_read: int
    bytes_written: int


class ProcessTree:
    """The descendants of `root`. The root itself only waits; it counts for its ended children.

    When a parent waits for an ended child, the kernel adds the child's resources to those of the parent, so the sum
    over living processes is complete. If no parent waits for a child, the sum falls; the tree adds the difference, so
    that no counter falls.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._descendants: list[psutil.Process] = []
        self._refreshed = 0.0
        self._last = (0.0, 0, 0)
        self._lost = (0.0, 0, 0)

    def processes(self) -> list[psutil.Process]:
        """The living descendants; if the root has ended, those of the last list that still live."""
        try:
            self._descendants = psutil.Process(self._root).children(recursive=True)
        except psutil.Error:
            self._descendants = [process for process in self._descendants if process.is_running()]
        self._refreshed = time.monotonic()
        return self._descendants

    def usage(self) -> ResourceUsage:
        """Raises psutil.NoSuchProcess if the root has ended."""
        if not self._descendants or time.monotonic() > self._refreshed + _REFRESH_SECONDS:
            self.processes()
        now, rss = self._sum()
        for _ in range(_RETRIES):
            if all(value >= before for value, before in zip(now, self._last, strict=True)):
                break
            self.processes()
            now, rss = self._sum()
        lost, last = self._lost, self._last
        self._lost = (
            lost[0] + max(0.0, last[0] - now[0]), lost[1] + max(0, last[1] - now[1]),
            lost[2] + max(0, last[2] - now[2]),
        )  # fmt: skip
        self._last = now
        return ResourceUsage(now[0] + self._lost[0], rss, now[1] + self._lost[1], now[2] + self._lost[2])

    def _sum(self) -> tuple[tuple[float, int, int], int]:
        root = psutil.Process(self._root)
        times, io = root.cpu_times(), root.io_counters()
        cpu, rss = times.children_user + times.children_system, 0
        read, written = io.read_bytes, io.write_bytes
        for process in self._descendants:
            try:
                with process.oneshot():
                    times, io = process.cpu_times(), process.io_counters()
                    rss += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            cpu += times.user + times.system + times.children_user + times.children_system
            read += io.read_bytes
            written += io.write_bytes
        return (cpu, read, written), rss
