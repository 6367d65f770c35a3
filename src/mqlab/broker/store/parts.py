"""Which messages are left of all that was ever put on a queue: arithmetic of ids."""

from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from mqlab.broker.core.messages import OnDisk
from mqlab.wire.bodies import Payload

Ranges = list[tuple[int, int]]


class Part(NamedTuple):
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

    @property
    def size(self) -> int:
        """Their share of the payload's bytes."""
        payload = self.payload
        whole = len(payload.data) if isinstance(payload, Payload) else payload.size
        return whole * self.rows // payload.rows


def left_of(parts: list[Part], removed: Ranges) -> list[Part]:
    """What was put and not removed, in the order of the ids, each message once: from the last record that put it."""
    return _without(_latest(parts), _joined(removed))


def _latest(parts: list[Part]) -> list[Part]:
    parts = sorted(parts, key=itemgetter(0))
    if all(one[1] <= other[0] for one, other in pairwise(parts)):
        return parts
    found: list[Part] = []
    for cluster in _clusters(parts):
        found += cluster if len(cluster) == 1 else _latest_of(cluster)
    return found


def _clusters(parts: list[Part]) -> list[list[Part]]:
    """Parts that overlap, together."""
    clusters: list[list[Part]] = []
    end = 0
    for part in parts:
        if clusters and part.begin < end:
            clusters[-1].append(part)
        else:
            clusters.append([part])
        end = max(end, part.end)
    return clusters


def _latest_of(cluster: list[Part]) -> list[Part]:
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


def _joined(ranges: Ranges) -> Ranges:
    """(first, rows) in any order -> [first, end) ascending, those that touch in one."""
    joined: Ranges = []
    begin = end = -1
    for first, rows in sorted(ranges):
        if first <= end:
            end = max(end, first + rows)
        else:
            if end > begin:
                joined.append((begin, end))
            begin, end = first, first + rows
    if end > begin:
        joined.append((begin, end))
    return joined


def _without(parts: list[Part], gone: Ranges) -> list[Part]:
    if not gone:
        return parts
    left: list[Part] = []
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
