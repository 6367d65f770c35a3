"""The results of each point on each system as a file of the OpenMessaging Benchmark, for its chart programs.

The names are those of its class TestResult: rates a second in messages, latencies in milliseconds. Rates are those of
each second of the measure phases. A figure that the lab did not measure is left out.
"""

from collections.abc import Iterator
from typing import Final

from mqlab.json_values import JsonObject
from mqlab.pipeline.schema import RunMeasureRow, SeriesRow
from mqlab.report.data.run_results import RunResults
from mqlab.report.export.durations import buckets, duration_kind, quantile
from mqlab.report.render.formatting import slug
from mqlab.study import Point

_MILLISECONDS: Final = 1e3
# The percentiles of the format, by the end of the name, as shares.
_QUANTILES: Final = {
    "50pct": 0.5, "75pct": 0.75, "95pct": 0.95, "99pct": 0.99, "999pct": 0.999, "9999pct": 0.9999, "99999pct": 0.99999,
}  # fmt: skip
# Those that the pipeline has for each run.
_OF_RUNS: Final = {"50pct": "p50", "99pct": "p99", "999pct": "p99.9", "Max": "max", "Avg": "mean"}


def openmessaging_files(results: RunResults) -> Iterator[tuple[str, JsonObject]]:
    """The name of each file and its content."""
    for point in results.points:
        for system in results.systems:
            if results.has_valid_run(system.name, point):
                name = f"{slug(f'{results.folder.path.name} {point.label} {system.name}')}.json"
                yield name, _test_result(results, system.name, point)


def _test_result(results: RunResults, system: str, point: Point) -> JsonObject:
    place = (system, point.scenario, point.name)
    seconds = [row for row in results.series if _place(row) == place and row.phase == "measure"]
    runs = [row for row in results.run_measures if _place(row) == place]
    senders, receivers = point.producers or point.requesters, point.consumers or point.responders
    return {
        "workload": f"{results.study.id} {point.label}",
        "driver": system,
        "version": next((one.version for one in results.systems if one.name == system), ""),
        "travel": results.travel(system, point),
        "messageSize": point.size,
        "topics": point.destinations,
        "partitions": 1,
        "producersPerTopic": max(1, senders // point.destinations),
        "consumersPerTopic": receivers // point.destinations,
        "publishRate": [row.sent for row in seconds if row.sent is not None],
        "consumeRate": [row.received for row in seconds if row.received is not None],
        "backlog": [round(row.depth) for row in seconds if row.depth is not None],
        **_latencies("publishLatency", "confirm", runs),
        **_latencies("endToEndLatency", duration_kind(point), runs),
        **_aggregated(results, system, point),
    }


def _latencies(name: str, kind: str, runs: list[RunMeasureRow]) -> JsonObject:
    """One value for each run."""
    values = {
        f"{name}{ending}": [_MILLISECONDS * row.value for row in runs if row.metric == f"{kind}.{statistic}"]
        for ending, statistic in _OF_RUNS.items()
    }
    return {key: of_runs for key, of_runs in values.items() if of_runs}


def _aggregated(results: RunResults, system: str, point: Point) -> JsonObject:
    """Over all used runs, by the pipeline's histogram."""
    histogram = buckets(results, system, point)
    if not histogram:
        return {}
    name, kind = "aggregatedEndToEndLatency", duration_kind(point)
    ends = {"Avg": "mean", "Max": "max"}
    means = {ending: results.measure(system, point, f"{kind}.{one}") for ending, one in ends.items()}
    shares = {ending: _MILLISECONDS * quantile(histogram, share) for ending, share in _QUANTILES.items()}
    return {
        **{f"{name}{ending}": value for ending, value in shares.items()},
        **{f"{name}{ending}": _MILLISECONDS * measure.value for ending, measure in means.items() if measure},
        f"{name}Quantiles": {f"{100 * share:g}": shares[ending] for ending, share in _QUANTILES.items()},
    }


def _place(row: SeriesRow | RunMeasureRow) -> tuple[str, str, str]:
    return row.system, row.scenario, row.point
