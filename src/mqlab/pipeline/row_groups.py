"""Row groups of event files: which of them may have rows of a block, and their rows, a few at a time."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.pipeline.kernels.blocks import HIGHEST, LOWEST, Extent
from mqlab.pipeline.kernels.run_events import NEEDED

# Rows that are read at once.
_BATCH_ROWS: Final = 1_000_000
# Columns whose least and highest values a file has for each row group.
_BOUNDED: Final = ("run", "destination", "producer", "first_seq", "count")


class RowGroup(NamedTuple):
    """`least` and `highest`: those of the columns `_BOUNDED`, if the table has them."""

    table: str
    file: str
    number: int
    rows: int
    least: tuple[int, ...] = ()
    highest: tuple[int, ...] = ()


# Files, each with the numbers of some of its row groups, by table.
RowGroups = dict[str, dict[str, list[int]]]


def row_groups(table: str, files: Iterable[str]) -> Iterator[RowGroup]:
    bounded = [name for name in _BOUNDED if name in NEEDED[table]]
    for file in files:
        metadata = pq.read_metadata(file)
        place = {metadata.schema.column(number).name: number for number in range(metadata.num_columns)}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            known = [group.column(place[name]).statistics for name in bounded]
            yield RowGroup(
                table, file, number, group.num_rows,
                tuple(one.min if one and one.has_min_max else LOWEST for one in known),
                tuple(one.max if one and one.has_min_max else HIGHEST for one in known),
            )  # fmt: skip


def by_file(groups: Iterable[RowGroup]) -> RowGroups:
    found: RowGroups = {}
    for group in groups:
        found.setdefault(group.table, {}).setdefault(group.file, []).append(group.number)
    return found


def slices(groups: Iterable[RowGroup], rows: int) -> Iterator[list[RowGroup]]:
    """As many row groups together as have this number of rows, or a larger one alone."""
    together: list[RowGroup] = []
    for group in groups:
        if together and sum(each.rows for each in together) + group.rows > rows:
            yield together
            together = []
        together.append(group)
    if together:
        yield together


class GroupBounds:
    """The row groups of sends and receipts, to find those that may have rows of a block."""

    def __init__(self, groups: list[RowGroup]) -> None:
        self._groups = groups
        least, highest = (
            np.array(column, np.int64).reshape(len(groups), len(_BOUNDED))
            for column in ([group.least for group in groups], [group.highest for group in groups])
        )
        self._least, self._highest = least.T, highest.T
        # No row of the group ends above this; without overflow where nothing is known.
        self._end = np.where(
            self._highest[3] > HIGHEST - self._highest[4], HIGHEST, self._highest[3] + self._highest[4]
        )

    def of_block(self, extents: list[Extent]) -> list[RowGroup]:
        found = np.zeros(len(self._groups), np.bool_)
        for extent in extents:
            inside = (self._least[3] < extent.high) & (self._end > extent.low)
            for part in range(3):
                inside &= (self._least[part] <= extent[part]) & (self._highest[part] >= extent[part])
            found |= inside
        return [self._groups[place] for place in np.flatnonzero(found)]


def read_rows(table: str, groups: dict[str, list[int]]) -> Iterator[pa.Table]:
    """The rows of some row groups of files, with the columns that are needed."""
    for file, numbers in groups.items():
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_BATCH_ROWS, numbers, [*NEEDED[table]]):
                yield pa.Table.from_batches([batch]).select(NEEDED[table])
