"""The counts of runs that no task can hold: of splits of their files, then of blocks of their messages.

A first job reads the files in splits, some row groups each. It computes the counts to which each event adds by itself,
the number of rows in each cell of the sequences, by which the driver cuts the runs into blocks, and the numbers that
each row group has. A second job sweeps over the blocks. Tasks have bounded memory and pass on only counts: no event
goes through a shuffle or the driver.
"""

from collections.abc import Container
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mqlab.events.compacted import join_groups
from mqlab.events.sources import LARGE_TABLES, EventSources, count_rows
from mqlab.pipeline.counts.row_groups import GroupBounds, RowGroup, by_file, row_groups, splits
from mqlab.pipeline.counts.run_partitions import windows_by_run
from mqlab.pipeline.counts.run_source import (
    EventPartition,
    add_counts,
    read_files,
    read_partitions,
    rows_of,
    without_blocks,
)
from mqlab.pipeline.event_tables import local_table
from mqlab.pipeline.kernels import blocks

# A run with more event rows is cut into blocks that have at most so many, unless a single cell has more. A send counts
# once for each subscription of its destination, as the sweep takes it.
BLOCK_ROWS: Final = 2_000_000
# Event rows in a split, unless a row group has more; a task reads a part at a time.
SPLIT_ROWS: Final = 2_000_000


def find_large(sources: EventSources, rows: dict[int | None, int]) -> set[int | None]:
    """The runs that are cut into blocks; `rows` are their event rows, as `count_rows` gives them."""
    # A run has no more subscriptions than roles, and most runs are small even with so many.
    roles = count_rows(sources, ("roles",))
    candidates = (run for run, number in rows.items() if number * roles.get(run, BLOCK_ROWS) > BLOCK_ROWS)
    return {run for run in candidates if _swept_rows(sources.of_runs({run}), rows[run]) > BLOCK_ROWS}


def _swept_rows(sources: EventSources, rows: int) -> int:
    """The rows of one run, with a send once for each subscription."""
    sends = sum(count_rows(sources, ("sends",)).values())
    subscriptions = blocks.count_subscriptions(read_files("roles", sources.local_groups("roles")))
    return rows + sends * (max(subscriptions.values(), default=1) - 1)


def read_large_counts(spark: SparkSession, sources: EventSources, windows: pa.Table) -> DataFrame:
    """The counts of all runs of these sources."""
    plan = LargeRuns(sources, windows)
    of_rows = read_partitions(spark, plan.splits()).toArrow()
    of_blocks = read_partitions(spark, plan.blocks(rows_of(of_rows, "cells"), rows_of(of_rows, "bounds")))
    return add_counts(local_table(spark, without_blocks(of_rows)).unionByName(of_blocks))


class LargeRuns:
    """The partitions of some runs."""

    def __init__(self, sources: EventSources, windows: pa.Table) -> None:
        self._groups: dict[str, list[RowGroup]] = {
            table: [*row_groups(table, sources.readable(table))] for table in LARGE_TABLES
        }
        self._small_files = {table: sources.readable(table) for table in ("roles", "clocks")}
        self._windows = windows_by_run(windows)
        self._sharing = sources.sharing
        self._subscriptions = blocks.count_subscriptions(read_files("roles", sources.local_groups("roles")))
        self._bits = blocks.cell_bits(max(self._subscriptions.values(), default=0), BLOCK_ROWS)

    def splits(self) -> list[EventPartition]:
        partitions = []
        for of_table in self._groups.values():
            for groups in splits(of_table, SPLIT_ROWS):
                partition = self._partition({group.run for group in groups}, groups)
                partition.cell_bits = self._bits
                partitions.append(partition)
        return partitions

    def blocks(self, cells: pa.Table, bounds: pa.Table) -> list[EventPartition]:
        """`cells`, `bounds`: those of all splits."""
        groups = GroupBounds(self._groups["sends"] + self._groups["receipts"], bounds)
        partitions = []
        for block in blocks.cut_blocks(cells, self._bits, BLOCK_ROWS, self._subscriptions):
            runs = {extent.run for extent in block.extents}
            partition = self._partition(runs, groups.of_block(block.extents))
            partition.rows = block.rows
            partition.extents, partition.earlier_above = block.extents, block.earlier_above
            partitions.append(partition)
        return partitions

    def _partition(self, runs: Container[int | None], groups: list[RowGroup]) -> EventPartition:
        """`runs`: those of the groups. A file without a run may have events of all of them."""
        partition = EventPartition(groups=by_file(groups))
        partition.sharing = {run: of for run, of in self._sharing.items() if None in runs or run in runs}
        members = {member for sharing in partition.sharing.values() for member in sharing}
        partition.windows = {
            run: times for run, times in self._windows.items() if None in runs or run in runs or run in members
        }
        for table, files in self._small_files.items():
            partition.files[table] = join_groups(
                (file.location, file.group_numbers)
                for file in files if None in runs or file.run is None or file.run in runs
            )  # fmt: skip
        return partition
