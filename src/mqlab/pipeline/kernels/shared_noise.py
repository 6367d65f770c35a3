"""The variance of each point, moderated by that of all: study/shared_noise.py, which says why, on the driver.

The points are few, and executors have no package that `study` needs.
"""

from collections.abc import Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import local_table
from mqlab.study.shared_noise import RunNoise, moderated


def moderate(table: DataFrame, over: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Replace the columns `variance` and `degrees_of_freedom`, over rows with equal values of the columns `over`.

    `order`: columns that no two of those rows have in common. The last digit of a sum depends on the order.
    """
    rows = table.toArrow().sort_by([(name, "ascending") for name in dict.fromkeys((*over, *order))])
    columns = (rows[name].to_pylist() for name in (*over, "variance", "degrees_of_freedom"))
    by_group = groupby(zip(*columns, strict=True), key=lambda row: row[:-2])
    noises = [noise for _, points in by_group for noise in moderated([_noise(*point[-2:]) for point in points])]
    for place, name in enumerate(RunNoise._fields):
        values = pa.array([noise and noise[place] for noise in noises], rows.schema.field(name).type)
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return local_table(table.sparkSession, rows)


def _noise(variance: float | None, degrees: int | None) -> RunNoise | None:
    return None if variance is None or degrees is None else RunNoise(variance, degrees)


def paced_points(points: DataFrame) -> DataFrame:
    """(scenario, point, paced): whether a schedule sets the rate of a point, which is then hardly noisy."""
    paced = fn.expr("bool_or(rate IS NOT NULL OR profile != '' OR consume_rate IS NOT NULL) AS paced")
    return points.groupBy("scenario", "point").agg(paced)
