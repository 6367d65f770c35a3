"""The records of a run: the tables that the conductor writes, beside those of the agents."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from mqlab.events import schema
from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.json_values import JsonObject

Row = TypeVar("Row", bound=schema.EventRow)


class RunRecords:
    """Writes events of one run, each table at most once."""

    def __init__(self, folder: RunFolder, run: int) -> None:
        self._folder = folder
        self._run = run
        self._name = run_name(run)

    def write(self, table: type[Row], rows: Sequence[Row]) -> None:
        complete = event_table(table.table, ({"run": self._run, **vars(row)} for row in rows))
        self._folder.write_events(table.table, self._name, complete)

    def write_runs(self, rows: Mapping[int, schema.RunRow]) -> None:
        """Write the rows of several runs, by number, which share the events of this one."""
        table = event_table("runs", ({"run": number, **vars(row)} for number, row in rows.items()))
        self._folder.write_events("runs", self._name, table)

    def write_travel(self, rows: Sequence[JsonObject]) -> None:
        """Write the travel of all roles, as the agents report it."""
        table = event_table("travel", ({"run": self._run, **row} for row in rows))
        self._folder.write_events("travel", self._name, table)

    def write_operations(self, traces: Sequence[pa.Table]) -> None:
        """Write the activity traces of the systems; a system without a trace gets no file."""
        if traces:
            names = [name for name in schema.TABLES["operations"].names if name != "run"]
            operations = pa.concat_tables([trace.select(names) for trace in traces])
            runs = pa.repeat(pa.scalar(self._run, pa.int32()), len(operations))
            self._folder.write_events("operations", self._name, operations.add_column(0, "run", runs))
