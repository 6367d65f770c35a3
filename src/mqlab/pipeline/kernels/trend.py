"""The trend test of Mann and Kendall: whether values that follow each other rise or fall.

Of all pairs of values, as many rise as fall if there is no trend, whatever their distribution; a step in the middle
makes a trend as well. Independent values without a trend give a score above `CRITICAL` in 1 % of all cases; equal
values make that rarer. The slope is that of Theil and Sen: the median of the slopes of all pairs.

H. B. Mann, Nonparametric tests against trend, Econometrica 13 (1945); M. G. Kendall, Rank correlation methods (1955);
P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968).

Executors import this module: they have no package but numpy, pyarrow and pyspark.
"""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.pipeline.kernels.count_keys import NANOSECONDS, SLOT

# The 99.5 % quantile of the normal distribution: 0.5 % on each side.
CRITICAL: Final = 2.576
# The parts of a measure phase whose values are tested.
MOST_PARTS: Final = 20
# A measure phase of fewer has no trend: nothing is known of it.
FEWEST_SLOTS: Final = 10
TRENDS: Final = pa.schema({
    "run": pa.int32(),
    **dict.fromkeys(("rate_score", "rate_change", "backlog_score", "backlog_change"), pa.float64()),
})  # fmt: skip


def is_tested(warmup_s: float, measure_s: float) -> bool:
    """Whether a run with these phases is tested for trends."""
    start = round(warmup_s * NANOSECONDS)
    return _slots(start, start + round(measure_s * NANOSECONDS))[1] >= FEWEST_SLOTS


def _slots(start: int, end: int) -> tuple[int, int]:
    """The first whole slot of a measure phase, and how many there are. The times are those since the load began."""
    first = -(-start // SLOT)
    return first, end // SLOT - first


class MannKendall(NamedTuple):
    """`score`: by how many standard deviations rising and falling pairs differ. `change`: slope x number of values."""

    score: float
    change: float


def trend(values: npt.NDArray[np.float64]) -> MannKendall:
    """The trend of two values or more."""
    count = len(values)
    earlier, later = np.triu_indices(count, 1)
    differences = values[later] - values[earlier]
    # One less: the continuity correction, since the sum is a whole number.
    rising = max(abs(float(np.sign(differences).sum())) - 1, 0)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return MannKendall(rising / deviation, float(np.median(differences / (later - earlier))) * count)


def find_trends(run: pa.Table, activity: pa.Table) -> pa.Table:
    """The trends of the rate and of the backlog of a run, as TRENDS; no row if nothing is known of it.

    `run`: no row, or one with the run's phases and `copies`. `activity`: its counts by slot.
    """
    found = [row for of_run in run.to_pylist() for row in _of_phase(of_run, activity)]
    return pa.Table.from_pylist(found, TRENDS)


def _of_phase(run: dict[str, float], activity: pa.Table) -> list[dict[str, float]]:
    first, slots = _slots(*(int(run[end] - run["load_start"]) for end in ("measure_start", "measure_end")))
    if slots < FEWEST_SLOTS:
        return []
    length = max(slots // MOST_PARTS, 1)
    places = (activity["slot"].to_numpy().astype(np.int64) - first) // length
    parts = int(slots // length)
    within = (places >= 0) & (places < parts)

    def of_parts(name: str) -> npt.NDArray[np.int64]:
        counts = np.zeros(parts, np.int64)
        np.add.at(counts, places[within], activity[name].to_numpy()[within])
        return counts

    sent, received = of_parts("sent"), of_parts("received")
    arrivals = int(received.sum())
    if not arrivals:
        return []
    rate = trend(received / (arrivals / parts))
    # Copies sent less arrivals since the first part began, of all arrivals.
    backlog = trend(np.cumsum(run["copies"] * sent - received) / arrivals)
    return [dict(zip(TRENDS.names, (run["run"], *rate, *backlog), strict=True))]
