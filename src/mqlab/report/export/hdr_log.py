"""The latencies of all points as an HdrHistogram log (format 1.2), which its tools and plotters read.

A line has the histogram of a point on a system over all used runs, in nanoseconds. Its tag names both, and its times
are those of the measure phases of these runs, one point after the other.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from mqlab.report.data.run_results import RunResults
from mqlab.report.export.durations import buckets, duration_kind

_NANOSECONDS: Final = 1e9
_MILLISECONDS: Final = 1e3
# Of the values of a histogram: the buckets of the pipeline are 0.2 % wide.
_DIGITS: Final = 3


def hdr_log(runs: Sequence[RunResults]) -> str:
    lines = ["#[Histogram log format version 1.2]", "#[Values are nanoseconds, Interval_Max milliseconds]"]
    started = _moment(runs[0]) if runs else 0.0
    lines.append(f"#[StartTime: {started:.3f} (seconds since epoch)]")
    lines.append('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
    seconds = 0.0
    for results in runs:
        for tag, length, longest, payload in _histograms(results):
            lines.append(f"Tag={tag},{seconds:.3f},{length:.3f},{longest * _MILLISECONDS:.6f},{payload}")
            seconds += length
    return "\n".join(lines) + "\n"


def _histograms(results: RunResults) -> Iterator[tuple[str, float, float, str]]:
    # The library is needed for this export alone.
    from hdrh.histogram import HdrHistogram

    for point in results.points:
        for system in results.systems:
            histogram = buckets(results, system.name, point)
            if not histogram:
                continue
            place = (system.name, point.scenario, point.name)
            used = sum(run.used for run in results.noise if (run.system, run.scenario, run.point) == place)
            longest = histogram[-1].latency
            encoded = HdrHistogram(1, max(2, round(2 * longest * _NANOSECONDS)), _DIGITS)
            for bucket in histogram:
                encoded.record_value(max(1, round(bucket.latency * _NANOSECONDS)), bucket.count)
            tag = re.sub(r"[\s,]+", "_", f"{system.name}/{point.label}/{duration_kind(point)}")
            yield tag, used * point.phases.measure, longest, encoded.encode().decode("ascii")


def _moment(results: RunResults) -> float:
    """The start of the run in seconds since the epoch; 0 if it is not known."""
    try:
        return datetime.fromisoformat(str(results.meta.get("started"))).timestamp()
    except ValueError:
        return 0.0
