"""Checks of the disk that run folders, and the data of the systems, are on."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from mqlab.runner.doctor.machine_finding import MachineFinding, Weight
from mqlab.runner.machine import filesystem_of

_BLOCK: Final = bytes(4096)
_SYNCS: Final = 20
# A disk without a cache that survives power loss takes some milliseconds; below this, none is involved at all.
_SLOW_S: Final = 0.010
_NO_DISK_S: Final = 20e-6
_GIB: Final = 1 << 30
_LITTLE_BYTES: Final = 10 * _GIB
_LEAST_BYTES: Final = 2 * _GIB
_IN_MEMORY: Final = ("tmpfs", "ramfs")


def room_check(folder: Path) -> MachineFinding:
    """`folder` exists."""
    free = shutil.disk_usage(folder).free
    measured = f"{free / _GIB:.1f} GiB free in {folder}"
    if free >= _LITTLE_BYTES:
        return MachineFinding("disk room", "fine", measured)
    weight: Weight = "some" if free >= _LEAST_BYTES else "much"
    effect = "runs end when the disk is full, and disks that are nearly full are slower"
    return MachineFinding("disk room", weight, measured, effect, "remove old run folders, or name another with --runs")


def sync_check(folder: Path) -> MachineFinding:
    """Measures how long a sync takes there."""
    seconds, kind = median(_sync_seconds(folder)), filesystem_of(folder) or "unknown file system"
    measured = f"a sync takes {seconds * 1e3:.2g} ms on {kind}"
    if kind in _IN_MEMORY or seconds < _NO_DISK_S:
        effect = "nothing is on a disk: persistent messages cost as little as others"
        return MachineFinding("disk", "much", measured, effect, "name a folder on a disk with --runs")
    if seconds <= _SLOW_S:
        return MachineFinding("disk", "fine", measured)
    effect = "figures of persistent messages are those of this disk"
    return MachineFinding("disk", "some", measured, effect, "name a folder on a faster disk with --runs")


def _sync_seconds(folder: Path) -> Iterator[float]:
    with tempfile.TemporaryFile(dir=folder, prefix=".mqlab-doctor-") as file:
        for _ in range(_SYNCS):
            os.write(file.fileno(), _BLOCK)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            yield time.perf_counter() - begin
