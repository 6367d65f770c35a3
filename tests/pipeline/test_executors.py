"""What an executor needs: Python with numpy and pyarrow, and nothing else."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cluster.spark_servers import plain_python
from mqlab.pipeline.executors import package_archive, why_unfit


def test_a_python_with_numpy_and_pyarrow_is_enough(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = plain_python(tmp_path, more=[package_archive(tmp_path)])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    assert why_unfit(spark) == ""


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_a_python_without_one_of_them_is_one_clear_sentence(
    missing: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = plain_python(tmp_path, without=missing, more=[package_archive(tmp_path)])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = why_unfit(spark)
    assert said.startswith(
        f"every executor needs Python {version} with numpy and pyarrow, which PYSPARK_PYTHON names ("
    )
    assert f"No module named '{missing}'" in said
    assert "\n" not in said


def test_a_python_that_does_not_exist_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "python"))
    assert str(tmp_path / "python") in why_unfit(spark)
