"""The histogram of the durations of a point: latencies of messages, or response times of requests."""

from collections.abc import Sequence

from mqlab.pipeline.schema import LatencyRow
from mqlab.report.data.run_results import RunResults
from mqlab.study import Point


def duration_kind(point: Point) -> str:
    """The metrics of these durations begin so."""
    return "response" if point.pattern == "request-reply" else "latency"


def buckets(results: RunResults, system: str, point: Point) -> list[LatencyRow]:
    """Sorted by duration; [] if none was measured."""
    table = results.responses if point.pattern == "request-reply" else results.latencies
    place = (system, point.scenario, point.name)
    return [bucket for bucket in table if (bucket.system, bucket.scenario, bucket.point) == place]


def quantile(histogram: Sequence[LatencyRow], share: float) -> float:
    """The upper edge of the first bucket that reaches the share: as the pipeline finds a percentile."""
    total = sum(bucket.count for bucket in histogram)
    below = 0
    for bucket in histogram:
        below += bucket.count
        if below >= share * total:
            return bucket.latency
    return histogram[-1].latency
