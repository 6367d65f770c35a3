"""Blocks of large runs: parts of the sequences of producers whose sends and receipts fit into the memory of a task.

A block is swept as if it were a run of its own. Its ranges end at its borders, and rows without messages stand for
everything outside that matters inside:
- A send of the numbers below the block, and one of none above it, which failed: so only gaps within the block count.
- A receipt of no message above the block, for each consumer that received one there before its last one here: so a
  message is late that came after a message of a later block.

To cut the blocks, the driver needs no events, only `cells`: 2^bits numbers of a producer each.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.events.schema import FAILED
from mqlab.pipeline.kernels.run_events import Array, array, highest_before, keys

Row: TypeAlias = dict[str, object]
# The number of subscriptions of each destination, by run and destination.
Subscriptions: TypeAlias = Mapping[tuple[int, int], int]

LOWEST: Final = np.iinfo(np.int64).min
HIGHEST: Final = np.iinfo(np.int64).max
# The consumer of a send.
_NO_CONSUMER: Final = -1
# The columns that name a producer.
PRODUCER: Final = ("run", "destination", "producer")
_LONG: Final = pa.int64()
# Rows of events that begin in a cell, and that end in it. `least_ordinal` is that of receipts which end in the cell,
# `highest_ordinal` that of receipts which begin in it, `sent_end` the highest end of sends, `since` the earliest time.
CELLS: Final = pa.schema({
    **dict.fromkeys((*PRODUCER, "consumer"), pa.int32()), "cell": _LONG, "begins": _LONG, "ends": _LONG,
    "least_ordinal": _LONG, "highest_ordinal": _LONG, "sent_end": _LONG, "since": _LONG,
})  # fmt: skip


class Extent(NamedTuple):
    """The numbers [low, high) of a producer that belong to a block; whether the producer sent higher ones."""

    run: int
    destination: int
    producer: int
    low: int
    high: int
    is_sent_above: bool


class EarlierAbove(NamedTuple):
    """The first receipt of a consumer with a message above an extent."""

    run: int
    destination: int
    producer: int
    consumer: int
    high: int
    ordinal: int


class Block(NamedTuple):
    """`rows`: the receipts with a message of the block, and the sends, once for each subscription."""

    extents: list[Extent]
    earlier_above: list[EarlierAbove]
    rows: int


def cell_bits(subscriptions: int, block_rows: int) -> int:
    """Cells so small that a block has several, even if each message has a send and a receipt of its own.

    `subscriptions`: the highest number of them that a destination has.
    """
    return max(0, (block_rows // (4 * (1 + subscriptions))).bit_length() - 1)


def count_cells(table: pa.Table, bits: int) -> pa.Table:
    """The cells of some rows of sends or receipts."""
    columns = {name: array(table[name]) for name in (*PRODUCER, "first_seq", "count")}
    end = columns["first_seq"] + columns["count"]
    is_receipts = "ordinal" in table.column_names
    consumer = array(table["consumer"]) if is_receipts else np.full(len(end), _NO_CONSUMER)
    ordinal = array(table["ordinal"]) if is_receipts else np.zeros(len(end), np.int64)
    time = array(table["t_received" if is_receipts else "t_sent"])
    owner = [*(columns[name] for name in PRODUCER), consumer]
    sent_end = np.full(len(end), LOWEST) if is_receipts else end
    tables = []
    for cell, is_begin in ((columns["first_seq"] >> bits, True), ((end - 1) >> bits, False)):
        group = keys([*owner, cell])
        groups = int(group.max(initial=-1)) + 1
        rows = np.bincount(group, minlength=groups)
        sample, least, since = np.zeros(groups, np.int64), np.full(groups, HIGHEST), np.full(groups, HIGHEST)
        highest, last_end = np.full(groups, LOWEST), np.full(groups, LOWEST)
        sample[group] = np.arange(len(group))
        np.minimum.at(since, group, time)
        if not is_begin:
            np.minimum.at(least, group, ordinal)
            np.maximum.at(last_end, group, sent_end)
        else:
            np.maximum.at(highest, group, ordinal)
        none = np.zeros(groups, np.int64)
        numbers = (rows, none) if is_begin else (none, rows)
        counted = (cell[sample], *numbers, least, highest, last_end, since)
        tables.append(pa.Table.from_arrays(
            [*(pa.array(column[sample], pa.int32()) for column in owner), *map(pa.array, counted)], schema=CELLS
        ))  # fmt: skip
    return pa.concat_tables(tables)


def cut_blocks(cells: pa.Table, bits: int, block_rows: int, subscriptions: Subscriptions) -> Iterator[Block]:
    """Cut all producers of some runs into blocks, in the order of time.

    Files have their rows in that order. So a block has numbers from all producers that sent at about the same time,
    rather than many of one, and its rows lie together in the files, however different the rates of producers are.
    """
    producers = _Producers(cells, subscriptions)
    rows, extents = 0, dict[int, tuple[int, int]]()
    for place in producers.order.tolist():
        producer = int(producers.producer[place])
        added = int(producers.begins[place])
        if producer not in extents:
            added += int(producers.open_before[place])
        if extents and rows + added > block_rows:
            yield producers.block(extents, bits, rows)
            rows, extents, added = 0, {}, int(producers.begins[place] + producers.open_before[place])
        first, _ = extents.get(producer, (place, place))
        extents[producer] = first, place
        rows += added
    if extents:
        yield producers.block(extents, bits, rows)


class _Producers:
    """The cells of each producer in their order; `order` is that over all producers."""

    def __init__(self, cells: pa.Table, subscriptions: Subscriptions) -> None:
        columns = {name: array(cells[name]) for name in CELLS.names}
        owner = keys([columns[name] for name in PRODUCER])
        group = keys([owner, columns["cell"]])
        groups = int(group.max(initial=-1)) + 1
        sample = np.zeros(groups, np.int64)
        sample[group] = np.arange(len(group))
        self.producer, self._cell = owner[sample], columns["cell"][sample]
        self.begins, ends = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        copies = _copies(columns, subscriptions)
        np.add.at(self.begins, group, columns["begins"] * copies)
        np.add.at(ends, group, columns["ends"] * copies)
        # Over all producers before, as many rows end as begin.
        self.open_before = np.cumsum(self.begins) - self.begins - (np.cumsum(ends) - ends)
        self._names = [columns[name][sample] for name in PRODUCER]
        since = np.full(groups, HIGHEST)
        np.minimum.at(since, group, columns["since"])
        # The cells of a producer follow each other, even if one has an earlier time than those below it.
        since = np.maximum(since, highest_before(self.producer, since, since))
        self.order = np.lexsort((self._cell, self.producer, since, self._names[0]))
        self._sent_end = np.full(int(owner.max(initial=-1)) + 1, LOWEST)
        np.maximum.at(self._sent_end, owner, columns["sent_end"])
        self._consumers = _consumers(owner, columns)

    def block(self, extents: Mapping[int, tuple[int, int]], bits: int, rows: int) -> Block:
        """`extents`: the places of the first and the last cell of each producer."""
        cut, earlier = [], []
        for producer, (first, last) in extents.items():
            run, destination, sender = (int(column[first]) for column in self._names)
            is_first = first == 0 or self.producer[first - 1] != producer
            is_last = last + 1 == len(self.producer) or self.producer[last + 1] != producer
            low = LOWEST if is_first else int(self._cell[first]) << bits
            high = HIGHEST if is_last else int(self._cell[last + 1]) << bits
            is_sent_above = bool(self._sent_end[producer] > high)
            cut.append(Extent(run, destination, sender, low, high, is_sent_above))
            if is_last:
                continue
            for consumer, ordinals in self._consumers.get(producer, {}).items():
                ordinal = ordinals.earlier_above(int(self._cell[last + 1]))
                if ordinal is not None:
                    earlier.append(EarlierAbove(run, destination, sender, consumer, high, ordinal))
        return Block(cut, earlier, rows)


def _copies(columns: Mapping[str, Array], subscriptions: Subscriptions) -> Array:
    """How often the sweep takes each row of a cell: a send once for each subscription."""
    runs, destinations = columns["run"], columns["destination"]
    destination = keys([runs, destinations])
    sample = np.zeros(int(destination.max(initial=-1)) + 1, np.int64)
    sample[destination] = np.arange(len(destination))
    pairs = zip(runs[sample].tolist(), destinations[sample].tolist(), strict=True)
    of_sends = np.array([max(1, subscriptions.get(pair, 0)) for pair in pairs], np.int64)
    return np.where(columns["consumer"] == _NO_CONSUMER, of_sends[destination], 1)


class _Ordinals(NamedTuple):
    """Of one consumer and producer, in the order of cells: the least ordinal from each on, the highest before it."""

    cell: Array
    least_from: Array
    highest_until: Array

    def earlier_above(self, cell: int) -> int | None:
        """The least ordinal of rows that end in this cell or above, if a row that begins below came later."""
        place = int(np.searchsorted(self.cell, cell))
        if place in (0, len(self.cell)) or self.least_from[place] >= self.highest_until[place - 1]:
            return None
        return int(self.least_from[place])


def _consumers(owner: Array, columns: Mapping[str, Array]) -> dict[int, dict[int, _Ordinals]]:
    """The consumers of each producer that received a message after one of a later cell; usually none."""
    consumers: dict[int, dict[int, _Ordinals]] = {}
    order = np.lexsort((columns["cell"], columns["consumer"], owner))
    order = order[columns["consumer"][order] != _NO_CONSUMER]
    group = keys([owner[order], columns["consumer"][order]])
    for rows in np.split(order, np.flatnonzero(np.diff(group)) + 1) if len(order) else ():
        ordinals = _Ordinals(
            columns["cell"][rows],
            np.minimum.accumulate(columns["least_ordinal"][rows][::-1])[::-1],
            np.maximum.accumulate(columns["highest_ordinal"][rows]),
        )
        if (ordinals.least_from[1:] < ordinals.highest_until[:-1])[np.diff(ordinals.cell) > 0].any():
            consumers.setdefault(int(owner[rows[0]]), {})[int(columns["consumer"][rows[0]])] = ordinals
    return consumers


def rows_of_block(table: pa.Table, extents: list[Extent]) -> pa.Table:
    """The rows of sends or receipts that have messages of the block, with only these messages."""
    owner = [np.concatenate([[extent[part] for extent in extents], array(table[name])])
             for part, name in enumerate(PRODUCER)]  # fmt: skip
    key = keys(owner)
    bounds = np.full((2, int(key.max(initial=-1)) + 1), HIGHEST)
    bounds[1] = LOWEST
    bounds[0, key[: len(extents)]] = [extent.low for extent in extents]
    bounds[1, key[: len(extents)]] = [extent.high for extent in extents]
    low, high = bounds[:, key[len(extents) :]]
    first = array(table["first_seq"])
    cut_first, cut_end = np.maximum(first, low), np.minimum(first + array(table["count"]), high)
    inside = np.flatnonzero(cut_first < cut_end)
    table = table if len(inside) == len(table) else table.take(pa.array(inside))
    for name, values in (("first_seq", cut_first[inside]), ("count", (cut_end - cut_first)[inside])):
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def outside_sends(extents: list[Extent]) -> list[Row]:
    """Rows of sends that stand for the numbers outside of the block."""
    rows: list[Row] = []
    for extent in extents:
        row: Row = {**dict(zip(PRODUCER, extent, strict=False)), "outcome": FAILED}
        if extent.low > 0:
            rows.append(row | {"first_seq": 0, "count": extent.low})
        if extent.is_sent_above:
            rows.append(row | {"first_seq": extent.high, "count": 0})
    return rows


def outside_receipts(earlier_above: list[EarlierAbove]) -> list[Row]:
    """Rows of receipts that stand for those above the block: a later message below them is late."""
    return [
        {
            **dict(zip((*PRODUCER, "consumer"), earlier, strict=False)),
            "first_seq": earlier.high + 1,
            "count": 0,
            "ordinal": earlier.ordinal,
            "redelivered": False,
        }
        for earlier in earlier_above
    ]


def append_rows(table: pa.Table, rows: list[Row]) -> pa.Table:
    """Add rows; columns that they do not have are 0."""
    if not rows:
        return table
    zeros = {field.name: 0 for field in table.schema if pa.types.is_integer(field.type)}
    plain = table.cast(pa.schema([
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]))  # fmt: skip
    return pa.concat_tables([plain, pa.Table.from_pylist([zeros | row for row in rows], plain.schema)])


def count_subscriptions(roles: pa.Table) -> dict[tuple[int, int], int]:
    consumers = roles.filter(pc.equal(roles["role"], "consumer"))
    counted = consumers.group_by(["run", "destination"]).aggregate([("subscription", "count_distinct")])
    return {(row["run"], row["destination"]): row["subscription_count_distinct"] for row in counted.to_pylist()}
