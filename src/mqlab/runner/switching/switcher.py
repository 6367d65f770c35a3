"""The switcher: switches a running system between the settings of several points, and records the moments."""

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from mqlab.events.schema import SwitchRow
from mqlab.events.slices import GUARD_SHARE, Switch, slice_edges
from mqlab.runner.timeline import Timeline, alongside, sleep_until
from mqlab.study import Point
from mqlab.study.rounds.switching import slice_order
from mqlab.systems import Running, SwitchMoments, System

Result = TypeVar("Result")
# The share of a slice that counts at least.
LEAST_SHARE: Final = 1 / 2


@dataclass(frozen=True)
class SwitchedRun:
    """One of the runs that share the events of the first: its number, its point, and the system with its settings."""

    number: int
    point: Point
    system: System


class Switcher:
    """Switches the brokers between the settings of the runs; `point` has the phases of the run that they share."""

    def __init__(
        self, runs: Sequence[SwitchedRun], point: Point, brokers: Collection[Running], repetition: int
    ) -> None:
        self.rows: list[SwitchRow] = []
        self._runs = runs
        self._brokers = brokers
        self._slice_ns = round(point.switch * 1e9)
        blocks = max(1, round(point.phases.measure / (point.switch * len(runs))))
        order = slice_order(len(runs), blocks, f"{point.label} {repetition}")
        self._planned = [runs[place] for place in order]

    async def prepare(self) -> None:
        """Switch to each setting once, so that a bad one is found before the load, and then to that of the first slice.

        Raises SystemFailedError.
        """
        for run in (*self._runs, self._planned[0]):
            moments = await self._switch(run)
        self._add(self._planned[0], moments)

    async def during(self, work: Awaitable[Result], timeline: Timeline) -> Result:
        """Switch while the work is under way; return its result. Raises what the work raises, and SystemFailedError."""
        return await alongside(work, self._switch_all(timeline))

    def edges(self, timeline: Timeline) -> dict[int, list[int]]:
        """The edges of the slices of each run, as `slice_edges` has them."""
        switches = [Switch(row.setting_run, row.t_asked, row.t_counted) for row in self.rows]
        return slice_edges(switches, timeline.measure, timeline.stop)

    async def _switch_all(self, timeline: Timeline) -> None:
        (first,) = self.rows
        counted = timeline.measure + round(GUARD_SHARE * self._slice_ns)
        self.rows = [replace(first, t_counted=counted)]
        for number, run in enumerate(self._planned[1:], 1):
            # After a slow switch the slice begins late: the next ones wait, or slices would have no time that counts.
            slice_end = self.rows[-1].t_counted + round(LEAST_SHARE * self._slice_ns)
            moment = max(timeline.measure + number * self._slice_ns, slice_end)
            if moment < timeline.stop or all(row.setting_run != run.number for row in self.rows):
                # Every setting has a row, too late for any slice at the worst.
                await sleep_until(min(moment, timeline.stop))
                self._add(run, await self._switch(run))

    async def _switch(self, run: SwitchedRun) -> SwitchMoments:
        moments = [await broker.switch(run.system) for broker in self._brokers]
        return SwitchMoments(min(each.asked for each in moments), max(each.confirmed for each in moments))

    def _add(self, run: SwitchedRun, moments: SwitchMoments) -> None:
        counted = moments.confirmed + round(GUARD_SHARE * self._slice_ns)
        self.rows.append(SwitchRow(
            number=len(self.rows) + 1, setting_run=run.number, t_asked=moments.asked, t_confirmed=moments.confirmed,
            t_counted=counted,
        ))  # fmt: skip
