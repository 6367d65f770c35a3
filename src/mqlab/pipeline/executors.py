"""The executors of a cluster: they get this package with the job, and need only Python with numpy and pyarrow."""

import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with pyspark, as untyped as it
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import mqlab

_ARCHIVE: Final = "mqlab.zip"
# Tasks of the check: more than most clusters have cores, so that each executor gets one. A task takes milliseconds.
_CHECKS: Final = 64
# How the error of a Python that lacks something begins, in the log of a task.
_REASONS: Final = ("ModuleNotFoundError", "ImportError", "Cannot run program", "PYTHON_VERSION_MISMATCH")


def ship_package(spark: SparkSession, folder: Path) -> None:
    """Send this package to all executors, as it is installed here. `folder`: for the archive."""
    spark.addArtifacts(str(package_archive(folder)), pyfile=True)


@cache
def package_archive(folder: Path) -> Path:
    """Make the archive of the Python files of this package, with its version."""
    package, archive = Path(str(files(mqlab))), folder / _ARCHIVE
    with ZipFile(archive, "w") as output:
        for path in sorted(package.rglob("*.py")):
            output.write(path, f"mqlab/{path.relative_to(package).as_posix()}")
        name = f"mqlab-{mqlab.__version__}"
        output.writestr(f"{name}.dist-info/METADATA", f"Name: mqlab\nVersion: {mqlab.__version__}\n")
    return archive


def why_unfit(spark: SparkSession) -> str:
    """Why a Python of the executors cannot run the tasks of the pipeline; "" if it can."""
    try:
        spark.range(0, _CHECKS, 1, _CHECKS).mapInArrow(_import_tasks, "id long").count()
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if any(each in line for each in _REASONS)), lines[0] if lines else "")
        needed = f"Python {'.'.join(platform.python_version_tuple()[:2])} with numpy and pyarrow"
        return f"every executor needs {needed}, which PYSPARK_PYTHON names ({reason})"
    return ""


def _import_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that imports all that the tasks of the pipeline import."""
    import mqlab.pipeline.counts.run_source
    import mqlab.pipeline.file_tasks  # noqa: F401

    yield from batches
