"""Compaction makes a few event files of many: the same rows, the same checksums, whatever happens in its middle."""

import os
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.events import compaction
from mqlab.events.checksums import file_name
from mqlab.events.compacted import read_groups, runs_of_name
from mqlab.events.compaction import CompactionError, compact
from mqlab.events.folder import RunFolder, RunFolderBusyError, run_name
from mqlab.events.recorder import Recorder, event_table
from mqlab.events.schema import COMPLETE, TABLES, PhaseRow
from mqlab.events.sources import EventSources, examine_events, examine_parts

RUNS = range(1, 6)


def write_run(folder: RunFolder, run: int, sends: int = 20) -> None:
    """With two agents, as the lab writes it."""
    for agent in (1, 2):
        recorder = Recorder(folder, run, agent)
        for number in range(sends):
            recorder.sends.append(
                producer=agent, destination=0, first_seq=number * 10, count=10, bytes=120, t_planned=number,
                t_sent=1000 * run + number, t_confirmed=-1 if number % 3 else 5000, outcome=0,
            )  # fmt: skip
        recorder.close()
    phase = PhaseRow(phase="measure", t_start=run, t_end=run + 1)
    folder.write_events("phases", run_name(run), event_table("phases", [{"run": run, **vars(phase)}]))
    texts = dict.fromkeys(("study", "scenario", "point", "system", "reason"), "")
    counts = dict.fromkeys(("counted_sent", "counted_received", "counted_round_trips"), 0)
    row = {"run": run, **texts, "repetition": 1, "parameters": "{}", "status": COMPLETE, **counts}
    folder.write_events("runs", run_name(run), event_table("runs", [row]))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    folder.write_meta({"status": COMPLETE})
    for run in RUNS:
        write_run(folder, run)
    return folder


def test_rows_of_an_earlier_version_lack_what_may_be_null(folder: RunFolder) -> None:
    for path in folder.event_files("runs"):
        earlier = BytesIO()
        pq.write_table(pq.read_table(path).drop_columns(["events_of"]), earlier)
        path.unlink()
        path.with_name(file_name(path.name.partition(".")[0], earlier.getvalue())).write_bytes(earlier.getvalue())
    before = read_groups(TABLES["runs"], examine_events(folder).local_groups("runs"))
    compact(folder)
    after = read_groups(TABLES["runs"], examine_events(folder).local_groups("runs"))
    assert after.equals(before)
    assert after["events_of"].null_count == len(RUNS)


def proofs(sources: EventSources) -> dict[tuple[str, str], str]:
    return {(file.table, file.name): file.checksum for files in sources.files.values() for file in files}


def rows(sources: EventSources) -> dict[tuple[str, str], pa.Table]:
    """The rows of every file or part, read one by one."""
    found = {}
    for file in (file for table in TABLES for file in sources.readable(table)):
        with pq.ParquetFile(file.path) as opened:
            numbers = range(opened.num_row_groups) if file.group_numbers is None else file.group_numbers
            found[file.table, file.name] = opened.read_row_groups(numbers)
    return found


def paths(folder: RunFolder) -> list[Path]:
    return [path for table in TABLES for path in folder.event_files(table)]


def test_files_become_few_and_keep_their_rows_and_checksums(folder: RunFolder) -> None:
    before = examine_events(folder)
    expected = rows(before)
    assert len(paths(folder)) == 4 * len(RUNS)
    compact(folder)
    assert [path.parent.name for path in paths(folder)] == ["runs", "sends", "phases"]
    after = examine_events(folder)
    assert proofs(after) == proofs(before)
    assert rows(after) == expected
    assert after.damaged == {}
    # Any reader of Parquet has all rows in one file, in the order of the runs.
    (sends,) = folder.event_files("sends")
    assert pq.read_table(sends)["run"].to_pylist() == [run for run in RUNS for _ in range(40)]


def test_it_can_be_repeated_and_adds_later_files(folder: RunFolder) -> None:
    compact(folder)
    compacted = paths(folder)
    compact(folder)
    assert paths(folder) == compacted
    for run in (6, 7):
        write_run(folder, run)
    expected = proofs(examine_events(folder))
    compact(folder)
    assert len(paths(folder)) == 6
    assert proofs(examine_events(folder)) == expected


