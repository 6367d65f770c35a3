"""Row groups of event files: which of them have rows of a block, and their rows, a few at a time."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqlab.pipeline.kernels.blocks import PRODUCER, Extent
from mqlab.pipeline.kernels.run_events import NEEDED, Array

if TYPE_CHECKING:
    # Tasks import this module, and executors have no package for checksums.
    from mqlab.events.checksums import EventFile

# Rows that are read at once.
_BATCH_ROWS: Final = 1_000_000
# The numbers of each producer in a row group: all are in [first, end).
BOUNDS: Final = pa.schema({
    "file": pa.string(), **dict.fromkeys(("row_group", *PRODUCER), pa.int32()),
    **dict.fromkeys(("first", "end"), pa.int64()),
})  # fmt: skip
# Files, each with the numbers of some of its row groups, by table.
RowGroups: TypeAlias = dict[str, dict[str, list[int]]]


class RowGroup(NamedTuple):
    """`run`: that of the file; None if it may have several."""

    table: str
    file: str
    run: int | None
    number: int
    rows: int


class FileRows(NamedTuple):
    """Rows of a file, with the number of each row's row group."""

    file: str
    row_group: Array
    rows: pa.Table


def row_groups(table: str, files: Iterable["EventFile"]) -> Iterator[RowGroup]:
    for file in files:
        for number, rows in enumerate(file.row_group_sizes()):
            yield RowGroup(table, file.location, file.run, file.first_group + number, rows)


def by_file(groups: Iterable[RowGroup]) -> RowGroups:
    tables: RowGroups = {}
    for group in groups:
        tables.setdefault(group.table, {}).setdefault(group.file, []).append(group.number)
    return tables


def splits(groups: Iterable[RowGroup], rows: int) -> Iterator[list[RowGroup]]:
    """As many row groups in a split as have this number of rows, or a larger one alone."""
    current: list[RowGroup] = []
    for group in groups:
        if current and sum(each.rows for each in current) + group.rows > rows:
            yield current
            current = []
        current.append(group)
    if current:
        yield current


def read_rows(table: str, groups: dict[str, list[int]]) -> Iterator[FileRows]:
    """The rows of some row groups of files, with the columns that are needed."""
    for file, numbers in groups.items():
        with pq.ParquetFile(file) as opened:
            row_group = np.repeat(numbers, [opened.metadata.row_group(number).num_rows for number in numbers])
            begin = 0
            for batch in opened.iter_batches(_BATCH_ROWS, numbers, [*NEEDED[table]]):
                rows = pa.Table.from_batches([batch]).select(NEEDED[table])
                yield FileRows(file, row_group[begin : begin + len(rows)], rows)
                begin += len(rows)


def count_bounds(part: FileRows) -> pa.Table:
    """The bounds of some rows of sends or receipts."""
    first, count = part.rows["first_seq"], part.rows["count"]
    columns = {name: part.rows[name] for name in PRODUCER}
    columns |= {"row_group": pa.array(part.row_group), "first": first, "end": pc.add(first, count)}
    bounds = pa.table(columns).group_by(["row_group", *PRODUCER], use_threads=False).aggregate(
        [("first", "min"), ("end", "max")]
    )  # fmt: skip
    bounds = bounds.rename_columns({"first_min": "first", "end_max": "end"})
    return bounds.append_column("file", pa.repeat(pa.scalar(part.file), len(bounds))).select(BOUNDS.names).cast(BOUNDS)


class GroupBounds:
    """The row groups of sends and receipts with their bounds, to find those that have rows of a block."""

    def __init__(self, groups: list[RowGroup], bounds: pa.Table) -> None:
        self._groups = groups
        place = {(group.file, group.number): number for number, group in enumerate(groups)}
        self._by_producer: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
        for row in bounds.to_pylist():
            producer = tuple(row[name] for name in PRODUCER)
            of_group = (row["first"], row["end"], place[row["file"], row["row_group"]])
            self._by_producer.setdefault(producer, []).append(of_group)

    def of_block(self, extents: Iterable[Extent]) -> list[RowGroup]:
        places = {
            place
            for extent in extents
            for first, end, place in self._by_producer.get((extent.run, extent.destination, extent.producer), ())
            if first < extent.high and end > extent.low
        }
        return [self._groups[place] for place in sorted(places)]
