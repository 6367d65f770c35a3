"""The injector: brings about the planned faults of a run, each at its moment, undoes them, and records both."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final, TypeVar

from mqlab.events.schema import FaultRow
from mqlab.runner.faults.line import ControlledLine
from mqlab.runner.faults.proxy import LineState
from mqlab.runner.sampler import Sampler
from mqlab.runner.timeline import Timeline, alongside, now, sleep_until
from mqlab.study import Point
from mqlab.study.language.faults import Fault
from mqlab.systems import Running

Result = TypeVar("Result")
WHOLE: Final = LineState()


def has_line_faults(point: Point) -> bool:
    return any(fault.target == "line" for fault in point.planned_faults)


class FaultInjector:
    """The faults of one run of a point. `line` is needed for faults of the line."""

    def __init__(self, point: Point, broker: Running, line: ControlledLine | None, sampler: Sampler) -> None:
        self.rows: list[FaultRow] = []
        self._broker = broker
        self._line = line
        self._sampler = sampler
        measure_s = point.phases.measure
        planned = [(moment, fault) for fault in point.planned_faults for moment in fault.moments(measure_s)]
        self._planned = sorted(planned, key=lambda each: each[0])

    async def during(self, work: Awaitable[Result], timeline: Timeline) -> Result:
        """Bring about the faults while the work is under way; return its result.

        All are undone when it returns. Raises what the work raises, SystemFailedError and BrokenRunError.
        """
        return await alongside(work, self._inject_all(timeline))

    async def _inject_all(self, timeline: Timeline) -> None:
        for number, (moment, fault) in enumerate(self._planned, 1):
            planned = timeline.measure + round(moment * 1e9)
            await sleep_until(planned)
            self._sampler.is_fault = fault.target == "process"
            row = FaultRow(
                number=number, kind=fault.kind, fault=fault.text, t_planned=planned, t_start=now(), t_end=None
            )
            self.rows.append(row)
            await self._disturb(fault)
            self.rows[-1] = replace(row, t_end=now())
            self._sampler.is_fault = False

    async def _disturb(self, fault: Fault) -> None:
        """Bring the fault about and undo it."""
        disturb = {
            "process": self._disturb_process, "line": self._disturb_line, "disk": self._fill_disk,
            "syncs": self._delay_syncs,
        }  # fmt: skip
        await disturb[fault.target](fault)

    async def _fill_disk(self, fault: Fault) -> None:
        disk = self._broker.disk
        assert disk is not None
        try:
            await disk.fill()
            await asyncio.sleep(fault.for_s)
        finally:
            await disk.free()

    async def _delay_syncs(self, fault: Fault) -> None:
        try:
            self._broker.delay_syncs(fault.amount)
            await asyncio.sleep(fault.for_s)
        finally:
            self._broker.delay_syncs(0.0)

    async def _disturb_process(self, fault: Fault) -> None:
        broker = self._broker
        if fault.kind == "stop":
            broker.suspend()
            try:
                await asyncio.sleep(fault.for_s)
            finally:
                broker.resume()
            return
        if fault.kind == "kill":
            broker.kill()
        else:
            await broker.shut_down()
        await asyncio.sleep(fault.for_s)
        await broker.start_again()

    async def _disturb_line(self, fault: Fault) -> None:
        assert self._line is not None
        states = {
            "cut": LineState(passes=False), "reset": LineState(accepts=False),
            "slow": LineState(delay_s=fault.amount), "lossy": LineState(loss=fault.amount),
        }  # fmt: skip
        await self._line.change(states[fault.kind])
        await asyncio.sleep(fault.for_s)
        await self._line.change(WHOLE)
