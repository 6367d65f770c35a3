"""Blocks of large runs: swept one by one they give what the whole run gives, and none has more rows than it may."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import event_table
from mqlab.pipeline import large_runs
from mqlab.pipeline.kernels import blocks
from mqlab.pipeline.kernels.run_counts import gaps
from mqlab.pipeline.kernels.run_deliveries import run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks
from mqlab.pipeline.large_runs import LargeRuns
from mqlab.pipeline.measure_tables import examine_events
from mqlab.pipeline.row_groups import read_rows
from mqlab.pipeline.run_source import EventPartition, read_block, read_files, windows_by_run
from pipeline.cases import CASES
from pipeline.synthetic_runs import BEGIN, MEASURE, STOP, Run, write

Counts = dict[str, list[dict[str, object]]]
NO_WINDOWS = pa.table({"run": pa.array([], pa.int32())})


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """A block may have only so many."""
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", request.param)
    monkeypatch.setattr(large_runs, "SLICE_ROWS", 7)
    return int(request.param)


def counted(tables: list[tuple[str, pa.Table]]) -> Counts:
    """Add up, as Spark does."""
    found: Counts = {}
    for name, by in {"deliveries": ["run", "bucket"], "gaps": ["run"]}.items():
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
    cells = [
        blocks.count_cells(rows, part.cell_bits)
        for part in plan.slices() if part.cell_bits is not None
        for table, groups in part.groups.items() if table in ("sends", "receipts")
        for rows in read_rows(table, groups)
    ]  # fmt: skip
    return plan.blocks(pa.concat_tables(cells))


def sweep(events: dict[str, pa.Table], windows: pa.Table) -> list[tuple[str, pa.Table]]:
    aligned = align_clocks(events)
    of_runs = {run: RunWindow(*times) for run, times in windows_by_run(windows).items()}
    return [("deliveries", run_deliveries(aligned, of_runs)), ("gaps", gaps(aligned["sends"]))]


@pytest.mark.parametrize(("few_rows", "number"), [(4, 8), (20, 30), (1000, 500)], indirect=["few_rows"])
def test_blocks_add_up_to_the_whole(chance_runs: list[Run], tmp_path: Path, few_rows: int, number: int) -> None:
    runs = [*chance_runs, *CASES.values()][:number]
    folder, windows = write(tmp_path, runs, files=2, seed=few_rows), windows_of(runs)
    whole = {table: read_files(table, [str(path) for path in folder.event_files(table)]) for table in NEEDED}
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
        held.append(sum(int((events[table]["count"].to_numpy() > 0).sum()) for table in ("sends", "receipts")))
    # But for the sends of the numbers below, which stand for all of them.
    outside = sum(extent.low > 0 for part in parts for extent in part.extents)
    assert sum(held) - outside == len(run.sends) + len(run.receipts)
    assert [part.rows for part in parts] == pytest.approx(held, abs=2)
    assert max(held) <= few_rows + 2
    assert len(parts) < 3 * sum(held) / few_rows, "most blocks are full"


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


@pytest.mark.parametrize("few_rows", [100], indirect=True)
@pytest.mark.usefixtures("few_rows")
def test_a_block_reads_only_the_row_groups_that_have_its_messages(tmp_path: Path) -> None:
    """One file a hundred messages; rows that begin before a block may end in it."""
    folder = write(tmp_path, [Run(1)])
    for number in range(20):
        part = Run(1).send(100 * number, 50).send(100 * number + 50, 75).receive(100 * number, 100)
        for table in ("sends", "receipts"):
            rows = [{"run": 1, **row} for row in part.tables()[table]]
            folder.write_events(table, f"part-{number:02}", event_table(table, rows))
    plan = LargeRuns(examine_events(folder), NO_WINDOWS)
    found = {number: plan_files(plan, 100 * number, 100 * number + 25) for number in (0, 7)}
    assert found == {0: {"part-00"}, 7: {"part-06", "part-07"}}


def plan_files(plan: LargeRuns, low: int, high: int) -> set[str]:
    groups = plan.bounds.of_block([blocks.Extent(1, 0, 0, low, high, is_sent_above=False)])
    return {Path(group.file).name.split(".")[0] for group in groups}
