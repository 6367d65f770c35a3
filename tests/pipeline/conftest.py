"""One pass over all runs that were made up."""

import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import measure
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import TABLES
from pipeline.cases import CASES, EXHIBITS
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import Run, write
from table_rows import Tables


@pytest.fixture(scope="session")
def chance_runs() -> list[Run]:
    return random_runs()


@pytest.fixture(scope="session")
def measured(spark: SparkSession, chance_runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """All runs in one folder: Spark is slow to start a pass, and one pass covers many runs."""
    folder = write(tmp_path_factory.mktemp("cases"), [*CASES.values(), *chance_runs])
    measure(spark, folder, exhibits=EXHIBITS)
    return folder


@pytest.fixture(scope="session")
def tables(measured: RunFolder) -> Tables:
    return {name: read_table(measured, name) for name in TABLES}
