"""The greatest over swept parameters: the best rate over all numbers of clients and threads, and where it was."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import local
from mqlab.pipeline.exhibit_inputs import Peak
from mqlab.pipeline.schema import PeakRow, columns

_WANTED: Final = pa.schema({"metric": pa.string(), "varied": pa.list_(pa.string())})


def peaks(measures: DataFrame, points: DataFrame, wanted: Sequence[Peak]) -> DataFrame:
    """A row for each wanted peak, scenario, system and combination of the swept parameters that are not in `over`.

    `parameters` are that combination, as JSON with its keys in order; `at` says where the peak is, `point` what that
    point is called. `ci95` is of the mean at that point. It is a little narrow, and the value a little high: of many
    points that are as good, the one that had luck is the greatest.
    """
    rows = [{"metric": metric, "varied": list(over)} for metric, over in wanted]
    asked = local(points.sparkSession, pa.Table.from_pylist(rows, schema=_WANTED))
    declared = points.groupBy("scenario", "point").agg(fn.first("parameters").alias("declared"))
    best = fn.max_by(fn.struct("value", "unit", "ci95", "runs", "bound_by", "at", "point"), fn.struct("value", "point"))
    has_all = fn.forall("varied", lambda name: fn.map_contains_key("declared", name))
    return (
        measures.join(fn.broadcast(asked), "metric")
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
    """The swept parameters, which are those in the point's name, without the varied ones."""
    parts = fn.concat(fn.lit(", "), fn.col("point"), fn.lit(", "))

    def stays(name: Column, value: Column) -> Column:
        in_name = fn.contains(parts, fn.concat(fn.lit(", "), name, fn.lit("="), value, fn.lit(", ")))
        return in_name & ~fn.array_contains("varied", name)

    kept = fn.array_sort(fn.map_entries(fn.map_filter("declared", stays)))
    return fn.to_json(fn.map_from_entries(kept))
