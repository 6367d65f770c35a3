"""What belongs to a run as a whole, and how it is written: who took part, its phases, samples, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import rows_of
from mqlab.events.schema import TABLES
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.handle import AgentProcess
from mqlab.study import Point


@dataclass(frozen=True)
class RunOutcome:
    """`counted_*` are the agents' own counts over the measure phase, which took `seconds`."""

    status: str
    reason: str = ""
    counted_sent: int = 0
    counted_received: int = 0
    counted_round_trips: int = 0
    seconds: float = 0.0

    def rate(self, point: Point) -> float:
        """What the repetition rule looks at: what the point is about."""
        counted = {
            "rate.sent": self.counted_sent, "rate.received": self.counted_received,
            "rate.round_trips": self.counted_round_trips,
        }  # fmt: skip
        return counted[point.work] / self.seconds


class RunRecords:
    def __init__(self, folder: RunFolder, run: int) -> None:
        self._folder = folder
        self._run = run

    def clocks(self, agents: Sequence[AgentProcess], clocks: Sequence[tuple[int, int]]) -> None:
        self.write("clocks", [
            {"agent": agent.number, "offset": offset, "error": error}
            for agent, (offset, error) in zip(agents, clocks, strict=True)
        ])  # fmt: skip

    def roles(self, agents: Sequence[AgentProcess], hands: Sequence[Sequence[Role]]) -> None:
        self.write("roles", [
            {"agent": agent.number, **row}
            for agent, hand in zip(agents, hands, strict=True) for role in hand for row in role.rows()
        ])  # fmt: skip

    def operations(self, traced: Sequence[pa.Table]) -> None:
        """As the systems traced them; none if they trace nothing."""
        if traced:
            names = [name for name in TABLES["operations"].names if name != "run"]
            found = pa.concat_tables([table.select(names) for table in traced])
            runs = pa.repeat(pa.scalar(self._run, pa.int32()), len(found))
            self._folder.write_events("operations", self._name, found.add_column(0, "run", runs))

    def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        complete = rows_of(table, ({"run": self._run, **row} for row in rows))
        self._folder.write_events(table, self._name, complete)

    @property
    def _name(self) -> str:
        return f"run-{self._run:05d}"
