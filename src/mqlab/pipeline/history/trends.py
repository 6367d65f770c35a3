"""Trends: the measures of one metric of one point on one system and one machine, over the run folders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.json_values import JsonObject
from mqlab.pipeline.kernels.change_points import find_change_points
from mqlab.study.metric import METRICS

# The columns that make a series; figures of different machines or scales are never in one.
_SERIES: Final = ("machine", "study", "scale", "system", "scenario", "point", "metric", "unit")
_TIME: Final = pa.timestamp("us", "UTC")
_CHANGE: Final = pa.struct({
    "started": _TIME, "run_folder": pa.string(), "mqlab": pa.string(), "system_version": pa.string(),
    "before": pa.float64(), "after": pa.float64(),
})  # fmt: skip
_SCHEMA: Final = pa.schema({
    **dict.fromkeys(_SERIES, pa.string()),
    "started": pa.list_(_TIME), "values": pa.list_(pa.float64()), "changes": pa.list_(_CHANGE),
})  # fmt: skip


@dataclass(frozen=True)
class LevelChange:
    """A change point: the first run folder of the new level, with what it was run, and the levels before and after."""

    started: datetime
    run_folder: str
    mqlab: str | None
    system_version: str | None
    before: float
    after: float


@dataclass(frozen=True)
class Trend:
    """The measures of a series in the order of their run folders, and its change points."""

    machine: str
    study: str
    scale: str
    system: str
    scenario: str
    point: str
    metric: str
    unit: str
    started: Sequence[datetime]
    values: Sequence[float]
    changes: Sequence[LevelChange]

    def judge(self, change: LevelChange) -> str:
        """Whether the new level is better or worse; "other" of a metric that this version does not have."""
        if self.metric not in METRICS:
            return "other"
        return "better" if (change.after > change.before) == (METRICS[self.metric].better == "higher") else "worse"


def trends(history: DataFrame) -> list[Trend]:
    """The trend of each series; disturbed and thin measures do not count. Spark computes each series in one task."""
    counted = history.where("quiet IS DISTINCT FROM false AND NOT thin")
    rows = counted.groupBy(*_SERIES).applyInArrow(_trend, from_arrow_schema(_SCHEMA)).toArrow().to_pylist()
    return _sorted(rows)


def trends_of(history: pa.Table) -> list[Trend]:
    """The same of rows that are here already: for a page, which must not wait for Spark."""
    is_quiet = pc.fill_null(history["quiet"], fill_value=True)
    counted = history.filter(pc.and_(is_quiet, pc.invert(pc.fill_null(history["thin"], fill_value=False))))
    rows = []
    for series in counted.group_by([*_SERIES]).aggregate([]).to_pylist():
        same = pa.chunked_array([pa.repeat(pa.scalar(True), len(counted))])
        for name in _SERIES:
            value = series[name]
            same = pc.and_(same, pc.is_null(counted[name]) if value is None else pc.equal(counted[name], value))
        rows += _trend(counted.filter(same)).to_pylist()
    return _sorted(rows)


def _sorted(rows: Sequence[JsonObject]) -> list[Trend]:
    found = [Trend(**{**row, "changes": [LevelChange(**change) for change in row["changes"]]}) for row in rows]
    return sorted(found, key=lambda trend: [str(getattr(trend, name)) for name in _SERIES])


def _trend(rows: pa.Table) -> pa.Table:
    rows = rows.sort_by([("started", "ascending"), ("run_folder", "ascending")])
    changes = []
    for change in find_change_points(rows["value"].to_numpy()):
        (first,) = rows.slice(change.place, 1).to_pylist()
        at = {name: first[name] for name in ("started", "run_folder", "mqlab", "system_version")}
        changes.append({**at, **{name: value for name, value in asdict(change).items() if name != "place"}})
    series = {name: rows[name][0].as_py() for name in _SERIES}
    trend = {**series, "started": rows["started"].to_pylist(), "values": rows["value"].to_pylist(), "changes": changes}
    return pa.Table.from_pylist([trend], schema=_SCHEMA)
