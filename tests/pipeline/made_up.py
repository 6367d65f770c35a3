"""Events made up by hand: a run with two seconds of measure phase, written as the load would write them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import rows_of
from mqlab.events.schema import COMPLETE, CONFIRMED

SECOND = 1_000_000_000
# Clocks that count from the start of a machine are far from zero.
BEGIN = 5_000_000 * SECOND
MEASURE = BEGIN + 1 * SECOND
STOP = BEGIN + 3 * SECOND
END = BEGIN + 4 * SECOND
MIDDLE = BEGIN + 2 * SECOND

Row = dict[str, Any]


@dataclass
class Run:
    """Agent 1 plays the producers, agent 2 the consumers; consumer n of `consumers` has subscription `consumers[n]`."""

    number: int
    scenario: str = "A"
    point: str = ""
    repetition: int = 0
    consumers: Sequence[int] = (0,)
    producers: int = 1
    destinations: int = 1
    status: str = COMPLETE
    reason: str = ""
    # The agents' own counts; None: what the events say.
    counted_sent: int | None = None
    counted_received: int | None = None
    offsets: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    phases: tuple[tuple[str, int, int], ...] = (
        ("warm-up", BEGIN, MEASURE),
        ("measure", MEASURE, STOP),
        ("drain", STOP, END),
    )
    sends: list[Row] = field(default_factory=list)
    receipts: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)

    def send(self, first: int, count: int = 1, planned: int = MIDDLE, outcome: str = CONFIRMED, **more: Any) -> "Run":
        row = {"producer": 0, "destination": 0, "t_sent": planned, "t_confirmed": None, "bytes": 12 * count} | more
        row |= {"agent": 1, "first_seq": first, "count": count, "t_planned": planned, "outcome": outcome}
        self.sends.append(row)
        return self

    def receive(self, first: int, count: int = 1, at: int = MIDDLE, redelivered: bool = False, **more: Any) -> "Run":
        row = {"consumer": 0, "producer": 0, "destination": 0, "bytes": 12 * count} | more
        row["ordinal"] = sum(1 for other in self.receipts if other["consumer"] == row["consumer"])
        row |= {"agent": 2, "first_seq": first, "count": count, "t_received": at, "redelivered": redelivered}
        self.receipts.append(row | {"t_acknowledged": None})
        return self

    def sample(self, source: str, at: int, **counters: Any) -> "Run":
        absent = dict.fromkeys(
            ("syncs", "sync_seconds", "bytes_read", "bytes_written", "depth", "blocked", "holds", "held_seconds")
        )
        self.samples.append({"source": source, "t": at, "cpu_seconds": 0.0, "rss": 0} | absent | counters)
        return self

    def measured(self, rows: list[Row], time: str) -> int:
        """What an agent that knows its offset counts in the measure phase."""
        return sum(r["count"] for r in rows if MEASURE <= r[time] + self.offsets.get(r["agent"], 0) < STOP)

    def tables(self) -> dict[str, list[Row]]:
        sent, received = self.counted_sent, self.counted_received
        everywhere = range(self.destinations)
        run = {
            "study": "made-up", "scenario": self.scenario, "point": self.point, "system": "embedded",
            "repetition": self.repetition, "parameters": "{}", "status": self.status, "reason": self.reason,
            "counted_sent": self.measured(self.sends, "t_sent") if sent is None else sent,
            "counted_received": self.measured(self.receipts, "t_received") if received is None else received,
        }  # fmt: skip
        producers = [
            {"agent": 1, "role": "producer", "number": number, "destination": at, "subscription": 0}
            for number in range(self.producers) for at in everywhere
        ]  # fmt: skip
        consumers = [
            {"agent": 2, "role": "consumer", "number": number, "destination": at, "subscription": subscription}
            for number, subscription in enumerate(self.consumers) for at in everywhere
        ]  # fmt: skip
        return {
            "runs": [run],
            "roles": producers + consumers,
            "sends": self.sends,
            "receipts": self.receipts,
            "samples": self.samples,
            "phases": [{"phase": name, "t_start": start, "t_end": end} for name, start, end in self.phases],
            "clocks": [{"agent": agent, "offset": offset, "error": 0} for agent, offset in self.offsets.items()],
        }


def write(path: Path, runs: Sequence[Run], files: int = 1, seed: int | None = None) -> RunFolder:
    """The runs as one run folder; with a seed, the rows of each table in any order and in any of `files` files."""
    folder = RunFolder(path)
    for part in (path, folder.events, folder.measures):
        part.mkdir(parents=True, exist_ok=True)
    folder.write_meta({"id": path.name, "study": "made-up", "machine": {"cores": 2}})
    tables: dict[str, list[Row]] = {}
    for run in runs:
        for table, rows in run.tables().items():
            tables.setdefault(table, []).extend({"run": run.number, **row} for row in rows)
    for table, rows in tables.items():
        if seed is not None:
            random.Random(seed).shuffle(rows)
        for number in range(files):
            if part_of := rows[number::files]:
                folder.write_events(table, f"part-{number}", rows_of(table, part_of))
    return folder
