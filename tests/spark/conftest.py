"""A broker, and a Spark session that has the format `mqlab`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.server.raw_client import local
from client.broker_helpers import Served, serving
from mqlab.spark import MqlabDataSource


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(local(data=tmp_path / "data")) as broker:
        yield broker


@pytest.fixture(scope="session")
def streams(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(MqlabDataSource)
    # It makes the session that of this thread, where Spark looks for the format of a sink.
    spark.createDataFrame([], "body BINARY")
    return spark
