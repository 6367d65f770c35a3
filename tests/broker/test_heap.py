"""Memory that was freed between objects that stay goes back to the operating system."""

import subprocess
import sys

import pytest

from mqlab.broker.heap import HeapTrimmer

MIB = 1024 * 1024
# Smaller than what the C library gets from the operating system, and gives back, alone.
BLOCK_BYTES = 100 * 1024


# 40 MiB, of which a tenth stays. In a process of its own: the heap of this one has holes that the blocks would fill.
HOLES = f"""
from mqlab.broker.heap import HeapTrimmer, release_free_memory, resident_bytes
trimmer = HeapTrimmer(memory_limit={128 * MIB})
left = [b"x" * {BLOCK_BYTES} for _ in range(400)][9::10]
before = resident_bytes()
"""


def printed(program: str) -> int:
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(said.stdout)


@pytest.mark.parametrize("release", ["release_free_memory()", "trimmer.check()"])
def test_free_memory_between_live_objects_is_released(release: str) -> None:
    assert printed(f"{HOLES}{release}; print(before - resident_bytes())") > 300 * BLOCK_BYTES


def test_memory_that_is_in_use_is_looked_at_once_for_each_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[bool] = []
    # At first, then for each check; after a release, also what is left.
    sizes = iter([100, 104, 109, 109, 110, 118, 120, 120, 90, 97])
    monkeypatch.setattr("mqlab.broker.heap.resident_bytes", lambda: next(sizes) * MIB)
    monkeypatch.setattr("mqlab.broker.heap.release_free_memory", lambda: released.append(True))
    trimmer = HeapTrimmer(memory_limit=128 * MIB)
    counts, grown = [], []
    for _ in range(7):
        grown.append(trimmer.check() // MIB)
        counts.append(len(released))
    assert grown == [4, 9, 10, 20, 20, -10, -3], "since the start"
    # At 104 it had not grown by more than 8; at 109 it had, and 109 were in use; 110; 118 and 120; 120; 90; 97.
    assert counts == [0, 1, 1, 2, 2, 2, 2]
    assert next(sizes, None) is None


def test_above_half_of_the_limit_it_is_looked_at_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[bool] = []
    sizes = iter([100, 165, 164, 164, 164, 163])
    monkeypatch.setattr("mqlab.broker.heap.resident_bytes", lambda: next(sizes) * MIB)
    monkeypatch.setattr("mqlab.broker.heap.release_free_memory", lambda: released.append(True))
    trimmer = HeapTrimmer(memory_limit=128 * MIB)
    trimmer.check()
    trimmer.check()
    assert len(released) == 1, "at 165; 164 is half of the limit"
    trimmer.check()
    assert next(sizes, None) == 163


def test_a_large_block_has_pages_of_its_own() -> None:
    """In a process of its own: it changes the allocator."""
    freed = printed("""
from mqlab.broker.heap import keep_large_blocks_out_of_the_heap, resident_bytes
keep_large_blocks_out_of_the_heap()
blocks = [b"x" * (1 << 20) for _ in range(20)]
blocks.clear()  # by default, blocks of this size come from the heap from now on
blocks = [b"x" * size for _ in range(400) for size in (1 << 16, 3000)]
left, before = blocks[1::2], resident_bytes()
del blocks
print(before - resident_bytes())
""")
    assert freed > 20 * MIB
