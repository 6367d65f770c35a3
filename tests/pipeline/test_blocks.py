"""Blocks of large runs: swept one by one they give what the whole run gives, and none has more rows than it may."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import event_table
from mqlab.events.schema import CONFIRMED
from mqlab.events.sources import count_rows, examine_events
from mqlab.pipeline.counts import large_runs
from mqlab.pipeline.counts.large_runs import LargeRuns, find_large
from mqlab.pipeline.counts.row_groups import GroupBounds, RowGroup, count_bounds, read_rows, row_groups
from mqlab.pipeline.counts.run_partitions import windows_by_run
from mqlab.pipeline.counts.run_source import EventPartition, read_block, read_files
from mqlab.pipeline.kernels import blocks
from mqlab.pipeline.kernels.run_counts import gaps
from mqlab.pipeline.kernels.run_deliveries import run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks
from pipeline.cases import CASES
from pipeline.synthetic_runs import BEGIN, MEASURE, STOP, Run, write

Counts = dict[str, list[dict[str, object]]]
NO_WINDOWS = pa.table({"run": pa.array([], pa.int32())})


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """A block may have only so many."""
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", request.param)
    monkeypatch.setattr(large_runs, "SPLIT_ROWS", 7)
    return int(request.param)


_KEYS = {"deliveries": ["run", "bucket"], "latency slots": ["run", "slot", "bucket"], "gaps": ["run"]}


def counted(tables: list[tuple[str, pa.Table]]) -> Counts:
    """Add up, as Spark does."""
    found: Counts = {}
    for name, by in _KEYS.items():
        rows = pa.concat_tables(table for own, table in tables if own == name)
        how = {column: "max" if column == "longest" else "sum" for column in rows.column_names if column not in by}
        added = rows.group_by(by).aggregate([*how.items()])
        found[name] = added.sort_by([(column, "ascending") for column in by]).to_pylist()
    return found


def windows_of(runs: list[Run]) -> pa.Table:
    times = {"load_start": BEGIN, "measure_start": MEASURE, "measure_end": STOP}
    return pa.table({"run": [run.number for run in runs]} | {name: [time] * len(runs) for name, time in times.items()})


def cut(folder: RunFolder, windows: pa.Table = NO_WINDOWS) -> list[EventPartition]:
    plan = LargeRuns(examine_events(folder), windows)
    return plan.blocks(*of_splits(plan))


def of_splits(plan: LargeRuns) -> tuple[pa.Table, pa.Table]:
    """The cells and the bounds, as tasks count them."""
    cells, bounds = [], []
    for split in plan.splits():
        for table in ("sends", "receipts"):
            for part in read_rows(table, split.groups.get(table, {})):
                cells.append(blocks.count_cells(part.rows, split.cell_bits or 0))
                bounds.append(count_bounds(part))
    return pa.concat_tables(cells), pa.concat_tables(bounds)


def sweep(events: dict[str, pa.Table], windows: pa.Table) -> list[tuple[str, pa.Table]]:
    aligned = align_clocks(events)
    of_runs = {run: RunWindow.of(times) for run, times in windows_by_run(windows).items()}
    return [*run_deliveries(aligned, of_runs).items(), ("gaps", gaps(aligned["sends"]))]


@pytest.mark.parametrize(("few_rows", "number"), [(4, 8), (20, 30), (1000, 500)], indirect=["few_rows"])
def test_blocks_add_up_to_the_whole(chance_runs: list[Run], tmp_path: Path, few_rows: int, number: int) -> None:
    runs = [*chance_runs, *CASES.values()][:number]
    folder, windows = write(tmp_path, runs, files=2, seed=few_rows), windows_of(runs)
    whole = {table: read_files(table, [(str(path), None) for path in folder.event_files(table)]) for table in NEEDED}
    expected = counted(sweep(whole, windows))
    assert expected["gaps"]
    parts = cut(folder, windows)
    assert len(parts) > 1
    assert counted([counts for part in parts for counts in sweep(read_block(part), windows)]) == expected


def disorderly(messages: int, consumers: int = 1) -> Run:
    """Two producers of single messages, one with nearly all of them, which a queue or a topic delivers in any order."""
    run = Run(1, consumers=tuple(range(consumers)), producers=2).send(0, 1, producer=1).receive(0, 1, producer=1)
    chance = random.Random(consumers)
    for first in range(messages):
        run.send(first)
    for consumer in range(consumers):
        for first in chance.sample(range(messages), messages):
            run.receive(first, consumer=consumer)
    return run


@pytest.mark.parametrize("few_rows", [60], indirect=True)
@pytest.mark.parametrize("consumers", [1, 3])
def test_no_block_holds_more_rows_than_it_may_however_few_producers_there_are(
    tmp_path: Path, few_rows: int, consumers: int
) -> None:
    run = disorderly(500, consumers)
    parts = cut(write(tmp_path, [run], files=2, seed=1))
    held = []
    for part in parts:
        events = read_block(part)
        # Without the rows that stand for those outside. A send is swept once for each subscription.
        sends = sum(row["outcome"] == CONFIRMED for row in events["sends"].to_pylist())
        held.append(sends * consumers + sum(row["count"] > 0 for row in events["receipts"].to_pylist()))
    assert sum(held) == len(run.sends) * consumers + len(run.receipts)
    assert [part.rows for part in parts] == held
    assert max(held) <= few_rows
    assert len(parts) < 3 * sum(held) / few_rows, "most blocks are full"


def topic_of_batches(messages: int, subscriptions: int) -> Run:
    """A producer of single messages, which each subscription receives all at once."""
    run = Run(1, consumers=tuple(range(subscriptions)))
    for first in range(messages):
        run.send(first)
    for consumer in range(subscriptions):
        run.receive(0, messages, consumer=consumer)
    return run


@pytest.mark.parametrize("few_rows", [200], indirect=True)
def test_a_send_counts_in_a_block_once_for_each_subscription(tmp_path: Path, few_rows: int) -> None:
    """As often as the sweep takes it, though the receipts are few."""
    parts = cut(write(tmp_path, [topic_of_batches(100, 20)]))
    sends = [sum(row["outcome"] == CONFIRMED for row in read_block(part)["sends"].to_pylist()) for part in parts]
    assert sum(sends) == 100
    assert max(sends) * 20 <= few_rows


@pytest.mark.parametrize("few_rows", [200], indirect=True)
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(("messages", "subscriptions", "is_large"), [(199, 1, False), (200, 1, True), (19, 10, False),
                                                                     (20, 10, True)])  # fmt: skip
def test_a_run_is_large_by_what_the_sweep_takes(
    tmp_path: Path, messages: int, subscriptions: int, is_large: bool
) -> None:
    sources = examine_events(write(tmp_path, [topic_of_batches(messages, subscriptions)]))
    assert find_large(sources, count_rows(sources)) == ({None} if is_large else set())


@pytest.mark.parametrize("few_rows", [20], indirect=True)
@pytest.mark.usefixtures("few_rows")
def test_a_partition_has_the_files_and_windows_of_its_own_runs(tmp_path: Path) -> None:
    """With those of all runs, partitions would grow with the number of runs."""
    runs = [1, 2, 3]
    folder = RunFolder(tmp_path)
    for number in runs:
        run = Run(number).receive(0, 40)
        for first in range(40):
            run.send(first)
        for path in write(tmp_path, [run]).events.rglob("part-0.*"):
            path.rename(path.with_name(path.name.replace("part-0", f"run-{number:05}")))
    plan = LargeRuns(examine_events(folder), windows_of([Run(number) for number in runs]))
    partitions = [*plan.splits(), *plan.blocks(*of_splits(plan))]
    assert {len(partition.windows) for partition in partitions} >= {1, 2}
    for partition in partitions:
        files = {Path(file).name.split(".")[0] for file in partition.paths()}
        assert files == {f"run-{run:05}" for run in partition.windows}


@pytest.mark.parametrize("few_rows", [40], indirect=True)
@pytest.mark.usefixtures("few_rows")
def test_what_lies_far_outside_a_block_adds_few_rows(tmp_path: Path) -> None:
    """However many messages a consumer received before its last one of the block: one row stands for them."""
    parts = cut(write(tmp_path, [disorderly(500)]))
    assert max(len(part.earlier_above) for part in parts) == 1
    orderly = Run(1).send(0, 500)
    for first in range(0, 500, 5):
        orderly.receive(first, 5)
    parts = cut(write(tmp_path / "orderly", [orderly]))
    assert len(parts) > 2
    assert [part.earlier_above for part in parts] == [[]] * len(parts)


def messages_over_time(folder: RunFolder, rates: dict[int, int], files: int = 20) -> None:
    """Files one after the other. Each producer sends so many messages in each, and rows reach into the next file."""
    for number in range(files):
        part = Run(1)
        for producer, rate in rates.items():
            first, at = rate * number, BEGIN + number
            part.send(first, rate // 2, at, producer=producer).send(first + rate // 2, rate, at, producer=producer)
            part.receive(first, rate, at, producer=producer)
        for table in ("sends", "receipts"):
            rows = [{"run": 1, **row} for row in part.tables()[table]]
            folder.write_events(table, f"part-{number:02}", event_table(table, rows))


def test_a_block_reads_only_the_row_groups_that_have_its_messages(tmp_path: Path) -> None:
    """Also if producers of other rates share them; rows that begin before a block may end in it."""
    folder = write(tmp_path, [Run(1)])
    messages_over_time(folder, {0: 100, 1: 10})
    groups: list[RowGroup] = []
    bounds = []
    for table in ("sends", "receipts"):
        of_table = [*row_groups(table, examine_events(folder).readable(table))]
        groups += of_table
        bounds += [count_bounds(part) for part in read_rows(table, {group.file: [group.number] for group in of_table})]
    of_groups = GroupBounds(groups, pa.concat_tables(bounds))

    def files(producer: int, low: int, high: int) -> set[str]:
        block = [blocks.Extent(1, 0, producer, low, high, is_sent_above=False)]
        return {Path(group.file).name.split(".")[0] for group in of_groups.of_block(block)}

    assert files(0, 0, 25) == files(1, 0, 3) == {"part-00"}
    assert files(0, 700, 725) == files(1, 70, 73) == {"part-06", "part-07"}


@pytest.mark.parametrize("few_rows", [30], indirect=True)
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("rates", [{0: 100, 1: 100}, {0: 1000, 1: 10}], ids=["alike", "unlike"])
def test_a_block_has_messages_of_about_the_same_time(tmp_path: Path, rates: dict[int, int]) -> None:
    folder = write(tmp_path, [Run(1, producers=2)])
    messages_over_time(folder, rates)
    parts = cut(folder)
    assert len(parts) > 4
    assert max(len(part.groups["receipts"]) for part in parts) <= 7
