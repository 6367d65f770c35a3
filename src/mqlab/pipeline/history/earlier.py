"""The measures of the earlier run folders with which a finished run is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

_PLACE: Final = ("machine", "scenario", "point", "metric")


@dataclass(frozen=True)
class EarlierMeasure:
    """A metric of a point in earlier run folders on one machine: a value of each, the oldest first."""

    machine: str
    scenario: str
    point: str
    metric: str
    started: Sequence[datetime]
    values: Sequence[float]


def earlier_measures(history: DataFrame, before: datetime) -> list[EarlierMeasure]:
    """Those of complete run folders that began before this time; disturbed and thin measures do not count."""
    counted = history.where("complete AND quiet IS DISTINCT FROM false AND NOT thin").where(
        fn.col("started") < fn.lit(before)
    )
    ordered = fn.sort_array(fn.collect_list(fn.struct("started", "run_folder", "value")))
    rows = counted.groupBy(*_PLACE).agg(ordered.alias("folders")).toArrow().to_pylist()
    return [
        EarlierMeasure(
            **{name: row[name] for name in _PLACE},
            started=[folder["started"] for folder in row["folders"]],
            values=[folder["value"] for folder in row["folders"]],
        )
        for row in rows
    ]
