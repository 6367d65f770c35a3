"""Live ranges: the messages of a queue that were put and not removed, by arithmetic of ids."""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqlab.broker.core.model.messages import PayloadOnDisk
from mqlab.broker.store.files.checksums import Numbers
from mqlab.wire.native.bodies import Payload

Ranges = list[tuple[int, int]]


class LiveRange(NamedTuple):
    """The messages with the ids [begin, end), from a put whose first row has the id `base`."""

    begin: int
    end: int
    base: int
    payload: Payload | PayloadOnDisk
    # The record that put them, the segment it is in, and the destination they were sent to.
    lsn: int
    number: int
    origin: str

    @property
    def rows(self) -> int:
        return self.end - self.begin


def by_payload(ranges: list[LiveRange]) -> Iterator[list[LiveRange]]:
    """Group neighbours that share a payload."""
    group: list[LiveRange] = []
    payload: Payload | PayloadOnDisk | None = None
    for live in ranges:
        if live[3] is not payload:
            if group:
                yield group
            group, payload = [], live[3]
        group.append(live)
    if group:
        yield group


def rows_and_bytes(ranges: list[LiveRange]) -> tuple[int, int]:
    """How many messages they have, and about how many bytes."""
    rows = size = 0
    for group in by_payload(ranges):
        payload = group[0].payload
        payload_size = len(payload.data) if isinstance(payload, Payload) else payload.size
        live_rows = sum([live[1] - live[0] for live in group])
        rows, size = rows + live_rows, size + payload_size * live_rows // payload.rows
    return rows, size


class RemovedIds:
    """A set of removed ids, given as (first, rows) in any order, kept as disjoint ascending ranges [first, end)."""

    def __init__(self, ranges: Ranges | Numbers) -> None:
        given = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
        given = given[given[:, 0].argsort(kind="stable")]
        ends = np.maximum.accumulate(given.sum(axis=1))
        begins = np.append(True, given[1:, 0] > ends[:-1]) if len(given) else np.empty(0, dtype=bool)
        self._firsts = given[begins, 0]
        self._ends = ends[np.append(begins[1:], True)] if len(given) else ends

    def contains(self, ids: Numbers) -> npt.NDArray[np.bool_]:
        """A flag for each id."""
        if not len(self._firsts):
            return np.zeros(len(ids), dtype=bool)
        at = self._firsts.searchsorted(ids, side="right") - 1
        flags: npt.NDArray[np.bool_] = (at >= 0) & (ids < self._ends[at])
        return flags

    def overlapping(self, begins: Numbers, ends: Numbers) -> Ranges:
        """The removed ranges that overlap one of the ranges [begin, end), which are disjoint and ascending."""
        if not len(begins) or not len(self._firsts):
            return []
        at = begins.searchsorted(self._ends, side="left") - 1
        chosen = (at >= 0) & (ends[at] > self._firsts)
        return [*zip(self._firsts[chosen].tolist(), self._ends[chosen].tolist(), strict=True)]


def remaining_ranges(ranges: list[LiveRange], removed: Ranges | Numbers) -> list[LiveRange]:
    """The messages put and not removed, by ascending id, each message once: from the last record that put it."""
    begins, ends = _begins_and_ends(ranges)
    if bool((begins[1:] < ends[:-1]).any()):
        ranges = _latest(ranges)
        begins, ends = _begins_and_ends(ranges)
    overlapping = RemovedIds(removed).overlapping(begins, ends)
    if not overlapping:
        return ranges
    # Often only a few ranges at one end are affected, of very many.
    first = ends.searchsorted(overlapping[0][0], side="right")
    last = begins.searchsorted(overlapping[-1][1], side="left")
    return ranges[:first] + _subtract(ranges[first:last], overlapping) + ranges[last:]


def _begins_and_ends(ranges: list[LiveRange]) -> tuple[Numbers, Numbers]:
    begins, ends = (np.fromiter(map(itemgetter(at), ranges), np.int64, len(ranges)) for at in (0, 1))
    return begins, ends


def _latest(ranges: list[LiveRange]) -> list[LiveRange]:
    latest: list[LiveRange] = []
    for cluster in _clusters(sorted(ranges, key=itemgetter(0))):
        latest += cluster if len(cluster) == 1 else _latest_of(cluster)
    return latest


def _clusters(ranges: list[LiveRange]) -> list[list[LiveRange]]:
    """Group ranges that overlap."""
    clusters: list[list[LiveRange]] = []
    end = 0
    for live in ranges:
        if clusters and live.begin < end:
            clusters[-1].append(live)
        else:
            clusters.append([live])
        end = max(end, live.end)
    return clusters


def _latest_of(cluster: list[LiveRange]) -> list[LiveRange]:
    """Of messages that checkpoints put again, perhaps more than once, keep the last put."""
    begin, end = cluster[0].begin, max(live.end for live in cluster)
    owner = np.full(end - begin, -1, dtype=np.int64)
    cluster = sorted(cluster, key=lambda live: live.lsn)
    for index, live in enumerate(cluster):
        owner[live.begin - begin : live.end - begin] = index
    borders = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [
        cluster[owner[first]]._replace(begin=begin + first, end=begin + last)
        for first, last in pairwise(borders)
        if owner[first] >= 0
    ]


def _subtract(ranges: list[LiveRange], removed: Ranges) -> list[LiveRange]:
    remaining: list[LiveRange] = []
    at = 0
    for live in ranges:
        begin, end = live[0], live[1]
        while at < len(removed) and removed[at][0] < end:
            first, last = removed[at]
            if first > begin:
                remaining.append(live._replace(begin=begin, end=first))
            begin = max(begin, last)
            if last > end:
                # The removed range continues in the next live range.
                break
            at += 1
        if begin == live[0]:
            remaining.append(live)
        elif begin < end:
            remaining.append(live._replace(begin=begin))
    return remaining
