"""The preparation of a system before its runs: the sync check and the warm-up. Neither is part of a run."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mqlab.json_values import JsonObject
from mqlab.runner.agents.handle import AgentHandle
from mqlab.runner.checks.sync_check import check_syncs
from mqlab.runner.checks.warmup import Warmup
from mqlab.study import Point
from mqlab.systems import Running, System


class SystemPreparation:
    """`entries`: those of the systems in meta.json, by label; they keep what was seen."""

    def __init__(self, data: Path) -> None:
        self.entries: dict[str, JsonObject] = {}
        self._data = data
        self._warmup = Warmup(data)

    async def prepare(
        self, point: Point, system: System, running: Running, agents: Sequence[AgentHandle],
        watch: Callable[[float], None],
    ) -> None:  # fmt: skip
        """Do what is due before a run of the point. `watch` is called with the seconds of each warm-up."""
        entry = self.entries[system.label]
        if point.persistent:
            await self._check_syncs(system, running, agents[0], entry)
        if self._warmup.is_due(point, system, running):
            await self._warmup.play(point, system, running, agents, lambda _, seconds: watch(seconds))
            entry["rehearsals"] = self._warmup.played.get(system.label, 0)

    async def _check_syncs(self, system: System, running: Running, agent: AgentHandle, entry: JsonObject) -> None:
        """Once for each system, before its first persistent run: does it sync before it confirms?"""
        if "witnessed" not in entry:
            result = await check_syncs(system, running, agent, self._data / "calls")
            entry["witnessed"] = str(result)
            if result.is_early and system.durability().syncs == "before confirming":
                entry["stamps"].append("confirms before it syncs, as was seen")
