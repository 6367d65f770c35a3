"""Checks of memory and limits."""

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from mqlab.runner.doctor.machine_finding import MachineFinding

# The lab starts a system only if so much memory is free; a JVM and its page cache need as much.
_LEAST_BYTES: Final = 2 << 30
_GIB: Final = 1 << 30
# A study with a thousand clients needs some open files for each.
_FILES: Final = 4096


def memory_checks(root: Path = Path("/")) -> Iterator[MachineFinding]:
    """`root`: of the file system whose /sys is read."""
    yield _memory(min(psutil.virtual_memory().available, _container_room(root)))
    yield _swap(psutil.swap_memory().used)
    yield _open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def _container_room(root: Path) -> float:
    """The bytes that the limit of the container leaves; infinite without one."""
    group = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError, KeyError):  # "max": no limit
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        counters = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # The kernel takes back the cache of files when memory is needed.
        return float(max(0, limit - used + int(counters["inactive_file"])))
    return float("inf")


def _memory(available: float) -> MachineFinding:
    measured = f"{available / _GIB:.1f} GiB free"
    if available >= _LEAST_BYTES:
        return MachineFinding("memory", "fine", measured)
    effect = "systems stop and start again between runs, and brokers page to disk"
    return MachineFinding("memory", "much", measured, effect, "end other programs until 2 GiB are free")


def _swap(used: int) -> MachineFinding:
    measured = f"{used / _GIB:.1f} GiB used" if used else "none used"
    if used < _GIB // 100:
        return MachineFinding("swap", "fine", measured)
    effect = "a system may wait for the disk where it should work in memory"
    return MachineFinding("swap", "some", measured, effect, "swapoff -a (as root), or free memory first")


def _open_files(limit: int) -> MachineFinding:
    unlimited = limit == resource.RLIM_INFINITY
    measured = "not limited" if unlimited else f"{limit:,} at most"
    if unlimited or limit >= _FILES:
        return MachineFinding("open files", "fine", measured)
    effect = "runs with many clients fail"
    return MachineFinding("open files", "some", measured, effect, f"ulimit -Hn {_FILES} (as root), before mqlab starts")
