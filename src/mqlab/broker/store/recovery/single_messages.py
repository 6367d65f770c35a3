"""Small single messages of a journal file, put together where they follow one another on a queue.

One by one they would take several hundred bytes of memory each, and most of the time of reading the file; and many of
them are gone before its end.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from mqlab.broker.store import journal_format
from mqlab.broker.store.files.checksums import Numbers
from mqlab.broker.store.recovery.live_ranges import RemovedIds
from mqlab.broker.store.recovery.scanner import PUT, REMOVE, RecordBlock, by_queue, read_structs, rows_at
from mqlab.wire.native.bodies import SINGLE, Payload, encode, encode_equal

# The longest body of a message that is small.
_SMALL: Final = 256
# So many are put together at most; what was consumed between two of them stays in memory, if it is no more than this.
_TOGETHER: Final = 256
_BETWEEN: Final = 3
# Fewer than this are left as they are.
_FEW: Final = 8


class MessageRun(NamedTuple):
    """Messages whose ids follow one another: where their bodies lie, and which ids are left, as [first, end)."""

    first_id: int
    begins: Numbers
    sizes: Numbers
    left: list[tuple[int, int]]

    def payload(self, data: bytes, array: Numbers) -> Payload:
        rows, size = len(self.sizes), int(self.sizes[0])
        if size and bool((self.sizes == size).all()):
            return encode_equal(rows_at(array, self.begins, size).reshape(-1), rows)
        places = zip(self.begins.tolist(), (self.begins + self.sizes).tolist(), strict=True)
        return encode([data[begin:end] for begin, end in places])


class SingleMessages:
    """Those of one file, and which messages it says are gone: there are as many of these."""

    def __init__(self) -> None:
        # By queue: ids, where their bodies begin, and the sizes of these.
        self._rows: dict[int, list[Numbers]] = {}
        # By queue: (first id, rows), a row each.
        self.removed: dict[int, list[Numbers]] = {}

    def take(self, block: RecordBlock, array: Numbers) -> Numbers:
        """Notes those of a block. A flag for each of its records: whether it is something else."""
        rest = np.ones(len(block.begins), dtype=bool)
        chosen = block.of_kind(journal_format.PUTS, PUT)
        puts = read_structs(array, block.inside(chosen), PUT)
        small = (puts["form"] == SINGLE) & (puts["targets"] == 1) & (puts["origin"] == 0) & (puts["bytes"] <= _SMALL)
        chosen, puts = chosen[small], puts[small]
        rest[chosen] = False
        sizes = puts["bytes"].astype(np.int64)
        rows = np.stack((puts["first_id"].astype(np.int64), block.ends[chosen] - sizes, sizes))
        for queue, some in by_queue(puts["queue"], rows):
            self._rows.setdefault(queue, []).append(some)
        rest[self._removes(block, array)] = False
        return rest

    def _removes(self, block: RecordBlock, array: Numbers) -> Numbers:
        chosen = block.of_kind(journal_format.REMOVED, REMOVE)
        removes = read_structs(array, block.inside(chosen), REMOVE)
        single = removes["ranges"] == 1
        ranges = np.stack((removes["first_id"], removes["rows"])).astype(np.int64)[:, single]
        for queue, some in by_queue(removes["queue"][single], ranges):
            self.removed.setdefault(queue, []).append(some.T)
        taken: Numbers = chosen[single]
        return taken

    def queues(self) -> Iterator[tuple[int, Numbers]]:
        """The messages of each queue, in the order of their ids, each once."""
        for queue, found in self._rows.items():
            rows = np.concatenate(found, axis=1)
            ids = rows[0]
            if bool((ids[1:] <= ids[:-1]).any()):
                rows = rows[:, ids.argsort(kind="stable")]
                rows = rows[:, np.append(rows[0, 1:] != rows[0, :-1], True)]
            yield queue, rows


def remaining_runs(rows: Numbers, gone: RemovedIds) -> Iterator[MessageRun | tuple[int, int, int]]:
    """What is left of the messages of a queue: a few as they are, each with its id, its place and its size."""
    ids, begins, sizes = rows
    left = np.flatnonzero(~gone.holds(ids))
    if not len(left):
        return
    steps = left[1:] - left[:-1]
    # Others may have been put between them that are no small single messages.
    breaks = np.flatnonzero((steps > _BETWEEN + 1) | (ids[left[1:]] - ids[left[:-1]] != steps)) + 1
    for first, end in _borders(breaks, len(left)):
        if end - first < _FEW:
            yield from map(tuple, rows[:, left[first:end]].T.tolist())
            continue
        chunks = (left[first:end] - left[first]) // _TOGETHER
        for one, other in _borders(np.flatnonzero(np.diff(chunks)) + 1, end - first):
            some = left[first + one : first + other]
            begin, last = int(some[0]), int(some[-1]) + 1
            yield MessageRun(int(ids[begin]), begins[begin:last], sizes[begin:last], _ranges(ids[some]))


def _borders(breaks: Numbers, length: int) -> Iterator[tuple[int, int]]:
    borders = [0, *breaks.tolist(), length]
    return pairwise(borders)


def _ranges(ids: Numbers) -> list[tuple[int, int]]:
    breaks = np.flatnonzero(np.diff(ids) > 1)
    firsts = ids[np.concatenate(([0], breaks + 1))]
    return [*zip(firsts.tolist(), (ids[np.append(breaks, len(ids) - 1)] + 1).tolist(), strict=True)]
