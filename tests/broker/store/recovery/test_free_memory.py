"""Memory that was freed between objects that stay goes back to the operating system."""

import os
from pathlib import Path

from mqlab.broker.store.recovery.recovery import release_free_memory

KIB = 1024


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_free_memory_between_live_objects_is_released() -> None:
    # Each is smaller than what the C library gets from the operating system, and gives back, alone.
    size = 100 * KIB
    blocks = [b"x" * size for _ in range(400)]
    left = blocks[9::10]
    del blocks
    before = resident()
    release_free_memory()
    assert before - resident() > 300 * size
    assert all(block == b"x" * size for block in left)
