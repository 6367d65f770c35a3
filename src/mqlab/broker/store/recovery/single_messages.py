"""Small single messages of a journal file, grouped where their ids follow one another on a queue.

Kept apart, each would take several hundred bytes of memory, and most of the time of reading the file; and many of them
are removed before its end.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqlab.broker.core.durability.records import Put, Remove
from mqlab.broker.store.files.checksums import Bytes, Numbers
from mqlab.broker.store.journal_format import KIND_OF, SIMPLE_PUT, SIMPLE_REMOVE
from mqlab.broker.store.recovery.live_ranges import RemovedIds
from mqlab.broker.store.recovery.scanner import RecordBlock, by_queue, read_structs, rows_at
from mqlab.wire.native.bodies import SINGLE, Payload, encode, encode_equal

# The longest body of a small message.
_SMALL_BYTES: Final = 256
# A run has at most so many messages; between two live ones it may keep so many removed ones in memory.
_MAX_RUN: Final = 256
_MAX_REMOVED_BETWEEN: Final = 3
# Fewer messages than this are not grouped.
_MIN_RUN: Final = 8


class SingleMessageRun(NamedTuple):
    """Messages whose ids follow one another: the bytes of their bodies, and the ranges [first, end) of live ids."""

    first_id: int
    begins: Numbers
    sizes: Numbers
    live: list[tuple[int, int]]

    def payload(self, data: bytes, array: Bytes) -> Payload:
        rows, size = len(self.sizes), int(self.sizes[0])
        if size and bool((self.sizes == size).all()):
            return encode_equal(rows_at(array, self.begins, size).reshape(-1), rows)
        bodies = zip(self.begins.tolist(), (self.begins + self.sizes).tolist(), strict=True)
        return encode([data[begin:end] for begin, end in bodies])


class SingleMessages:
    """The small single messages that a file puts, and the single ranges that it removes."""

    def __init__(self) -> None:
        # By queue: arrays with three rows, the ids, the bytes at which bodies begin, and their sizes.
        self._puts: dict[int, list[Numbers]] = {}
        # By queue: arrays of (first id, rows).
        self.removed: dict[int, list[Numbers]] = {}

    def take(self, block: RecordBlock, array: Bytes) -> npt.NDArray[np.bool_]:
        """Take the records of these two kinds from a block; return a flag for each record, True for all others."""
        rest = np.ones(len(block.begins), dtype=bool)
        indexes = block.of_kind(KIND_OF[Put], SIMPLE_PUT)
        puts = read_structs(array, block.bodies(indexes), SIMPLE_PUT)
        small = (puts["form"] == SINGLE) & (puts["targets"] == 1) & (puts["origin_bytes"] == 0)
        small &= puts["payload_bytes"] <= _SMALL_BYTES
        indexes, puts = indexes[small], puts[small]
        rest[indexes] = False
        sizes = puts["payload_bytes"].astype(np.int64)
        rows = np.stack((puts["first_id"].astype(np.int64), block.ends[indexes] - sizes, sizes))
        for queue, rows_of_queue in by_queue(puts["queue"], rows):
            self._puts.setdefault(queue, []).append(rows_of_queue)
        rest[self._take_removes(block, array)] = False
        return rest

    def _take_removes(self, block: RecordBlock, array: Bytes) -> Numbers:
        indexes = block.of_kind(KIND_OF[Remove], SIMPLE_REMOVE)
        removes = read_structs(array, block.bodies(indexes), SIMPLE_REMOVE)
        has_one_range = removes["ranges"] == 1
        ranges = np.stack((removes["first_id"], removes["rows"])).astype(np.int64)[:, has_one_range]
        for queue, ranges_of_queue in by_queue(removes["queue"][has_one_range], ranges):
            self.removed.setdefault(queue, []).append(ranges_of_queue.T)
        taken: Numbers = indexes[has_one_range]
        return taken

    def queues(self) -> Iterator[tuple[int, Numbers]]:
        """The messages of each queue, by ascending id, each once."""
        for queue, blocks in self._puts.items():
            rows = np.concatenate(blocks, axis=1)
            ids = rows[0]
            if bool((ids[1:] <= ids[:-1]).any()):
                rows = rows[:, ids.argsort(kind="stable")]
                rows = rows[:, np.append(rows[0, 1:] != rows[0, :-1], True)]
            yield queue, rows


def remaining_runs(rows: Numbers, removed: RemovedIds) -> Iterator[SingleMessageRun | tuple[int, int, int]]:
    """The live messages of a queue: as runs, or, where they are few, each with its id, first byte and size."""
    ids, begins, sizes = rows
    live = np.flatnonzero(~removed.contains(ids))
    if not len(live):
        return
    steps = live[1:] - live[:-1]
    # Records of other kinds may have put messages between them.
    breaks = np.flatnonzero((steps > _MAX_REMOVED_BETWEEN + 1) | (ids[live[1:]] - ids[live[:-1]] != steps)) + 1
    for first, end in _intervals(breaks, len(live)):
        if end - first < _MIN_RUN:
            yield from map(tuple, rows[:, live[first:end]].T.tolist())
            continue
        chunks = (live[first:end] - live[first]) // _MAX_RUN
        for chunk_first, chunk_end in _intervals(np.flatnonzero(np.diff(chunks)) + 1, end - first):
            chunk = live[first + chunk_first : first + chunk_end]
            begin, last = int(chunk[0]), int(chunk[-1]) + 1
            yield SingleMessageRun(int(ids[begin]), begins[begin:last], sizes[begin:last], _id_ranges(ids[chunk]))


def _intervals(breaks: Numbers, length: int) -> Iterator[tuple[int, int]]:
    return pairwise([0, *breaks.tolist(), length])


def _id_ranges(ids: Numbers) -> list[tuple[int, int]]:
    breaks = np.flatnonzero(np.diff(ids) > 1)
    firsts = ids[np.concatenate(([0], breaks + 1))]
    return [*zip(firsts.tolist(), (ids[np.append(breaks, len(ids) - 1)] + 1).tolist(), strict=True)]
