"""The points of the runs: the parameters that their figures depend on, from the declaration that each run carries."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

# The keys of study.Point that the pipeline needs. A missing key has the default of Point.
_POINT_SCHEMA: Final = (
    "pattern string, domain string, load string, size bigint, batch bigint, producers int, consumers int, "
    "client_cpu double, base string, parameters map<string, string>"
)


def points(runs: DataFrame) -> DataFrame:
    """One row for each run, valid or not. `parameters` are written as in the names of points."""
    declared = fn.from_json("parameters", _POINT_SCHEMA)
    return runs.withColumn("declared", declared).select(
        "run",
        "scenario",
        "point",
        "system",
        fn.coalesce("declared.pattern", fn.lit("one-way")).alias("pattern"),
        "declared.domain",
        fn.coalesce("declared.load", fn.lit("both")).alias("load"),
        "declared.size",
        "declared.batch",
        "declared.producers",
        "declared.consumers",
        "declared.client_cpu",
        "declared.base",
        "declared.parameters",
    )
