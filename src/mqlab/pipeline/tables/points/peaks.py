"""Peaks: the greatest value of a metric over swept parameters, such as clients and threads, and where it is."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import local_table
from mqlab.pipeline.exhibit_inputs import PeakRequest
from mqlab.pipeline.schema import PeakRow, columns

_REQUESTS: Final = pa.schema({"metric": pa.string(), "varied": pa.list_(pa.string())})


def peaks(measures: DataFrame, points: DataFrame, requests: Sequence[PeakRequest]) -> DataFrame:
    """One row for each requested peak, scenario, system and combination of the swept parameters that are not in `over`.

    `parameters` are that combination, as JSON with sorted keys. `ci95` is that of the mean at the point of the peak: it
    is a little narrow and the value a little high, since chance decides which of several equal points is the greatest.
    """
    rows = [{"metric": metric, "varied": list(over)} for metric, over in requests]
    requested = local_table(points.sparkSession, pa.Table.from_pylist(rows, schema=_REQUESTS))
    declared = points.groupBy("scenario", "point").agg(fn.first("parameters").alias("declared"))
    best = fn.max_by(fn.struct("value", "unit", "ci95", "runs", "bound_by", "at", "point"), fn.struct("value", "point"))
    has_all = fn.forall("varied", lambda name: fn.map_contains_key("declared", name))
    return (
        measures.join(fn.broadcast(requested), "metric")
        .join(fn.broadcast(declared), ["scenario", "point"])
        .where(has_all)
        .withColumn("over", fn.array_join("varied", ", "))
        .withColumn("parameters", _others())
        .withColumn("at", fn.array_join(fn.transform("varied", _shown), ", "))
        .groupBy("scenario", "system", "metric", "over", "parameters")
        .agg(best.alias("best"))
        .select("scenario", "system", "metric", "over", "parameters", "best.*")
        .select(*columns(PeakRow))
    )


def _shown(name: Column) -> Column:
    return fn.concat(name, fn.lit("="), fn.col("declared")[name])


def _others() -> Column:
    """The swept parameters of a point, which its name has, without the varied ones."""
    parts = fn.concat(fn.lit(", "), fn.col("point"), fn.lit(", "))

    def is_kept(name: Column, value: Column) -> Column:
        in_name = fn.contains(parts, fn.concat(fn.lit(", "), name, fn.lit("="), value, fn.lit(", ")))
        return in_name & ~fn.array_contains("varied", name)

    kept = fn.array_sort(fn.map_entries(fn.map_filter("declared", is_kept)))
    return fn.to_json(fn.map_from_entries(kept))
