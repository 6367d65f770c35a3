"""The CPU time of a run by its samples, as far as the choice of further runs needs it. Reports have the pipeline's."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

_BROKER = "broker"


class CpuUse(NamedTuple):
    """`broker`: all brokers, in percent of a core; `cores`: those that brokers and agents used. 0: not known."""

    broker: float = 0.0
    cores: float = 0.0


UNSAMPLED: Final = CpuUse()


def cpu_use(samples: Sequence[Mapping[str, Any]], edges: Sequence[int]) -> CpuUse:
    """In the slices that begin and end at each two of the edges: those of a setting, or one measure phase.

    `samples`: rows of the table of that name.
    """
    used: dict[str, float] = {}
    for source, rows in groupby(sorted(samples, key=lambda row: (row["source"], row["t"])), lambda row: row["source"]):
        moments = [(row["t"], row["cpu_seconds"]) for row in rows]
        seconds = nanoseconds = 0.0
        for start, end in [*pairwise(edges)][::2]:
            inside = [moment for moment in moments if start <= moment[0] < end]
            if inside:
                nanoseconds += inside[-1][0] - inside[0][0]
                seconds += inside[-1][1] - inside[0][1]
        if nanoseconds:
            used[source] = seconds / nanoseconds * 1e9
    brokers = [share for source, share in used.items() if source.partition("-")[0] == _BROKER]
    return CpuUse(100 * sum(brokers), sum(used.values()) if brokers else 0.0)
