"""The highest rates of the drivers of a run, for each system, from the record of the run."""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

_SCHEMA: Final = "system string, size bigint, batch bigint, of_domain string, sent double, received double"


def calibrations(spark: SparkSession, meta: dict[str, Any]) -> DataFrame:
    """One row for each system, size and batch of its driver's calibrations, maybe by domain ("": both)."""
    rows = [
        (system["name"], rate["size"], rate["batch"], rate.get("domain", ""), rate["sent"], rate["received"])
        for system in meta.get("systems") or ()
        for rate in meta.get("calibrations") or ()
        if rate["driver"] == system.get("driver")
    ]
    return spark.createDataFrame(rows, _SCHEMA)
