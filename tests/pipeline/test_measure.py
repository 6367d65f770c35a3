"""The pass as a whole: nothing to measure, measured again, progress, and reading the tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.made_up import Run, write

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import TABLES, NotMeasuredError, measure, read


def test_reading_before_measuring_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match=r"not measured yet \(it has no audits\)$"):
        read(RunFolder(tmp_path), "audits")


def test_measured_again_it_replaces_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    measure(spark, folder)
    assert {name: read(folder, name) for name in TABLES} == {name: [] for name in TABLES}

    told: list[tuple[str, int, int]] = []
    write(tmp_path, [Run(0).send(0, 10).receive(0, 10)])
    measure(spark, folder, lambda *step: told.append(step))
    assert [row["status"] for row in read(folder, "audits")] == ["clean"]
    assert [(done, total) for _, done, total in told] == [(done, 21) for done in range(22)]
    files = sorted(str(file.relative_to(folder.measures)) for file in folder.measures.rglob("*") if file.is_file())
    assert files == sorted(f"{name}/part.parquet" for name in TABLES)
