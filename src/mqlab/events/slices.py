"""Slices of a run between whose settings the lab switched: which moments count for which setting.

The runner counts by them for its next decisions, and the pipeline for all figures.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

# The first part of a slice counts for no setting: what the former one has begun comes to its end, and the new one
# comes to its usual work.
GUARD_SHARE: Final = 1 / 4


class Switch(NamedTuple):
    """The lab asked for the settings of the run `setting_run` at `asked`; from `counted` on, events count for it."""

    setting_run: int
    asked: int
    counted: int


def slice_edges(switches: Iterable[Switch], start: int, end: int) -> dict[int, list[int]]:
    """The begin and the end of each slice of each setting, in their order, within the measure phase [start, end).

    A moment counts for a setting if an odd number of its edges is at or before it. A setting that came in force too
    late for any slice has one of no length: without edges all of the phase would count.
    """
    ordered = sorted(switches, key=lambda switch: switch.counted)
    edges: dict[int, list[int]] = {switch.setting_run: [] for switch in ordered}
    for switch, asked in zip(ordered, [*(switch.asked for switch in ordered[1:]), end], strict=True):
        begin, stop = max(switch.counted, start), min(asked, end)
        if begin < stop:
            edges[switch.setting_run] += [begin, stop]
    return {setting: slices or [end, end] for setting, slices in edges.items()}


def within(times: npt.NDArray[Any], edges: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether each moment is within one of the slices."""
    passed = np.searchsorted(np.array(edges, np.int64), times, side="right")
    return np.asarray(passed % 2 == 1)


def total_ns(edges: Sequence[int]) -> int:
    return sum(edges[1::2]) - sum(edges[::2])