def test_a_flipped_bit_voids_the_runs_whose_rows_it_touches(folder: RunFolder) -> None:
    """Anywhere in a compacted file: its rows void their run, its footer all runs of the file."""
    compact(folder)
    (path,) = folder.event_files("sends")
    content = path.read_bytes()
    with pq.ParquetFile(path) as opened:
        groups = [opened.metadata.row_group(number) for number in range(opened.num_row_groups)]
    ends = [max(_end(group.column(column)) for column in range(group.num_columns)) for group in groups]
    assert len(ends) == 2 * len(RUNS)
    for position in range(0, len(content), 41):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        touched = [run for run in RUNS if position < ends[2 * run - 1] and (run == 1 or position >= ends[2 * run - 3])]
        assert [*dict.fromkeys(file.run for file in examine_parts(path) if file.damage)] == (touched or [*RUNS])


def _end(chunk: pq.ColumnChunkMetaData) -> int:
    begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return int(begin) + int(chunk.total_compressed_size)


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c[: len(c) // 2], lambda c: c + b"\0", lambda _: b""])
def test_a_compacted_file_that_was_cut_or_grew_voids_its_runs(
    folder: RunFolder, change: Callable[[bytes], bytes]
) -> None:
    compact(folder)
    (path,) = folder.event_files("phases")
    path.write_bytes(change(path.read_bytes()))
    reason = f"damaged: events/phases/{path.name} does not match its checksum"
    assert examine_events(folder).damaged == dict.fromkeys(RUNS, reason)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def kill_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """End compaction before its nth change of the folder: a sync, a rename or a removal."""
    left = [0]

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return change(*arguments, **more)

        return call

    def begin(changes: int) -> None:
        left[0] = changes

    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    yield begin
    monkeypatch.undo()


def test_a_kill_at_any_moment_loses_nothing_and_counts_nothing_twice(
    folder: RunFolder, kill_after: Callable[[int], None]
) -> None:
    """Each time a little later, in the folder that the last kill left."""
    before = examine_events(folder)
    expected, expected_rows = proofs(before), rows(before)
    kills = 0
    for changes in range(1000):
        kill_after(changes)
        try:
            compact(folder)
        except KilledError:
            kills += 1
        else:
            break
        found = examine_events(folder)
        assert (proofs(found), rows(found), found.damaged) == (expected, expected_rows, {})
    assert kills > 3
    assert len(paths(folder)) < 3 * len(RUNS)
    assert not [*folder.events.glob("*/.*")]
    assert rows(examine_events(folder)) == expected_rows


def test_a_kill_before_the_first_removal_leaves_both(folder: RunFolder, kill_after: Callable[[int], None]) -> None:
    expected = proofs(examine_events(folder))
    kill_after(3)  # two syncs and a rename
    with pytest.raises(KilledError):
        compact(folder)
    assert len(paths(folder)) == 4 * len(RUNS) + 1
    assert proofs(examine_events(folder)) == expected
    kill_after(1000)
    compact(folder)
    assert len(paths(folder)) == 3
    assert proofs(examine_events(folder)) == expected


def test_runs_that_are_not_sound_keep_their_files(folder: RunFolder) -> None:
    (damaged,) = folder.events.glob("phases/run-00002*")
    damaged.write_bytes(b"PAR1")
    (row,) = folder.events.glob("runs/run-00004*")
    row.unlink()
    before = examine_events(folder)
    compact(folder)
    after = examine_events(folder)
    assert (proofs(after), after.damaged) == (proofs(before), before.damaged)
    kept = {file.run for files in after.files.values() for file in files if not file.part}
    assert kept == {2, 4}


def test_large_runs_keep_their_files_and_files_have_bounded_rows(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_BATCH_ROWS", 80)
    write_run(folder, 6, sends=50)
    before = proofs(examine_events(folder))
    compact(folder)
    assert proofs(examine_events(folder)) == before
    assert [runs_of_name(path.name) for path in folder.event_files("sends")] == [
        None, None, range(1, 3), range(3, 5), range(5, 6),
    ]  # fmt: skip


def test_only_a_complete_folder_is_compacted(folder: RunFolder) -> None:
    folder.write_meta({"status": "incomplete"})
    with pytest.raises(CompactionError, match="only a complete run folder can be compacted"):
        compact(folder)
    assert len(paths(folder)) == 4 * len(RUNS)


def test_events_that_somebody_reads_stay(folder: RunFolder) -> None:
    with folder.events_locked(), pytest.raises(RunFolderBusyError, match="another mqlab reads its events"):
        compact(folder)
    compact(folder)
