"""The measures of compacted events are those of the events, bit for bit, and damage voids exactly its runs."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqlab.events.compaction import compact
from mqlab.events.folder import RunFolder
from mqlab.events.sources import examine_events
from mqlab.pipeline.counts import large_runs
from mqlab.pipeline.following.follower import EndedRun, Follower
from mqlab.pipeline.measure import differing_counts, measure
from mqlab.pipeline.measure_tables import check_measures, read_table
from mqlab.pipeline.remote_folder import RemoteFolder
from mqlab.pipeline.schema import TABLES
from pipeline.cases import CASES, EXHIBITS
from pipeline.synthetic_runs import Run, write, write_by_run


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {table: (folder.measures / table / "part.parquet").read_bytes() for table in TABLES}


def events(folder: RunFolder) -> list[Path]:
    return [*folder.events.glob("*/*.parquet")]


@pytest.fixture(scope="module")
def plain(spark: SparkSession, chance_runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Runs with rows in every table, in files of their own, measured; no test changes it."""
    folder = write(tmp_path_factory.mktemp("plain"), [])
    folder.write_meta({**folder.meta(), "status": "complete", "finished": "2026-01-01T12:00:00+00:00"})
    cases = [run for run in CASES.values() if run.faults or run.operations or run.round_trips]
    write_by_run(folder, (*cases, *chance_runs[:20]))
    measure(spark, folder, exhibits=EXHIBITS)
    return folder


@pytest.fixture
def compacted(plain: RunFolder, tmp_path: Path) -> RunFolder:
    folder = RunFolder(shutil.copytree(plain.path, tmp_path / "run"))
    compact(folder)
    assert len(events(folder)) < len(events(plain)) / 15
    return folder


def test_the_measures_stay_the_same(
    plain: RunFolder, compacted: RunFolder, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some runs are cut into blocks."""
    check_measures(compacted)
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", 40)
    shutil.rmtree(compacted.measures)
    measure(spark, compacted, exhibits=EXHIBITS)
    assert contents(compacted) == contents(plain)
    check_measures(compacted)


def test_they_are_the_same_in_sql_and_where_only_spark_reads(
    plain: RunFolder, compacted: RunFolder, spark: SparkSession, tmp_path: Path
) -> None:
    remote = RemoteFolder.fetch(spark, compacted.path.as_uri(), tmp_path / "copy")
    assert differing_counts(spark, remote.copy, remote.sources) == []
    shutil.rmtree(compacted.measures)
    measure(spark, remote.copy, exhibits=EXHIBITS, sources=remote.sources)
    remote.copy_back(spark)
    check_measures(compacted)
    assert contents(compacted) == contents(plain)


def test_damage_voids_exactly_the_runs_that_it_touches(
    plain: RunFolder, compacted: RunFolder, spark: SparkSession, tmp_path: Path
) -> None:
    victim = next(file for file in examine_events(compacted).readable("receipts") if file.first_group > 3)
    content = bytearray(victim.path.read_bytes())
    content[content.index(b"PAR1") + len(content) // 3] ^= 4
    victim.path.write_bytes(content)
    sources = examine_events(compacted)
    ((run, reason),) = sources.damaged.items()
    assert reason == f"damaged: events/receipts/{victim.path.name} does not match its checksum"
    measure(spark, compacted, exhibits=EXHIBITS)
    before, after = ({row["run"]: row for row in read_table(folder, "audits")} for folder in (plain, compacted))
    assert [number for number in before if before[number] != after[number]] == [run]
    assert (after[run]["status"], after[run]["reason"]) == ("void", reason)
    assert differing_counts(spark, compacted) == []
    remote = RemoteFolder.fetch(spark, compacted.path.as_uri(), tmp_path / "copy")
    assert remote.sources.damaged == sources.damaged


def test_a_damaged_footer_is_found_where_only_spark_reads(
    compacted: RunFolder, spark: SparkSession, tmp_path: Path
) -> None:
    (path,) = compacted.event_files("sends")
    path.write_bytes(path.read_bytes()[:-9] + b"PAR1")
    remote = RemoteFolder.fetch(spark, compacted.path.as_uri(), tmp_path / "copy")
    assert remote.sources.damaged == examine_events(compacted).damaged
    assert len(remote.sources.damaged) > 1


def test_a_compacted_folder_is_followed_to_its_end(plain: RunFolder, compacted: RunFolder, spark: SparkSession) -> None:
    ended: list[EndedRun] = []
    shutil.rmtree(compacted.measures)
    follower = Follower(spark, compacted, ended.append, lambda _: None, interval_s=0.1)
    try:
        follower.follow()
        follower.measure(EXHIBITS)
    finally:
        follower.close()
    audits = {row["run"]: row["status"] for row in read_table(plain, "audits")}
    assert {run.audit["run"]: run.audit["status"] for run in ended} == audits
    assert contents(compacted) == contents(plain)
