"""The delivery classes and arrivals of whole runs, in columns of numpy: `deliveries` and others compute them in SQL.

Runs are independent: one that fits into the memory of a task needs no shuffle, no window and no generated code. Its
ranges are cut wherever one of them begins or ends, as in SQL. How often a piece was sent and received is a running sum:
what begins at its edge or before, less what ended.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.events.schema import CONFIRMED, UNKNOWN
from mqlab.pipeline.kernels.count_keys import COARSE_BUCKETS, DELIVERY_CLASSES
from mqlab.pipeline.kernels.deliveries import NO_SUBSCRIPTION
from mqlab.pipeline.kernels.histogram import LOG_GROWTH
from mqlab.pipeline.kernels.run_events import (
    NEVER,
    Array,
    Columns,
    RunWindow,
    array,
    distinct,
    highest_before,
    keys,
    paired,
)

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "sends": ("run", "destination", "producer", "first_seq", "count", "outcome", "t_planned", "t_sent"),
    "receipts": (
        "run", "consumer", "destination", "producer", "first_seq", "count", "ordinal", "redelivered", "t_received",
    ),
    "roles": ("run", "role", "number", "destination", "subscription"),
    "clocks": ("run", "error"),
}  # fmt: skip
SCHEMAS: Final = {
    "deliveries": pa.schema([
        ("run", pa.int32()), ("bucket", pa.int32()),
        *((name, pa.int64()) for name in ("messages", *DELIVERY_CLASSES, "early")),
        ("nanoseconds", pa.decimal128(38, 0)), ("longest", pa.int64()),
    ]),
    "latency slots": pa.schema({
        "run": pa.int32(), "slot": pa.int32(), "bucket": pa.int32(), "messages": pa.int64(),
    }),
}  # fmt: skip
ARRIVALS: Final = pa.schema({
    "run": pa.int32(), "messages": pa.int64(), "t_planned": pa.int64(), "t_received": pa.int64(),
})  # fmt: skip
# The bucket of messages without a latency.
_NO_BUCKET: Final = -1
# More than the coarse bucket of the longest time.
_COARSE_END: Final = 256


class _Ranges(NamedTuple):
    """Ranges [first, end) of sequence numbers: `key` stands for a destination, producer and subscription."""

    key: Array
    first: Array
    end: Array


class _Pieces(NamedTuple):
    """How often each piece was sent and received, and the first time of each; `NEVER` if it was not."""

    messages: Array
    confirmed: Array
    unknown: Array
    fresh: Array
    marked: Array
    late: Array
    planned: Array
    sent: Array
    received: Array


def run_deliveries(events: Mapping[str, pa.Table], windows: Mapping[int, RunWindow]) -> dict[str, pa.Table]:
    """Return the classes of each run by latency bucket, as `delivery_classes` does, and its `latency slots`.

    `events` are on the clock of the controller.
    """
    classes, slots = [], []
    for run, of_run in _each_run(events):
        pieces, window = _pieces(of_run), windows.get(run)
        classes.append(_classes(run, pieces, _tolerance(of_run["clocks"]), window))
        if window is not None and window.measure_end != NEVER:
            slots.append(_latency_slots(run, pieces, window))
    return {
        "deliveries": pa.Table.from_batches(classes, SCHEMAS["deliveries"]),
        "latency slots": pa.Table.from_batches(slots, SCHEMAS["latency slots"]),
    }


def arrivals(events: Mapping[str, pa.Table]) -> pa.Table:
    """The messages of each run that were sent and arrived, as `tables.faults.received_messages` finds them in SQL."""
    batches = []
    for run, of_run in _each_run(events):
        pieces = _pieces(of_run)
        arrived = (pieces.confirmed + pieces.unknown > 0) & (pieces.fresh + pieces.marked > 0)
        times = (pieces.messages[arrived], pieces.planned[arrived], pieces.received[arrived])
        columns = (np.full(len(times[0]), run), *times)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ARRIVALS, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=ARRIVALS))
    return pa.Table.from_batches(batches, ARRIVALS)


def _each_run(events: Mapping[str, pa.Table]) -> Iterator[tuple[int, Mapping[str, Columns]]]:
    """The runs that have sends or receipts, in their order."""
    tables = {name: events[name].select(columns) for name, columns in _COLUMNS.items()}
    by_run = {name: dict(_by_run(_columns(table))) for name, table in tables.items()}
    none = {name: _columns(table.slice(0, 0)) for name, table in tables.items()}
    for run in sorted({*by_run["sends"], *by_run["receipts"]}):
        yield run, {name: by_run[name].get(run, none[name]) for name in tables}


def _columns(table: pa.Table) -> dict[str, Array]:
    """As arrays; outcomes and roles become flags, since numpy is slow with texts."""
    columns: dict[str, Array] = {}
    for name in table.column_names:
        if name == "outcome":
            texts = table[name].cast(pa.string())
            columns |= {text: array(pc.equal(texts, text)) for text in (CONFIRMED, UNKNOWN)}
        elif name == "role":
            columns["is_consumer"] = array(pc.equal(table[name], "consumer"))
        else:
            columns[name] = array(table[name])
    return columns


def _by_run(columns: Columns) -> Iterator[tuple[int, Columns]]:
    runs, _ = distinct(columns["run"])
    if len(runs) == 1:
        yield int(runs[0]), columns
        return
    order = np.argsort(columns["run"], kind="stable")
    edges = np.searchsorted(columns["run"], runs[1:], sorter=order)
    for run, rows in zip(runs.tolist(), np.split(order, edges), strict=False):
        yield run, {name: column[rows] for name, column in columns.items()}


def _tolerance(clocks: Columns) -> int:
    return 2 * int(clocks["error"].max(initial=0))


def _pieces(events: Mapping[str, Columns]) -> _Pieces:
    consumers = _rows(events["roles"], events["roles"]["is_consumer"])
    sends = _rows(events["sends"], events["sends"][CONFIRMED] | events["sends"][UNKNOWN])
    # Each send once for every subscription of its destination, even if the subscription received no message.
    subscribed = np.unique(paired(consumers["destination"], consumers["subscription"]))
    destinations, subscriptions = subscribed >> 32, (subscribed & (2**32 - 1)) + NO_SUBSCRIPTION
    begin = np.searchsorted(destinations, sends["destination"])
    row, place = _spread(begin, np.searchsorted(destinations, sends["destination"], side="right"))
    sends = _rows(sends, row)
    receipts = late_parts(events["receipts"])
    tables = (
        (sends["destination"], sends["producer"], subscriptions[place]),
        (receipts["destination"], receipts["producer"], _subscriptions(receipts, consumers)),
    )
    key = keys([np.concatenate(columns) for columns in zip(*tables, strict=True)])
    first, end = (
        np.concatenate([sends["first_seq"], receipts["first"]]),
        np.concatenate([sends["first_seq"] + sends["count"], receipts["end"]]),
    )
    places = _Places.of(_Ranges(key, first, end))
    sent, received = slice(len(row)), slice(len(row), None)
    pieces = _Pieces(
        messages=places.messages,
        confirmed=places.coverage(sent, sends[CONFIRMED]),
        unknown=places.coverage(sent, sends[UNKNOWN]),
        fresh=places.coverage(received, ~receipts["redelivered"]),
        marked=places.coverage(received, receipts["redelivered"]),
        late=places.coverage(received, receipts["late"]),
        planned=places.earliest(sent, sends["t_planned"]),
        sent=places.earliest(sent, sends["t_sent"]),
        received=places.earliest(received, receipts["t_received"]),
    )
    covered = pieces.confirmed + pieces.unknown + pieces.fresh + pieces.marked > 0
    return _Pieces(*(column[covered] for column in pieces))


def _rows(columns: Columns, chosen: Array) -> dict[str, Array]:
    return {name: column[chosen] for name, column in columns.items()}


def _spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """For each row the numbers from `begin` to `end`: the row of each, and the number."""
    lengths = end - begin
    row = np.repeat(np.arange(len(begin)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths - begin)[row]


def _subscriptions(receipts: Columns, consumers: Columns) -> Array:
    """The subscription of each receipt, by its consumer and destination."""
    known = paired(consumers["number"], consumers["destination"])
    order = np.argsort(known)
    asked = paired(receipts["consumer"], receipts["destination"])
    found = np.searchsorted(known, asked, sorter=order)
    subscriptions = np.append(consumers["subscription"][order], NO_SUBSCRIPTION)
    is_known = np.append(known[order], -1)[found] == asked
    return np.where(is_known, subscriptions[found], NO_SUBSCRIPTION)


def late_parts(receipts: Columns) -> dict[str, Array]:
    """Each receipt as two ranges [first, end): its late messages, and those in order; without the empty ones.

    A message below the highest one received before is late, unless it is marked as redelivered.
    """
    group = keys([receipts[name] for name in ("consumer", "destination", "producer")])
    order = np.lexsort((receipts["first_seq"], receipts["ordinal"], group))
    rows, group = _rows(receipts, order), group[order]
    first, end = rows["first_seq"], rows["first_seq"] + rows["count"]
    latest_before = highest_before(group, end, first + 1) - 1
    in_order_from = np.maximum(first, np.minimum(end, latest_before))
    order_start = np.where(rows["redelivered"], first, in_order_from)
    parts = {name: np.concatenate([column, column]) for name, column in rows.items()}
    parts |= {
        "first": np.concatenate([first, order_start]), "end": np.concatenate([order_start, end]),
        "late": np.repeat([True, False], len(first)),
    }  # fmt: skip
    return _rows(parts, parts["first"] < parts["end"])


class _Places(NamedTuple):
    """The edges of ranges as places in their order: a piece begins at each, and each range covers some of them."""

    start: Array
    stop: Array
    messages: Array

    @classmethod
    def of(cls, ranges: _Ranges) -> "_Places":
        keys, edges = np.tile(ranges.key, 2), np.concatenate([ranges.first, ranges.end])
        order = np.lexsort((edges, keys))
        keys, edges = keys[order], edges[order]
        is_new = np.append(True, (keys[1:] != keys[:-1]) | (edges[1:] != edges[:-1]))[: len(keys)]
        place = np.empty(len(keys), np.int64)
        place[order] = np.cumsum(is_new) - 1
        edges = edges[is_new]
        # No range covers the last piece of a key.
        return cls(place[: len(ranges.key)], place[len(ranges.key) :], np.diff(edges, append=edges[-1:]))

    def coverage(self, part: slice, flags: Array) -> Array:
        """How many ranges of the part that have the flag cover each piece."""
        begins, ends = (
            np.bincount(places[part][flags], minlength=len(self.messages)) for places in (self.start, self.stop)
        )
        return np.cumsum(begins - ends)

    def earliest(self, part: slice, times: Array) -> Array:
        """The earliest time of the ranges of the part that cover each piece."""
        row, place = _spread(self.start[part], self.stop[part])
        found = np.full(len(self.messages), NEVER)
        np.minimum.at(found, place, times[row])
        return found


def _classes(run: int, pieces: _Pieces, tolerance: int, window: RunWindow | None) -> pa.RecordBatch:
    copies = pieces.fresh + pieces.marked
    was_confirmed, was_sent, was_received = pieces.confirmed > 0, pieces.confirmed + pieces.unknown > 0, copies > 0
    times_sent = pieces.confirmed + pieces.unknown
    several, unmarked_extra = was_sent & (copies > 1), pieces.fresh > np.maximum(times_sent, 1)
    is_timed = was_sent & was_received
    is_early = np.zeros(len(copies), np.bool_)
    is_early[is_timed] = pieces.received[is_timed] + tolerance < pieces.sent[is_timed]
    is_measured = is_timed & (window or RunWindow(NEVER)).within_measure(pieces.planned)
    latency = np.where(is_measured, np.maximum(pieces.received - pieces.planned, 0), 0)
    counted = {
        "messages": np.ones(len(copies), np.bool_),
        "delivered": was_confirmed & was_received,
        "lost": was_confirmed & ~was_received,
        "resent": times_sent > 1,
        "duplicated": several & unmarked_extra,
        "duplicated_resent": several & ~unmarked_extra & (pieces.fresh > 1),
        "duplicated_marked": several & (pieces.fresh <= 1),
        "recovered": was_sent & ~was_confirmed & was_received,
        "out_of_order": was_sent & (pieces.fresh > 0) & (pieces.late == pieces.fresh),
        "unexpected": ~was_sent & was_received,
        "early": is_early,
    }
    # numpy sorts numbers of 16 bits without comparisons; the bucket of the longest time is 23,006.
    bucket = np.where(is_measured, np.ceil(np.log(np.maximum(latency, 1)) / LOG_GROWTH), _NO_BUCKET).astype(np.int16)
    order = np.argsort(bucket, kind="stable")
    buckets, begins = np.unique(bucket[order], return_index=True)
    is_null = buckets == _NO_BUCKET

    def total(values: Array) -> Array:
        return np.add.reduceat(values[order], begins) if len(begins) else values

    # The halves of 32 bits are summed apart: the sum may exceed 64 bits.
    product = latency * pieces.messages
    halves = zip(total(product >> 32).tolist(), total(product & (2**32 - 1)).tolist(), strict=True)
    nanoseconds = [
        None if null else Decimal((high << 32) + low) for null, (high, low) in zip(is_null, halves, strict=True)
    ]
    longest = np.maximum.reduceat(latency[order], begins) if len(begins) else latency
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(buckets), run, np.int32)),
            pa.array(buckets.astype(np.int32), mask=is_null),
            *(pa.array(total(np.where(flags, pieces.messages, 0))) for flags in counted.values()),
            pa.array(nanoseconds, pa.decimal128(38, 0)),
            pa.array(longest, mask=is_null),
        ],
        schema=SCHEMAS["deliveries"],
    )  # fmt: skip


def _latency_slots(run: int, pieces: _Pieces, window: RunWindow) -> pa.RecordBatch:
    """Count messages by the slot in which they were planned and by the coarse bucket of their latency."""
    is_timed = (pieces.confirmed + pieces.unknown > 0) & (pieces.fresh + pieces.marked > 0)
    inside = is_timed & (pieces.planned >= window.load_start) & (pieces.planned < window.measure_end)
    planned = pieces.planned[inside]
    slot = (planned - window.load_start) // window.latency_slot
    bucket = np.ceil(np.log(np.maximum(pieces.received[inside] - planned, 1)) / LOG_GROWTH)
    coarse = np.ceil(bucket / COARSE_BUCKETS).astype(np.int64)
    # Few numbers of messages are near 2^53, up to which the sums are exact.
    messages = np.bincount(slot * _COARSE_END + coarse, weights=pieces.messages[inside])
    found = np.flatnonzero(messages)
    counted = (np.full(len(found), run), found // _COARSE_END, found % _COARSE_END, messages[found].astype(np.int64))
    schema = SCHEMAS["latency slots"]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(counted, schema, strict=True)], schema=schema
    )
