"""For all tests of clusters: a standalone cluster, a Python as executors have it, and what this machine measures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cluster.spark_servers import Cluster, plain_python, standalone_cluster
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import measure
from pipeline.cases import CASES, EXHIBITS
from pipeline.synthetic_runs import write, write_by_run


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It has what an executor needs, and no more."""
    return plain_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="package")
def local(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Some runs of each kind, measured on this machine: a file for each run and table, as agents write them."""
    folder = write(tmp_path_factory.mktemp("local"), [])
    write_by_run(folder, [*CASES.values()][::4])
    measure(spark, folder, exhibits=EXHIBITS)
    return folder
