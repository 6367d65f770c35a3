"""What the drivers of a run reach at most, for each system that was reached by them: from the record of the run."""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

_SCHEMA: Final = "system string, size bigint, batch bigint, of_domain string, sent double, received double"


def calibrations(spark: SparkSession, meta: dict[str, Any]) -> DataFrame:
    """One row for each system, size and batch that its driver was calibrated with, maybe by domain ("": both)."""
    rows = [
        (system["name"], one["size"], one["batch"], one.get("domain", ""), one["sent"], one["received"])
        for system in meta.get("systems") or ()
        for one in meta.get("calibrations") or ()
        if one["driver"] == system.get("driver")
    ]
    return spark.createDataFrame(rows, _SCHEMA)
