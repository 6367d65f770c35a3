"""Run folders that only Spark reads. Here Spark reads them on this machine: `make test-cluster` has S3."""

from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cli.command import document, here
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.pipeline.counts import large_runs
from mqlab.pipeline.history.dataset import NoHistoryError, read_history, record_history
from mqlab.pipeline.kernels.crc32c import crc32c
from mqlab.pipeline.measure import audit, differing_counts, measure
from mqlab.pipeline.measure_tables import check_measures, read_table
from mqlab.pipeline.remote_folder import RemoteFolder
from mqlab.pipeline.schema import TABLES
from pipeline.cases import EXHIBITS
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import write
from table_rows import Tables


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return write(tmp_path / "run", random_runs()[:6])


def tables(folder: RunFolder) -> Tables:
    return {name: read_table(folder, name) for name in TABLES}


@pytest.mark.parametrize("block_rows", [large_runs.BLOCK_ROWS, 40])
def test_the_measures_are_the_same_and_copied_back(
    block_rows: int, folder: RunFolder, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of runs that are cut into blocks."""
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", block_rows)
    measure(spark, folder, exhibits=EXHIBITS)
    expected = tables(folder)
    for file in folder.measures.rglob("*.*"):
        file.unlink()
    remote = RemoteFolder.fetch(spark, folder.path.as_uri(), tmp_path / "copy")
    assert not [*(remote.copy.events / "sends").glob("*")], "the events stay where they are"
    measure(spark, remote.copy, exhibits=EXHIBITS, sources=remote.sources)
    remote.copy_back(spark)
    check_measures(folder)
    assert tables(folder) == expected


def test_the_history_is_beside_the_run_folder(folder: RunFolder, spark: SparkSession, tmp_path: Path) -> None:
    measure(spark, folder, exhibits=EXHIBITS)
    recorded = record_history(folder)
    expected = read_history(spark, tmp_path).toArrow()
    recorded.unlink()
    remote = RemoteFolder.fetch(spark, folder.path.as_uri(), tmp_path / "copy")
    measure(spark, remote.copy, exhibits=EXHIBITS, sources=remote.sources)
    remote.record_history(spark)
    assert recorded.exists()
    assert expected.num_rows
    assert read_history(spark, tmp_path.as_uri()).toArrow() == expected
    assert read_history(spark, tmp_path).toArrow() == expected


def test_the_root_of_a_file_system_has_no_place_for_a_history(
    folder: RunFolder, spark: SparkSession, tmp_path: Path
) -> None:
    """`s3a://bucket/..` would be another bucket."""
    remote = replace(RemoteFolder.fetch(spark, folder.path.as_uri(), tmp_path / "copy"), url="s3a://bucket")
    with pytest.raises(NotARunFolderError, match="no folder around it"):
        remote.record_history(spark)


def test_without_a_history_behind_the_url(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NoHistoryError, match="there is no history"):
        read_history(spark, tmp_path.as_uri())


def test_the_command_keeps_the_history_of_a_folder_behind_a_url(
    folder: RunFolder, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here Spark reads a URL that the command would otherwise take for a path."""
    del spark  # it is started
    # In this order: modules that are imported later would keep what the first call sets.
    monkeypatch.setattr("mqlab.cli.history.options.local_path", lambda _: None)
    monkeypatch.setattr("mqlab.cli.measure.local_path", lambda _: None)
    runs = tmp_path.as_uri()
    assert "the history cannot be written" not in here("measure", f"{runs}/{folder.path.name}").stderr
    rows = document(here("history", "list", "--runs", f"{runs}/", "--json").stdout)["measures"]
    assert {row["run_folder"] for row in rows} == {folder.path.name}
    absent = here("history", "list", "--runs", f"{runs}/absent")
    assert absent.exit_code == 2
    assert f"mqlab measure {runs}/absent/RUN" in absent.stderr


def test_sql_counts_the_same_events(folder: RunFolder, spark: SparkSession, tmp_path: Path) -> None:
    remote = RemoteFolder.fetch(spark, folder.path.as_uri(), tmp_path / "copy")
    assert differing_counts(spark, remote.copy, remote.sources) == []


@pytest.mark.parametrize("table", ["sends", "clocks"])
def test_a_damaged_file_voids_its_run(table: str, folder: RunFolder, spark: SparkSession, tmp_path: Path) -> None:
    (file,) = folder.event_files(table)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    remote = RemoteFolder.fetch(spark, folder.path.as_uri(), tmp_path / "copy")
    assert remote.sources.damaged == {None: f"damaged: events/{table}/{file.name} does not match its checksum"}
    assert {row["status"] for row in audit(spark, folder)} == {"void"}


def test_a_folder_that_is_none_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotARunFolderError, match="not a run folder"):
        RemoteFolder.fetch(spark, (tmp_path / "empty").as_uri(), tmp_path / "copy")
    with pytest.raises(NotARunFolderError, match="cannot be listed"):
        RemoteFolder.fetch(spark, (tmp_path / "absent").as_uri(), tmp_path / "copy")


@given(st.integers(0, 20_000), st.binary(max_size=64))
def test_checksums_are_those_of_the_library(zeros: int, text: bytes) -> None:
    for content in (text + bytes(zeros) + text, text * (zeros // 16)):
        assert crc32c(content) == google_crc32c.value(content)
