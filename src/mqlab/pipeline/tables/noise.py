"""Which runs count for figures: undisturbed by other work of the machine, and steady."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.schema import CLEAN, NoiseRow, PointColumns, RunColumns, columns

_POINT: Final = columns(PointColumns)
IS_FLAGGED: Final = "(disturbed != '' OR unsteady != '')"


def noise(audits: DataFrame, machine: DataFrame, unsteady: DataFrame) -> DataFrame:
    """One row for each run. A point of which all runs are flagged uses the last run of each repetition."""
    point = ", ".join(_POINT)
    is_quiet = f"(valid AND NOT {IS_FLAGGED})"
    is_last = f"run = max(CASE WHEN valid THEN run END) OVER (PARTITION BY {point}, repetition)"
    has_quiet = f"max(CAST({is_quiet} AS INT)) OVER (PARTITION BY {point}) = 1"
    return (
        audits.join(fn.broadcast(_shares(machine)), "run", "left")
        .join(fn.broadcast(unsteady), "run", "left")
        .fillna("", ["disturbed", "unsteady", "foreign_name"])
        .selectExpr("*", f"status = '{CLEAN}' AS valid")
        .selectExpr("*", f"{is_quiet} OR (valid AND NOT {has_quiet} AND {is_last}) AS used")
        .select(*columns(NoiseRow))
    )


def used_runs(noise: DataFrame) -> DataFrame:
    return noise.where("used").select(*columns(RunColumns))


def _shares(machine: DataFrame) -> DataFrame:
    """Processor time as shares of all processors, and waits as shares of the time."""
    processor_time = (f"{name}_seconds / (seconds * cores) AS {name}" for name in ("steal", "foreign"))
    waits = (f"{name}_seconds / seconds AS {name}" for name in ("cpu_wait", "memory_wait", "disk_wait"))
    return machine.selectExpr("run", "disturbed", "foreign_name", "clock_hz", *processor_time, *waits)
