"""Percentiles of durations in columns are those that SQL finds in the same histograms."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mqlab.pipeline.event_tables import local_table
from mqlab.pipeline.kernels.durations import find_durations
from mqlab.pipeline.kernels.histogram import GROWTH, percentiles
from mqlab.study.metric import PERCENTILES

NAMES = {name: name.replace(".", "_") for name in PERCENTILES}


def histogram(run: int, seed: int, count: int) -> pa.Table:
    """Several rows of a bucket, as the tasks count them."""
    random = np.random.default_rng(seed)
    buckets = random.integers(1, 8_000, count).repeat(2)
    messages = random.integers(1, 50, 2 * count)
    longest = [int(GROWTH**bucket) for bucket in buckets.tolist()]
    nanoseconds = [number * each for number, each in zip(messages.tolist(), longest, strict=True)]
    return pa.table({
        "run": pa.array([run] * 2 * count, pa.int32()), "counts": ["deliveries"] * 2 * count,
        "bucket": pa.array(buckets, pa.int32()), "messages": messages,
        "nanoseconds": pa.array(map(Decimal, nanoseconds), pa.decimal128(38, 0)), "longest": longest,
    })  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 500])
def test_columns_and_sql_find_the_same_percentiles(spark: SparkSession, count: int) -> None:
    rows = histogram(7, count, count)
    in_sql = percentiles(local_table(spark, rows), {NAMES[name]: share for name, share in PERCENTILES.items()})
    (expected,) = in_sql.toArrow().to_pylist()
    found = {row["metric"]: row["value"] for row in find_durations(rows, PERCENTILES).to_pylist()}
    for name, column in NAMES.items():
        assert found[f"latency.{name}"] == pytest.approx(expected[column] / 1e9, rel=1e-12)


def test_the_maximum_and_the_mean_are_exact() -> None:
    rows = histogram(7, 1, 100)
    found = {row["metric"]: row["value"] for row in find_durations(rows, PERCENTILES).to_pylist()}
    total = sum(rows["nanoseconds"].to_pylist())
    assert found["latency.max"] == max(rows["longest"].to_pylist()) / 1e9
    assert found["latency.mean"] == float(total) / sum(rows["messages"].to_pylist()) / 1e9
    assert {name.partition(".")[0] for name in found} == {"latency"}


def test_a_run_without_durations_has_no_figures() -> None:
    assert find_durations(histogram(7, 1, 1).slice(0, 0), PERCENTILES).num_rows == 0
