"""Spans: rows of an immutable batch on a queue."""

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np

from mqlab.wire.native.bodies import Payload, select_rows
from mqlab.wire.native.payload import RowFlags, RowIndex, RowNumbers

# The bytes of the objects around a payload in memory, about.
FOOTPRINT: Final = 350
_ONE: Final = range(1)


class PayloadOnDisk(Protocol):
    """A payload that was paged out."""

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> int: ...

    def load(self) -> Payload: ...


class Span:
    """Messages of one batch on one queue: the rows `index` of `payload`. The id of row r on that queue is `base` + r.

    A span is also its own node in a list of spans. `persistent` is what the producer asked for. `delivered` counts the
    deliveries of these messages; `doubtful` of them, before a restart, may never have reached a consumer. `origin` is
    the destination they were sent to, if it is not this queue.
    """

    __slots__ = (
        "after", "base", "before", "delivered", "doubtful", "due", "expires", "index", "memory", "origin", "payload",
        "persistent", "priority", "rows", "since", "size", "span_list",
    )  # fmt: skip

    def __init__(
        self, payload: Payload | PayloadOnDisk, base: int, persistent: bool,
        index: RowIndex | None = None, delivered: int = 0, origin: str = "", priority: int = 4,
        due: int = 0, expires: int = 0, since: int = 0, doubtful: int = 0,
    ) -> None:  # fmt: skip
        self.payload = payload
        self.base = base
        self.index: RowIndex
        # Bytes of its messages, and of memory: these, and its share of the objects around its payload.
        self.size: int
        self.memory: int
        if index is None and isinstance(payload, Payload):
            # The whole payload: the usual case.
            data, rows, _ = payload
            self.index = _ONE if rows == 1 else range(rows)
            self.rows = rows
            self.size = size = len(data)
            self.memory = size + FOOTPRINT
        else:
            self.index = range(payload.rows) if index is None else index
            self.rows = len(self.index)
            self._measure()
        self.persistent = persistent
        self.delivered = delivered
        self.doubtful = doubtful
        self.origin = origin
        self.priority = priority
        # When they may be delivered (0: at once), and when the first of them expires (0: none does), in ms since 1970.
        self.due = due
        self.expires = expires
        # When it came to its queue, in microseconds of the monotonic clock; 0: without monitoring.
        self.since = since
        # The list it is in, or None; its neighbours there are set only while it is in one.
        self.span_list: object | None = None
        self.before: Span | None
        self.after: Span | None

    @property
    def first_id(self) -> int:
        return self.base + int(self.index[0])

    @property
    def last_id(self) -> int:
        return self.base + int(self.index[-1])

    @property
    def in_memory(self) -> bool:
        return isinstance(self.payload, Payload)

    def moved(self, stored: PayloadOnDisk) -> None:
        """Its payload was paged out."""
        self.payload = stored
        self._measure()

    def whole(self) -> Payload:
        """The batch it is part of, loaded if it was paged out."""
        payload = self.payload
        return payload if isinstance(payload, Payload) else payload.load()

    def encoded(self) -> Payload:
        payload = self.payload
        if isinstance(payload, Payload) and payload.rows == self.rows:
            return payload
        return select_rows(self.whole(), self.index)

    def of_rows(self, index: RowIndex) -> "Span":
        """Other rows of the same batch, on the same queue."""
        return Span(
            self.payload, self.base, persistent=self.persistent, index=index, delivered=self.delivered,
            origin=self.origin, priority=self.priority, due=self.due, expires=self.expires,
            since=self.since, doubtful=self.doubtful,
        )  # fmt: skip

    def take_first(self, rows: int) -> "Span":
        """Split off its first `rows` messages; at least one stays."""
        assert 0 < rows < len(self.index)
        taken = self.of_rows(self.index[:rows])
        self._set_rows(self.index[rows:])
        return taken

    def take_before(self, first_id: int) -> "Span":
        """Split off its messages with lower ids; it has some, and at least one stays."""
        row = first_id - self.base
        if isinstance(self.index, range):
            return self.take_first(row - self.index.start)
        return self.take_first(int(self.index.searchsorted(row)))

    def take(self, chosen: RowFlags) -> "Span":
        """Split off the messages for which `chosen` (a flag for each of its rows, not all set) is true."""
        rows = np.asarray(self.index)
        taken = self.of_rows(as_index(rows[chosen]))
        self._set_rows(as_index(rows[~chosen]))
        return taken

    def take_at(self, position: int) -> "Span":
        """Split off one message by its position; at least one stays."""
        chosen = np.zeros(len(self.index), dtype=bool)
        chosen[position] = True
        return self.take(chosen)

    def ranges(self) -> list[tuple[int, int]]:
        """Its ids, as (first, rows)."""
        if isinstance(self.index, range):
            return [(self.base + self.index.start, len(self.index))]
        bounds = np.concatenate(([0], np.flatnonzero(np.diff(self.index) > 1) + 1, [self.rows]))
        first_ids = self.base + self.index[bounds[:-1]]
        return [*zip(first_ids.tolist(), np.diff(bounds).tolist(), strict=True)]

    def within(self, ranges: Iterable[tuple[int, int]]) -> RowFlags:
        """A flag for each of its messages: whether its id is in one of the ranges (first, rows)."""
        ids = self.base + np.asarray(self.index)
        flags = np.zeros(len(ids), dtype=bool)
        for first, rows in ranges:
            flags |= (ids >= first) & (ids < first + rows)
        return flags

    def chosen(self, flags: RowFlags) -> "Span | None":
        """A copy with those of its messages for which the flag is set; None if there is none."""
        rows = np.asarray(self.index)[flags]
        return self.of_rows(as_index(rows)) if len(rows) else None

    def _set_rows(self, index: RowIndex) -> None:
        self.index = index
        self.rows = len(index)
        self._measure()

    def _measure(self) -> None:
        payload = self.payload
        if isinstance(payload, Payload):
            size, around = len(payload.data), FOOTPRINT
            if self.rows != payload.rows:
                size, around = _share(size, self.index, payload), _share(around, self.index, payload)
            self.size = size
            self.memory = size + around
        else:
            self.size = payload.size if self.rows == payload.rows else _share(payload.size, self.index, payload)
            self.memory = 0

    def __repr__(self) -> str:
        mark = f" delivered {self.delivered}" if self.delivered else ""
        return f"Span({self.ranges()}{mark})"


def _share(whole: int, index: RowIndex, payload: Payload | PayloadOnDisk) -> int:
    """The share of these rows; the shares of all rows of a payload add up to `whole` exactly."""
    rows = payload.rows
    if isinstance(index, range):
        return whole * index.stop // rows - whole * index.start // rows
    return int((whole * (index + 1) // rows - whole * index // rows).sum())


def as_index(rows: RowNumbers) -> RowIndex:
    """A range where the rows are consecutive, because it is cheaper to split."""
    if int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return range(int(rows[0]), int(rows[-1]) + 1)
    return rows
