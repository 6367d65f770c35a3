"""The headers by which a queue orders messages: priority, due time, expiry, group."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.broker.core.model.messages import Span, as_index
from mqlab.wire.native.columns import decode_batch, decode_single
from mqlab.wire.native.payload import COLUMNS, SINGLE, Payload, RowFlags, RowIndex, RowNumbers

DEFAULT_PRIORITY: Final = 4
# Different due times in one batch.
_MOST_TIMES: Final = 1024
ORDERING_HEADERS: Final = frozenset(("priority", "deliver_at", "expiration", "group"))


class Partition(NamedTuple):
    """Rows of a batch (None: all) with the same priority and due time."""

    rows: RowIndex | None = None
    priority: int = DEFAULT_PRIORITY
    # When they may be delivered, and when the first of them expires, in ms since 1970; 0: at once, never.
    due: int = 0
    expires: int = 0
    grouped: bool = False


UNORDERED: Final = (Partition(),)


def partition(payload: Payload) -> tuple[Partition, ...]:
    """Usually one: only different priorities or due times split a batch."""
    if not payload.form & COLUMNS:
        return UNORDERED
    if payload.form & SINGLE:
        values = decode_single(payload).values
        if ORDERING_HEADERS.isdisjoint(values):
            return UNORDERED
        priority = values.get("priority", DEFAULT_PRIORITY)
        due, expires = values.get("deliver_at", 0), values.get("expiration", 0)
        return (Partition(None, _clamped(priority), due, expires, "group" in values),)
    batch = decode_batch(payload)
    names = ORDERING_HEADERS.intersection(batch.schema.names)
    return _of_batch(batch, names) if names else UNORDERED


def _of_batch(batch: pa.RecordBatch, names: frozenset[str]) -> tuple[Partition, ...]:
    rows = batch.num_rows
    priority = _numbers(batch, "priority", DEFAULT_PRIORITY) if "priority" in names else None
    due = _numbers(batch, "deliver_at", 0) if "deliver_at" in names else None
    expires = _numbers(batch, "expiration", 0) if "expiration" in names else None
    levels = np.full(rows, DEFAULT_PRIORITY) if priority is None else np.clip(priority, 0, 9)
    times = np.zeros(rows, dtype=np.int64) if due is None else _few(due)
    partitions = []
    for chosen in _alike(levels, times):
        first = 0
        if expires is not None:
            some = expires[chosen]
            first = int(some[some > 0].min()) if bool((some > 0).any()) else 0
        index = None if len(chosen) == rows else as_index(chosen)
        partitions.append(Partition(index, int(levels[chosen[0]]), int(times[chosen[0]]), first, "group" in names))
    return tuple(partitions)


def _alike(levels: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> list[RowNumbers]:
    """The rows that share a priority and a time, in their order; the highest priority first."""
    order = np.lexsort((times, -levels))
    changes = np.flatnonzero((np.diff(levels[order]) != 0) | (np.diff(times[order]) != 0)) + 1
    return [np.sort(rows) for rows in np.split(order, changes)]


def _few(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """No more different times than a queue schedules for one batch: neighbours wait for the latest of them."""
    different, inverse = np.unique(times, return_inverse=True)
    together = -(-len(different) // _MOST_TIMES)
    last = np.minimum((np.arange(len(different)) // together + 1) * together, len(different)) - 1
    few: npt.NDArray[np.int64] = different[last][inverse]
    return few


def expired(span: Span, now: int) -> RowFlags:
    """A flag for each message of the span that has expired."""
    times = _numbers(decode_batch(span.whole()), "expiration", 0)[np.asarray(span.index)]
    gone: RowFlags = (times > 0) & (times <= now)
    return gone


def next_expiry(span: Span, now: int) -> int:
    """When the next of its messages expires; 0: none does."""
    times = _numbers(decode_batch(span.whole()), "expiration", 0)[np.asarray(span.index)]
    later = times[times > now]
    return int(later.min()) if len(later) else 0


def groups(span: Span) -> list[str | None]:
    """The group of each of its messages."""
    payload = span.whole()
    if payload.form & SINGLE:
        return [decode_single(payload).values.get("group")]
    batch = decode_batch(payload)
    if "group" not in batch.schema.names:
        return [None] * span.rows
    values: list[str | None] = batch.column("group").to_pylist()
    return [values[row] for row in span.index]


def _numbers(batch: pa.RecordBatch, name: str, otherwise: int) -> npt.NDArray[np.int64]:
    column = batch.column(name).cast(pa.int64()).fill_null(otherwise)
    numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return numbers


def _clamped(priority: int) -> int:
    return min(9, max(0, priority))
