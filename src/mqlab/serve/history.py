"""The history of the runs for the page: the trends of one metric of one study, with their change points."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from mqlab.json_values import JsonObject
from mqlab.pipeline.history.dataset import SCHEMA, history_of
from mqlab.pipeline.history.trends import Trend, trends_of
from mqlab.report.render import formatting

DEFAULT_METRIC: Final = "rate.work"
# The trends that an answer has, those with changes first.
_MOST_TRENDS: Final = 200


def history(runs: Path, study: str, metric: str) -> JsonObject:
    """Those of `study` and `metric` ("": the first study, and the rate), and the names of all others."""
    rows = _rows(runs)
    studies = sorted({*rows["study"].to_pylist()})
    study = study if study in studies else (studies or [""])[0]
    of_study = rows.filter(pc.equal(rows["study"], study))
    metrics = sorted({*of_study["metric"].to_pylist()})
    metric = metric if metric in metrics else DEFAULT_METRIC if DEFAULT_METRIC in metrics else (metrics or [""])[0]
    found = trends_of(of_study.filter(pc.equal(of_study["metric"], metric)))
    found.sort(key=lambda trend: -len(trend.changes))
    return {
        "studies": studies, "study": study, "metrics": metrics, "metric": metric, "found": len(found),
        "trends": [_as_json(trend) for trend in found[:_MOST_TRENDS]],
    }  # fmt: skip


def _rows(runs: Path) -> pa.Table:
    files = sorted(str(file) for file in history_of(runs).glob("[!.]*.parquet"))
    if not files:
        return SCHEMA.empty_table()
    return ds.dataset(files, schema=SCHEMA, format="parquet").to_table()


def _as_json(trend: Trend) -> JsonObject:
    return {
        **{name: getattr(trend, name) for name in ("scale", "system", "scenario", "point", "unit", "machine")},
        "values": list(trend.values),
        "last": formatting.quantity(trend.values[-1], trend.unit),
        "changes": _changes(trend),
    }


def _changes(trend: Trend) -> Sequence[JsonObject]:
    changes = []
    for change in trend.changes:
        values = asdict(change)
        percent = 100 * (change.after / change.before - 1) if change.before else None
        place = trend.started.index(change.started)
        changes.append({
            **{name: values[name] for name in ("run_folder", "mqlab", "system_version")},
            "started": change.started.isoformat(), "percent": percent, "place": place, "is": trend.judge(change),
        })  # fmt: skip
    return changes
