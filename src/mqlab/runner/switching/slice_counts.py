"""Counts of the slices of each setting, from the recorded events of a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.events.checksums import EventFile
from mqlab.events.folder import RunFolder
from mqlab.events.slices import total_ns, within
from mqlab.runner.agents.handle import BrokenRunError

# The time by which an event counts, by table.
_TIMES: Final = {"sends": "t_sent", "receipts": "t_received", "round_trips": "t_received"}


class SliceCounts(NamedTuple):
    """The events in the slices of one setting, which have `seconds` in all."""

    counted_sent: int
    counted_received: int
    counted_round_trips: int
    seconds: float


class WholePhase(NamedTuple):
    """The measure phase [start, end), and the agents' own counts in it: sends, receipts and round trips."""

    start: int
    end: int
    counted: tuple[int, int, int]


def count_slices(
    folder: RunFolder, run: int, offsets: Mapping[int, int], edges: Mapping[int, Sequence[int]], whole: WholePhase
) -> dict[int, SliceCounts]:
    """Count the recorded events of the run by their slices, for each key of `edges`.

    `offsets`: those of the agents' clocks. A setting has no seconds if each switch to it took longer than its slice.
    Raises BrokenRunError if agents and events disagree.
    """
    counts = {number: [0, 0, 0] for number in edges}
    recorded = [0, 0, 0]
    for place, (table, time) in enumerate(_TIMES.items()):
        for rows in _read(folder, run, table, time):
            agents, agent_of_row = np.unique(rows["agent"].to_numpy(), return_inverse=True)
            offset = np.array([offsets.get(agent, 0) for agent in agents.tolist()], np.int64)
            times = rows[time].to_numpy() + offset[agent_of_row]
            weights = rows["count"].to_numpy() if "count" in rows.column_names else np.ones(len(rows), np.int64)
            recorded[place] += int(weights[within(times, (whole.start, whole.end))].sum())
            for number, of_run in edges.items():
                counts[number][place] += int(weights[within(times, of_run)].sum())
    if tuple(recorded) != whole.counted:
        raise BrokenRunError(f"the agents counted {whole.counted} sends, receipts, round trips, the events {recorded}")
    return {
        number: SliceCounts(sent, received, round_trips, total_ns(edges[number]) / 1e9)
        for number, (sent, received, round_trips) in counts.items()
    }


def _read(folder: RunFolder, run: int, table: str, time: str) -> Iterator[pa.Table]:
    columns = ["agent", time] if table == "round_trips" else ["agent", time, "count"]
    for path in folder.event_files(table):
        if EventFile(path, "").run == run:
            # A request without a reply has no time.
            rows = pq.read_table(path, columns=columns).drop_null()
            if len(rows):
                yield rows
