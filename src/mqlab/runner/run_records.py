"""The events of a run as a whole: roles, clocks, phases, samples, operations, and the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import event_table
from mqlab.events.schema import TABLES, EventRow
from mqlab.study import Point

Row = TypeVar("Row", bound=EventRow)


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
        """The rate that the repetition rule of the point looks at."""
        counted = {
            "rate.sent": self.counted_sent, "rate.received": self.counted_received,
            "rate.round_trips": self.counted_round_trips,
        }  # fmt: skip
        return counted[point.work] / self.seconds


class RunRecords:
    """Writes events of one run, each table at most once."""

    def __init__(self, folder: RunFolder, run: int) -> None:
        self._folder = folder
        self._run = run
        self._name = f"run-{run:05d}"

    def write(self, table: type[Row], rows: Sequence[Row]) -> None:
        complete = event_table(table.table, ({"run": self._run, **vars(row)} for row in rows))
        self._folder.write_events(table.table, self._name, complete)

    def write_operations(self, traces: Sequence[pa.Table]) -> None:
        """Write the activity traces of the systems; without a trace there is no file."""
        if traces:
            names = [name for name in TABLES["operations"].names if name != "run"]
            operations = pa.concat_tables([trace.select(names) for trace in traces])
            runs = pa.repeat(pa.scalar(self._run, pa.int32()), len(operations))
            self._folder.write_events("operations", self._name, operations.add_column(0, "run", runs))
