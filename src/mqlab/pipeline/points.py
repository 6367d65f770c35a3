"""What the runs' points say that their figures depend on: read from the declaration that each run carries with it."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

# The keys of study.Point that are needed here. A run that leaves one out has what Point would give it.
_POINT: Final = (
    "pattern string, domain string, load string, size bigint, batch bigint, producers int, consumers int, "
    "client_cpu double, base string, parameters map<string, string>"
)


def points(runs: DataFrame) -> DataFrame:
    """One row a run, whatever became of it. `parameters` are shown as in the names of points."""
    said = fn.from_json("parameters", _POINT)
    return runs.withColumn("said", said).select(
        "run",
        "scenario",
        "point",
        "system",
        fn.coalesce("said.pattern", fn.lit("one-way")).alias("pattern"),
        "said.domain",
        fn.coalesce("said.load", fn.lit("both")).alias("load"),
        "said.size",
        "said.batch",
        "said.producers",
        "said.consumers",
        "said.client_cpu",
        "said.base",
        "said.parameters",
    )
