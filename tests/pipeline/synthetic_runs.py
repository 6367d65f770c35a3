"""Synthetic events: a run with two seconds of measure phase, written as the agents would write them."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.events.schema import COMPLETE, CONFIRMED
from table_rows import Row

SECOND = 1_000_000_000
# Clocks that count from the start of a machine are far from zero.
BEGIN = 5_000_000 * SECOND
MEASURE = BEGIN + 1 * SECOND
STOP = BEGIN + 3 * SECOND
END = BEGIN + 4 * SECOND
MIDDLE = BEGIN + 2 * SECOND


_UNDISTURBED: Row = {
    "seconds": 2.0, "cores": 2, "steal_seconds": 0.0, "foreign_seconds": 0.0, "foreign_name": "",
    "cpu_wait_seconds": 0.5, "memory_wait_seconds": 0.0, "disk_wait_seconds": None, "clock_hz": 2.5e9, "disturbed": "",
}  # fmt: skip


def _calibration(size: int, message: float, pattern: str = "one-way", send: str = "free", **more: object) -> Row:
    costs = {"sent_call": 0.1, "sent_message": message, "received_call": 0.1, "received_message": message}
    return {"pattern": pattern, "send": send, "transacted": False, "size": size, **costs, **more}


# Seconds of the lab's own work: for ten messages in one call just less, or just more, than 0.2.
CALIBRATIONS = [
    *(_calibration(12, 0.0099, send=send) for send in ("free", "confirmed")),
    *(_calibration(13, 0.0101, send=send) for send in ("free", "confirmed")),
    _calibration(12, 0.0099, transacted=True),
    _calibration(1024, 0.0, pattern="request-reply", received_call=0.08),
]


class RunValues(TypedDict, total=False):
    """The values of a run that a test chooses."""

    scenario: str
    point: str
    system: str
    declared: dict[str, object]
    repetition: int
    status: str
    reason: str
    machine: Row | None
    counted_sent: int | None
    counted_received: int | None
    counted_round_trips: int | None
    offsets: dict[int, int]
    clock_error: int
    phases: tuple[tuple[str, int, int], ...]


class OneWayValues(RunValues, total=False):
    """The same of a run without round trips."""

    consumers: Sequence[int]
    producers: int
    destinations: int


@dataclass
class Run:
    """Agent 1 plays the producers, agent 2 the consumers; consumer n of `consumers` has subscription `consumers[n]`.

    Requesters and responders are both, on a queue: agent 1 plays the requesters, agent 2 the responders.
    """

    number: int
    scenario: str = "A"
    point: str = ""
    system: str = "embedded"
    declared: dict[str, object] = field(default_factory=dict)  # what the point says beyond the defaults
    repetition: int = 0
    consumers: Sequence[int] = (0,)
    producers: int = 1
    destinations: int = 1
    status: str = COMPLETE
    reason: str = ""
    # Columns of its row in the table `machine`; None: the machine was not watched.
    machine: Row | None = None
    # The agents' own counts; None: what the events say.
    counted_sent: int | None = None
    counted_received: int | None = None
    counted_round_trips: int | None = None
    offsets: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    clock_error: int = 0  # of each agent's offset
    phases: tuple[tuple[str, int, int], ...] = (
        ("warm-up", BEGIN, MEASURE),
        ("measure", MEASURE, STOP),
        ("drain", STOP, END),
    )
    sends: list[Row] = field(default_factory=list)
    receipts: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    round_trips: list[Row] = field(default_factory=list)
    operations: list[Row] = field(default_factory=list)
    travel: list[Row] = field(default_factory=list)
    faults: list[Row] = field(default_factory=list)
    # The slices, if the lab switched between settings; what the rows of the further runs have of their own, by number.
    switches: list[Row] = field(default_factory=list)
    sharing: dict[int, Row] = field(default_factory=dict)
    _ordinals: Counter[int] = field(default_factory=Counter)
    _replies: Counter[int] = field(default_factory=Counter)

    @classmethod
    def asking(cls, number: int, requesters: int = 1, responders: int = 1, **values: Unpack[RunValues]) -> "Run":
        """A run of round trips: requests go to destination 0, replies to 1. Responders come after the requesters."""
        everybody = requesters + responders
        values["declared"] = {"pattern": "request-reply", "size": 1024} | values.get("declared", {})
        return cls(number, consumers=(0,) * everybody, producers=everybody, destinations=2, **values)

    def send(
        self, first: int, count: int = 1, planned: int = MIDDLE, outcome: str = CONFIRMED, **more: object
    ) -> "Run":
        row = {"agent": 1, "producer": 0, "destination": 0, "t_sent": planned, "t_confirmed": None} | more
        row |= {"first_seq": first, "count": count, "bytes": 12 * count, "t_planned": planned, "outcome": outcome}
        self.sends.append(row)
        return self

    def receive(self, first: int, count: int = 1, at: int = MIDDLE, redelivered: bool = False, **more: object) -> "Run":
        row: Row = {"agent": 2, "consumer": 0, "producer": 0, "destination": 0, "bytes": 12 * count, "damaged": 0}
        row |= more | {"first_seq": first, "count": count, "t_received": at, "redelivered": redelivered}
        self.receipts.append(row | {"ordinal": self._ordinals[row["consumer"]], "t_acknowledged": None})
        self._ordinals[row["consumer"]] += 1
        return self

    def ask(
        self, seq: int, planned: int, after: int, requester: int = 0, responder: int = 1, lost: str = "",
        mismatched: bool = False,
    ) -> "Run":  # fmt: skip
        """One round trip, on the clocks of its agents; `lost` is "request" or "reply", confirmed but never received."""
        there = planned + after // 2 + self.offsets[1] - self.offsets[2]
        self.send(seq, 1, planned, producer=requester, destination=0)
        if lost != "request":
            reply = self._replies[responder]
            self._replies[responder] += 1
            self.receive(seq, 1, there, consumer=responder, producer=requester, destination=0)
            self.send(reply, 1, there, agent=2, producer=responder, destination=1)
            if not lost:
                back = planned + after
                self.receive(reply, 1, back, agent=1, consumer=requester, producer=responder, destination=1)
        times = {"t_planned": planned, "t_sent": planned, "t_received": None if lost else planned + after}
        self.round_trips.append({"agent": 1, "requester": requester, "seq": seq, "mismatched": mismatched} | times)
        return self

    def operate(self, application: str, operation: str, at: int, duration: int, **more: object) -> "Run":
        row = {"connection": 1, "destination": "queue:q", "messages": 1, "bytes": 12, "code": "ok"} | more
        row |= {"application": application, "operation": operation, "t": at, "duration": duration}
        self.operations.append(row)
        return self

    def moved(self, records: int, messages: int, frames: int | None, waits: int) -> "Run":
        """How the messages travelled: what the producer sent, the consumer received."""
        counts = {"records": records, "messages": messages, "frames": frames}
        for role, agent, own, other in (("producer", 1, "sent", "received"), ("consumer", 2, "received", "sent")):
            moved = {f"{own}_{name}": count for name, count in counts.items()}
            row = {**moved, **{f"{other}_{name}": 0 for name in counts}, "waits": waits if own == "sent" else 0}
            self.travel.append({"agent": agent, "role": role, "number": 0, **row})
        return self

    def fault(self, start: int, end: int | None, kind: str = "kill") -> "Run":
        row = {"number": len(self.faults) + 1, "kind": kind, "fault": f"{kind} at 1s", "t_planned": start}
        self.faults.append(row | {"t_start": start, "t_end": end})
        return self

    def switch(self, setting_run: int, asked: int, counted: int) -> "Run":
        """A slice in which events count for that run from `counted` on, until the next one is asked for."""
        number = len(self.switches) + 1
        row = {"number": number, "setting_run": setting_run, "t_asked": asked, "t_confirmed": counted}
        self.switches.append(row | {"t_counted": counted})
        return self

    def sample(self, source: str, at: int, **counters: object) -> "Run":
        absent = dict.fromkeys(
            ("syncs", "sync_seconds", "bytes_read", "bytes_written", "depth", "blocked", "holds", "held_seconds")
        )
        self.samples.append({"source": source, "t": at, "cpu_seconds": 0.0, "rss": 0} | absent | counters)
        return self

    def measured(self, rows: list[Row], time: str) -> int:
        """What an agent that knows its offset counts in the measure phase."""
        return sum(
            r.get("count", 1)
            for r in rows
            if r[time] is not None and MEASURE <= r[time] + self.offsets.get(r["agent"], 0) < STOP
        )

    def tables(self) -> dict[str, list[Row]]:
        sent, received, back = self.counted_sent, self.counted_received, self.counted_round_trips
        everywhere = range(self.destinations)
        run = {
            "study": "made-up", "scenario": self.scenario, "point": self.point, "system": self.system,
            "repetition": self.repetition, "parameters": json.dumps(self.declared),
            "status": self.status, "reason": self.reason,
            "counted_sent": self.measured(self.sends, "t_sent") if sent is None else sent,
            "counted_received": self.measured(self.receipts, "t_received") if received is None else received,
            "counted_round_trips": self.measured(self.round_trips, "t_received") if back is None else back,
            "events_of": self.number if self.sharing else None,
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
            "runs": [run] + [run | {"run": number} | own for number, own in self.sharing.items()],
            "switches": self.switches,
            "roles": producers + consumers,
            "sends": self.sends,
            "receipts": self.receipts,
            "samples": self.samples,
            "round_trips": self.round_trips,
            "operations": self.operations,
            "phases": [{"phase": name, "t_start": start, "t_end": end} for name, start, end in self.phases],
            "travel": self.travel,
            "faults": self.faults,
            "machine": [] if self.machine is None else [_UNDISTURBED | self.machine],
            "clocks": [
                {"agent": agent, "offset": offset, "error": self.clock_error} for agent, offset in self.offsets.items()
            ],
        }


def write(path: Path, runs: Sequence[Run], files: int = 1, seed: int | None = None) -> RunFolder:
    """The runs as one run folder; with a seed, the rows of each table in any order and in any of `files` files."""
    folder = RunFolder(path)
    for part in (path, folder.events, folder.measures):
        part.mkdir(parents=True, exist_ok=True)
    folder.write_meta({"id": path.name, "study": "made-up", "machine": {"cores": 2}, "calibrations": CALIBRATIONS})
    tables: dict[str, list[Row]] = {}
    for run in runs:
        for table, rows in run.tables().items():
            tables.setdefault(table, []).extend({"run": run.number, **row} for row in rows)
    for table, rows in tables.items():
        if seed is not None:
            random.Random(seed).shuffle(rows)
        for number in range(files):
            if part_of := rows[number::files]:
                folder.write_events(table, f"part-{number}", event_table(table, part_of))
    return folder


def write_by_run(folder: RunFolder, runs: Iterable[Run]) -> None:
    """Each run in event files of its own, as the lab writes them."""
    for run in runs:
        for table, rows in run.tables().items():
            if rows:
                numbered = event_table(table, ({"run": run.number, **row} for row in rows))
                folder.write_events(table, run_name(run.number), numbered)
