"""The pass as a whole: nothing to measure, progress, and reading the tables."""

import shutil
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import audit, measure
from mqlab.pipeline.measure_tables import NotMeasuredError, read_table
from mqlab.pipeline.schema import TABLES
from pipeline.synthetic_runs import write
from table_rows import Tables


def test_reading_before_measuring_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match=r"not measured yet \(it has no audits\)$"):
        read_table(RunFolder(tmp_path), "audits")


def test_with_nothing_to_measure_nothing_is_left_of_what_was_there(
    spark: SparkSession, measured: RunFolder, tmp_path: Path
) -> None:
    """Every table is there, empty; the progress is told from the first step to the last."""
    folder = write(tmp_path, [])
    shutil.copytree(measured.measures, folder.measures, dirs_exist_ok=True)
    assert read_table(folder, "audits")
    told: list[tuple[str, int, int]] = []
    measure(spark, folder, lambda *step: told.append(step))
    assert {name: read_table(folder, name) for name in TABLES} == {name: [] for name in TABLES}
    # Some steps are taken together, so several may begin when as many are done.
    assert (told[0][1:], told[-1]) == ((0, 27), ("", 27, 27))
    assert len({name for name, *_ in told}) == len(told) == 28
    files = sorted(str(file.relative_to(folder.measures)) for file in folder.measures.rglob("*") if file.is_file())
    assert files == sorted(["sources.json", *(f"{name}/part.parquet" for name in TABLES)])


def test_the_audit_alone_finds_the_same_and_writes_nothing(
    spark: SparkSession, measured: RunFolder, tables: Tables, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    shutil.copytree(measured.events, folder.events)
    assert sorted(audit(spark, folder), key=itemgetter("run")) == sorted(tables["audits"], key=itemgetter("run"))
    assert [*tmp_path.iterdir()] == [folder.events]
