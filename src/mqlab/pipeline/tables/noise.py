"""Which runs count for figures: undisturbed by other work of the machine, and steady."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.pipeline.schema import CLEAN, NoiseRow, PointColumns, RunColumns, columns

_POINT: Final = columns(PointColumns)


def noise(audits: DataFrame, machine: DataFrame, unsteady: DataFrame) -> DataFrame:
    """One row for each run. A point of which all runs are flagged uses the last run of each repetition."""
    of_point, of_repetition = Window.partitionBy(*_POINT), Window.partitionBy(*_POINT, "repetition")
    is_valid = fn.col("valid")
    is_quiet = is_valid & ~is_flagged()
    is_last = fn.col("run") == fn.max(fn.when(is_valid, fn.col("run"))).over(of_repetition)
    has_quiet = fn.max(is_quiet.cast("int")).over(of_point) == 1
    return (
        audits.join(fn.broadcast(_shares(machine)), "run", "left")
        .join(fn.broadcast(unsteady), "run", "left")
        .fillna("", ["disturbed", "unsteady", "foreign_name"])
        .withColumn("valid", fn.col("status") == CLEAN)
        .withColumn("used", is_quiet | (is_valid & ~has_quiet & is_last))
        .select(*columns(NoiseRow))
    )


def is_flagged() -> Column:
    return (fn.col("disturbed") != "") | (fn.col("unsteady") != "")


def used_runs(noise: DataFrame) -> DataFrame:
    return noise.where("used").select(*columns(RunColumns))


def _shares(machine: DataFrame) -> DataFrame:
    """Processor time as shares of all processors, and waits as shares of the time."""
    processors = fn.col("seconds") * fn.col("cores")

    def share(name: str, whole: Column) -> Column:
        return (fn.col(f"{name}_seconds") / whole).alias(name)

    return machine.select(
        "run", "disturbed", "foreign_name", "clock_hz",
        *(share(name, processors) for name in ("steal", "foreign")),
        *(share(name, fn.col("seconds")) for name in ("cpu_wait", "memory_wait", "disk_wait")),
    )  # fmt: skip
