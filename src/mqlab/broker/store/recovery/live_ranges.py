"""Which messages are left of all that was ever put on a queue: arithmetic of ids."""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from mqlab.broker.core.model.messages import OnDisk
from mqlab.broker.store.files.checksums import Numbers
from mqlab.wire.native.bodies import Payload

Ranges = list[tuple[int, int]]


class LiveRange(NamedTuple):
    """The messages with the ids [begin, end), from a put whose first row has the id `base`."""

    begin: int
    end: int
    base: int
    payload: Payload | OnDisk
    # The record that put them, the file it lies in, and where they were sent.
    lsn: int
    number: int
    origin: str

    @property
    def rows(self) -> int:
        return self.end - self.begin


def by_payload(parts: list[LiveRange]) -> Iterator[list[LiveRange]]:
    """Neighbours of one payload together."""
    group: list[LiveRange] = []
    payload: Payload | OnDisk | None = None
    for part in parts:
        if part[3] is not payload:
            if group:
                yield group
            group, payload = [], part[3]
        group.append(part)
    if group:
        yield group


def extent(parts: list[LiveRange]) -> tuple[int, int]:
    """Their messages, and the bytes of these."""
    rows = size = 0
    for group in by_payload(parts):
        payload = group[0].payload
        whole = len(payload.data) if isinstance(payload, Payload) else payload.size
        some = sum([part[1] - part[0] for part in group])
        rows, size = rows + some, size + whole * some // payload.rows
    return rows, size


class RemovedIds:
    """Ids that were removed, given as (first, rows) in any order: [first, end) ascending, those that touch in one."""

    def __init__(self, ranges: Ranges | Numbers) -> None:
        found = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
        found = found[found[:, 0].argsort(kind="stable")]
        ends = np.maximum.accumulate(found.sum(axis=1))
        begins = np.append(True, found[1:, 0] > ends[:-1]) if len(found) else np.empty(0, dtype=bool)
        self._firsts = found[begins, 0]
        self._ends = ends[np.append(begins[1:], True)] if len(found) else ends

    def holds(self, ids: Numbers) -> Numbers:
        """A flag for each."""
        if not len(self._firsts):
            return np.zeros(len(ids), dtype=bool)
        at = self._firsts.searchsorted(ids, side="right") - 1
        flags: Numbers = (at >= 0) & (ids < self._ends[at])
        return flags

    def within(self, begins: Numbers, ends: Numbers) -> Ranges:
        """Those that touch one of the ranges [begin, end), which are in order and do not overlap."""
        if not len(begins) or not len(self._firsts):
            return []
        at = begins.searchsorted(self._ends, side="left") - 1
        chosen = (at >= 0) & (ends[at] > self._firsts)
        return [*zip(self._firsts[chosen].tolist(), self._ends[chosen].tolist(), strict=True)]


def remaining_ranges(parts: list[LiveRange], removed: Ranges | Numbers) -> list[LiveRange]:
    """What was put and not removed, in the order of the ids, each message once: from the last record that put it."""
    begins, ends = _borders(parts)
    if bool((begins[1:] < ends[:-1]).any()):
        parts = _latest(parts)
        begins, ends = _borders(parts)
    gone = RemovedIds(removed).within(begins, ends)
    if not gone:
        return parts
    # Often only a few at one end are touched, of very many.
    first, last = ends.searchsorted(gone[0][0], side="right"), begins.searchsorted(gone[-1][1], side="left")
    return parts[:first] + _without(parts[first:last], gone) + parts[last:]


def _borders(parts: list[LiveRange]) -> tuple[Numbers, Numbers]:
    begins, ends = (np.fromiter(map(itemgetter(at), parts), np.int64, len(parts)) for at in (0, 1))
    return begins, ends


def _latest(parts: list[LiveRange]) -> list[LiveRange]:
    parts = sorted(parts, key=itemgetter(0))
    found: list[LiveRange] = []
    for cluster in _clusters(parts):
        found += cluster if len(cluster) == 1 else _latest_of(cluster)
    return found


def _clusters(parts: list[LiveRange]) -> list[list[LiveRange]]:
    """Parts that overlap, together."""
    clusters: list[list[LiveRange]] = []
    end = 0
    for part in parts:
        if clusters and part.begin < end:
            clusters[-1].append(part)
        else:
            clusters.append([part])
        end = max(end, part.end)
    return clusters


def _latest_of(cluster: list[LiveRange]) -> list[LiveRange]:
    """They were carried forward, some of them perhaps twice."""
    begin, end = cluster[0].begin, max(part.end for part in cluster)
    owner = np.full(end - begin, -1, dtype=np.int64)
    cluster = sorted(cluster, key=lambda part: part.lsn)
    for number, part in enumerate(cluster):
        owner[part.begin - begin : part.end - begin] = number
    borders = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [
        cluster[owner[first]]._replace(begin=begin + first, end=begin + last)
        for first, last in pairwise(borders)
        if owner[first] >= 0
    ]


def _without(parts: list[LiveRange], gone: Ranges) -> list[LiveRange]:
    left: list[LiveRange] = []
    at = 0
    for part in parts:
        begin, end = part[0], part[1]
        while at < len(gone) and gone[at][0] < end:
            first, last = gone[at]
            if first > begin:
                left.append(part._replace(begin=begin, end=first))
            begin = max(begin, last)
            if last > end:
                # It goes on in the next part.
                break
            at += 1
        if begin == part[0]:
            left.append(part)
        elif begin < end:
            left.append(part._replace(begin=begin))
    return left
