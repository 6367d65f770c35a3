"""The counts of runs that no task can hold: of slices of their files, then of blocks of their messages.

A first job reads the files in slices, some row groups each. It computes the counts to which each event adds by itself,
and the number of rows in each cell of the sequences, by which the driver cuts the runs into blocks. A second job sweeps
over the blocks. Tasks have bounded memory and pass on only counts: no event goes through a shuffle or the driver.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mqlab.pipeline.kernels import blocks
from mqlab.pipeline.measure_tables import EventSources
from mqlab.pipeline.row_groups import GroupBounds, RowGroup, by_file, row_groups, slices
from mqlab.pipeline.run_source import (
    LARGE_TABLES,
    EventPartition,
    add_counts,
    counts_of,
    read_files,
    read_partitions,
    windows_by_run,
)

# A run with more event rows is cut into blocks that have at most so many, unless so many share a message.
BLOCK_ROWS: Final = 2_000_000
# Event rows in a slice, unless a row group has more; a task reads a part at a time.
SLICE_ROWS: Final = 2_000_000


def read_large_counts(spark: SparkSession, sources: EventSources, windows: pa.Table) -> DataFrame:
    """The counts of all runs of these sources."""
    plan = LargeRuns(sources, windows)
    of_rows = read_partitions(spark, plan.slices()).localCheckpoint()
    of_blocks = read_partitions(spark, plan.blocks(counts_of(of_rows, "cells").toArrow()))
    return add_counts(of_rows.unionByName(of_blocks))


class LargeRuns:
    """The partitions of some runs."""

    def __init__(self, sources: EventSources, windows: pa.Table) -> None:
        self._groups: dict[str, list[RowGroup]] = {
            table: [*row_groups(table, sources.readable_files(table))] for table in LARGE_TABLES
        }
        self._small = {table: sources.readable_files(table) for table in ("roles", "clocks")}
        self._windows = windows_by_run(windows)
        self.bounds = GroupBounds(self._groups["sends"] + self._groups["receipts"])
        self._bits = blocks.cell_bits(blocks.subscriptions_of(read_files("roles", self._small["roles"])), BLOCK_ROWS)

    def slices(self) -> list[EventPartition]:
        found = []
        for groups in self._groups.values():
            for together in slices(groups, SLICE_ROWS):
                partition = self._partition(together)
                partition.cell_bits = self._bits
                found.append(partition)
        return found

    def blocks(self, cells: pa.Table) -> list[EventPartition]:
        found = []
        for block in blocks.cut_blocks(cells, self._bits, BLOCK_ROWS):
            partition = self._partition(self.bounds.of_block(block.extents))
            partition.rows = block.rows
            partition.extents, partition.earlier_above = block.extents, block.earlier_above
            found.append(partition)
        return found

    def _partition(self, groups: list[RowGroup]) -> EventPartition:
        partition = EventPartition(windows=self._windows, groups=by_file(groups))
        partition.files |= self._small
        return partition
