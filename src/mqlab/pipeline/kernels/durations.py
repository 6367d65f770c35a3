"""The figures of the durations of a run from its histograms, in columns: percentiles, exact maximum and exact mean.

Executors import this module: they have no package but numpy, pyarrow and pyspark.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.pipeline.kernels.count_keys import NANOSECONDS
from mqlab.pipeline.kernels.histogram import GROWTH

# The kinds of durations, by the table of their counts.
KINDS: Final = {"deliveries": "latency", "round trips": "response", "confirmations": "confirm"}
FIGURES: Final = pa.schema({"run": pa.int32(), "metric": pa.string(), "value": pa.float64()})


def find_durations(histograms: pa.Table, per_mille: Mapping[str, int]) -> pa.Table:
    """From the rows (run, counts, bucket, messages, nanoseconds, longest) of one run to KIND.NAME, in seconds.

    A percentile is the upper edge of the first bucket that reaches the share; never above the longest duration.
    """
    found = []
    for table, kind in KINDS.items():
        histogram = histograms.filter(pc.equal(histograms["counts"], table))
        if len(histogram):
            run = histogram["run"][0].as_py()
            found += [(run, f"{kind}.{name}", value) for name, value in _figures(histogram, per_mille)]
    return pa.Table.from_pylist([dict(zip(FIGURES.names, row, strict=True)) for row in found], FIGURES)


def _figures(histogram: pa.Table, per_mille: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    buckets, place = np.unique(histogram["bucket"].to_numpy(), return_inverse=True)
    messages = np.zeros(len(buckets), np.int64)
    np.add.at(messages, place, histogram["messages"].to_numpy())
    cumulated, longest = np.cumsum(messages), pc.max(histogram["longest"]).as_py()
    total = int(cumulated[-1])
    for name, share in per_mille.items():
        bucket = buckets[np.searchsorted(cumulated * 1000, total * share)]
        yield name, min(GROWTH ** float(bucket), float(longest)) / NANOSECONDS
    yield "max", longest / NANOSECONDS
    yield "mean", float(pc.sum(histogram["nanoseconds"]).as_py()) / total / NANOSECONDS
