"""The pass as a whole: nothing to measure, progress, and reading the tables."""

import shutil
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import audit, measure
from mqlab.pipeline.measure_tables import NotMeasuredError, read_table
from mqlab.pipeline.schema import TABLES
from pipeline.cases import CASES, EXHIBITS
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import Run, write
from table_rows import Tables

# Of a pass, and how many more if runs have faults.
JOBS, JOBS_OF_FAULTS = 47, 23


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


def test_a_pass_has_as_many_jobs_over_many_runs_as_over_few(spark: SparkSession, tmp_path: Path) -> None:
    """Most of a warm pass over a quick study is their planning (decision 0028)."""
    tracker = spark.sparkContext.statusTracker()

    def jobs(name: str, runs: Sequence[Run]) -> int:
        folder, before = write(tmp_path / name, runs), {*tracker.getJobIdsForGroup()}
        measure(spark, folder, exhibits=EXHIBITS)
        return len({*tracker.getJobIdsForGroup()} - before)

    few = jobs("few", random_runs()[:3])
    assert 0 < few <= JOBS
    many = jobs("many", [CASES["killed once"], *random_runs()[:40]])
    assert few < many <= JOBS + JOBS_OF_FAULTS


def test_the_audit_alone_finds_the_same_and_writes_nothing(
    spark: SparkSession, measured: RunFolder, tables: Tables, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    shutil.copytree(measured.events, folder.events)
    assert sorted(audit(spark, folder), key=itemgetter("run")) == sorted(tables["audits"], key=itemgetter("run"))
    assert [*tmp_path.iterdir()] == [folder.events]
