"""Run folders of any size with known faults, written as the agents would write them, in bounded memory.

Ranges have 20 messages on average, and those of sends and receipts are cut apart from each other. Two queues have two
producers and two consumers each. Faults lie far from each other, so that the generator knows what an audit must find.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.events.schema import COMPLETE, CONFIRMED, DRAIN, FAILED, MEASURE, OUTCOMES, TABLES, UNKNOWN, WARM_UP

Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = dict[str, Array]

MEAN_RANGE = 20
_SECOND = 1_000_000_000
_BEGIN = 1_000 * _SECOND
# A run sends so many messages a second, and its first and last tenth are not measured.
_RATE = 10_000_000
_QUEUES = 2
_PAIRS = 2  # producers of a queue, and consumers
# Messages that one producer sends until the agents write a file.
_CHUNK = 6_000_000
_FAULTS_A_CHUNK = 40
# Faults are at least so many rows apart, and a row that is out of order comes so many rows later.
_APART, _DELAY = 20, 6
# Agents 1 and 2 play the producers of a queue each, agents 3 and 4 the consumers.
_OFFSETS = {1: 0, 2: 12_345, 3: -777_777, 4: 5_000_000}
_CLOCK_ERROR = 1_000


class SyntheticRun(NamedTuple):
    """A run with some kinds of faults, and its share of all messages."""

    name: str
    share: float
    faults: tuple[str, ...]


RUNS = (
    SyntheticRun("clean", 0.5, ("duplicated_marked", "recovered")),
    SyntheticRun("failed", 0.4, ("lost", "duplicated", "duplicated_marked", "recovered", "out_of_order", "unexpected")),
    SyntheticRun("damaged", 0.05, ("damaged",)),
    SyntheticRun("missing", 0.05, ("missing",)),
)
# Faults of rows of sends; all others are of receipts. They lie in different halves of a chunk.
_OF_SENDS = ("recovered", "unexpected", "missing")
_OF_RECEIPTS = ("lost", "duplicated", "duplicated_marked", "out_of_order", "held back", "damaged")


def write_events(
    path: Path, messages: int, runs: Sequence[SyntheticRun] = RUNS, seed: int = 1
) -> tuple[RunFolder, dict[int, Counter[str]]]:
    """Write a folder with these runs; return it, and what the audit must find in each run."""
    folder = RunFolder(path)
    for part in (path, folder.events, folder.measures):
        part.mkdir(parents=True, exist_ok=True)
    folder.write_meta({"id": path.name, "study": "synthetic", "machine": {"cores": 2}})
    found = {
        number: _Writer(folder, number, run, round(messages * run.share / _QUEUES / _PAIRS), seed).write()
        for number, run in enumerate(runs, 1)
    }
    return folder, found


class _Writer:
    def __init__(self, folder: RunFolder, number: int, run: SyntheticRun, messages: int, seed: int) -> None:
        """`messages`: of each producer."""
        self._folder, self._number, self._run, self._messages = folder, number, run, messages
        self._chance = np.random.default_rng([seed, number])
        self._pace = _SECOND * _QUEUES * _PAIRS / _RATE
        length = round(messages * self._pace)
        self._phases = [_BEGIN, _BEGIN + length // 10, _BEGIN + length * 9 // 10, _BEGIN + length + _SECOND]
        self._found: Counter[str] = Counter()
        self._files = 0
        self._ordinals = [0] * (_QUEUES * _PAIRS)
        self._held_back: list[Columns] = []

    def write(self) -> Counter[str]:
        for begin in range(0, self._messages, _CHUNK):
            for queue in range(_QUEUES):
                self._write_chunk(queue, begin, min(begin + _CHUNK, self._messages))
        for queue in range(_QUEUES):
            rows = [rows for rows in self._held_back if rows["destination"][0] == queue]
            if rows:
                self._write_receipts(queue, rows, self._chance.permutation(sum(len(part["count"]) for part in rows)))
        self._write_small_tables()
        return self._found

    def _write_chunk(self, queue: int, begin: int, end: int) -> None:
        producers = range(queue * _PAIRS, (queue + 1) * _PAIRS)
        sends = [self._sends(producer, begin, end) for producer in producers]
        merged = _concatenate(sends)
        self._write("sends", 1 + queue, merged, np.argsort(merged["t_sent"], kind="stable"))
        receipts = [self._receipts(producer, begin, end) for producer in producers]
        order = np.argsort(np.concatenate([rows.pop("order") for rows in receipts]), kind="stable")
        self._write_receipts(queue, receipts, order)

    def _sends(self, producer: int, begin: int, end: int) -> Columns:
        first, count = self._cut(begin, end)
        rows = len(first)
        sent = _BEGIN + np.round(first * self._pace).astype(np.int64)
        outcome = np.full(rows, OUTCOMES.index(CONFIRMED), np.int8)
        faults = {name: self._choose(rows // 2, rows, _OF_SENDS, name) for name in _OF_SENDS}
        outcome[faults["recovered"]] = OUTCOMES.index(UNKNOWN)
        outcome[faults["unexpected"]] = OUTCOMES.index(FAILED)
        for name, chosen in faults.items():
            self._found[name] += int(count[chosen].sum())
        # A message that was received, and never recorded as sent, is unexpected too.
        self._found["unexpected"] += int(count[faults["missing"]].sum())
        columns = {
            "producer": np.full(rows, producer), "destination": np.full(rows, producer // _PAIRS), "first_seq": first,
            "count": count, "bytes": 12 * count, "t_planned": sent - self._chance.integers(0, 900, rows),
            "t_sent": sent, "t_confirmed": sent + self._chance.integers(50_000, 5_000_000, rows), "outcome": outcome,
        }  # fmt: skip
        recorded = np.delete(np.arange(rows), faults["missing"])
        columns = {name: column[recorded] for name, column in columns.items()}
        self._found["sent"] += int(columns["count"].sum())
        self._found["measured sent"] += self._in_measure(columns["t_sent"], columns["count"])
        return columns

    def _receipts(self, producer: int, begin: int, end: int) -> Columns:
        """With a column `order`: consumers receive the rows in its order."""
        first, count = self._cut(begin, end)
        rows, queue = len(first), producer // _PAIRS
        faults = {name: self._choose(0, rows // 2, _OF_RECEIPTS, name) for name in _OF_RECEIPTS}
        # The first copy of a row, then its second one.
        row = np.concatenate([np.arange(rows), faults["duplicated"], faults["duplicated_marked"]])
        is_copy = np.arange(len(row)) >= rows
        consumer = (queue * _PAIRS + self._chance.integers(0, _PAIRS, rows))[row]
        whole = _BEGIN + np.round((first + count) * self._pace).astype(np.int64)
        order = whole[row] + is_copy
        delayed = faults["out_of_order"]
        order[delayed] = whole[np.minimum(delayed + _DELAY, rows - 1)] + 1
        overtaken = np.any(
            [consumer[np.minimum(delayed + step, rows - 1)] == consumer[delayed] for step in range(1, _DELAY + 1)], 0
        )
        latency = self._chance.lognormal(np.log(1_000_000), 0.7, len(row)).astype(np.int64)
        damaged = np.zeros(len(row), np.int64)
        damaged[faults["damaged"]] = 1
        columns = {
            "consumer": consumer, "destination": np.full(len(row), queue), "producer": np.full(len(row), producer),
            "first_seq": first[row], "count": count[row], "bytes": 12 * count[row], "damaged": damaged,
            "t_received": whole[row] + latency, "redelivered": np.isin(np.arange(len(row)) - rows, np.arange(
                len(faults["duplicated"]), len(row) - rows,
            )), "order": order,
        }  # fmt: skip
        for name in ("lost", "duplicated", "duplicated_marked"):
            self._found[name] += int(count[faults[name]].sum())
        self._found["damaged"] += len(faults["damaged"])
        self._found["out_of_order"] += int(count[delayed[overtaken]].sum()) + int(count[faults["held back"]].sum())
        held_back = {name: column[faults["held back"]] for name, column in columns.items() if name != "order"}
        if len(held_back["count"]):
            self._held_back.append(held_back)
        received = np.delete(np.arange(len(row)), np.concatenate([faults["lost"], faults["held back"]]))
        return {name: column[received] for name, column in columns.items()}

    def _cut(self, begin: int, end: int) -> tuple[Array, Array]:
        """Ranges from `begin` to `end`, as first numbers and lengths."""
        lengths = self._chance.integers(1, 2 * MEAN_RANGE, (end - begin) // MEAN_RANGE * 2 + 100)
        ends = begin + np.cumsum(lengths)
        ends = np.append(ends[ends < end], end)
        first = np.append(begin, ends[:-1])
        return first, ends - first

    def _choose(self, begin: int, end: int, kinds: tuple[str, ...], kind: str) -> Array:
        """Rows with a fault, all in the part from `begin` to `end` that belongs to its kind; none if the run has not.

        A run with rows that are out of order also has some that come at its end.
        """
        place, length = kinds.index(kind), (end - begin) // len(kinds)
        if ("out_of_order" if kind == "held back" else kind) not in self._run.faults:
            return np.zeros(0, np.int64)
        places = max(1, length // _APART - 1)
        number = 1 if kind == "held back" else min(_FAULTS_A_CHUNK, places)
        chosen = np.sort(self._chance.choice(places, number, replace=False))
        return begin + place * length + chosen * _APART

    def _write_receipts(self, queue: int, parts: list[Columns], order: Array) -> None:
        rows = {name: column[order] for name, column in _concatenate(parts).items()}
        ordinal = np.zeros(len(order), np.int64)
        for consumer in range(queue * _PAIRS, (queue + 1) * _PAIRS):
            own = rows["consumer"] == consumer
            ordinal[own] = self._ordinals[consumer] + np.arange(own.sum())
            self._ordinals[consumer] += int(own.sum())
        self._found["measured received"] += self._in_measure(rows["t_received"], rows["count"])
        self._write("receipts", 1 + _QUEUES + queue, rows | {"ordinal": ordinal}, slice(None))

    def _in_measure(self, times: Array, count: Array) -> int:
        return int(count[(times >= self._phases[1]) & (times < self._phases[2])].sum())

    def _write(self, table: str, agent: int, columns: Columns, order: Array | slice) -> None:
        columns |= {"run": np.full(len(columns["count"]), self._number), "agent": np.full(len(columns["count"]), agent)}
        arrays = []
        for field in TABLES[table]:
            if field.name == "t_acknowledged":
                arrays.append(pa.nulls(len(columns["count"]), field.type))
            elif field.name == "outcome":
                arrays.append(pa.DictionaryArray.from_arrays(columns["outcome"][order], pa.array(OUTCOMES)))
            else:
                numbers = columns[field.name][order]
                is_time = field.name.startswith("t_")
                arrays.append(pa.array(numbers - _OFFSETS[agent] if is_time else numbers, field.type))
        self._files += 1
        name = f"{run_name(self._number)}-agent-{agent}-{self._files}"
        self._folder.write_events(table, name, pa.Table.from_arrays(arrays, names=TABLES[table].names))

    def _write_small_tables(self) -> None:
        for table, rows in self._small_tables():
            numbered = [{"run": self._number, **row} for row in rows]
            self._folder.write_events(table, run_name(self._number), event_table(table, numbered))

    def _small_tables(self) -> Iterator[tuple[str, list[dict[str, object]]]]:
        yield "runs", [{
            "study": "synthetic", "scenario": self._run.name, "point": "", "system": "generator", "repetition": 1,
            "parameters": json.dumps({"producers": _QUEUES * _PAIRS, "consumers": _QUEUES * _PAIRS, "size": 12}),
            "status": COMPLETE, "reason": "", "counted_sent": self._found["measured sent"],
            "counted_received": self._found["measured received"], "counted_round_trips": 0,
        }]  # fmt: skip
        yield "roles", [
            {"agent": 1 + _QUEUES * (role == "consumer") + number // _PAIRS, "role": role, "number": number,
             "destination": number // _PAIRS, "subscription": 0}
            for role in ("producer", "consumer") for number in range(_QUEUES * _PAIRS)
        ]  # fmt: skip
        names = (WARM_UP, MEASURE, DRAIN)
        yield (
            "phases",
            [
                {"phase": name, "t_start": self._phases[place], "t_end": self._phases[place + 1]}
                for place, name in enumerate(names)
            ],
        )
        yield (
            "clocks",
            [{"agent": agent, "offset": offset, "error": _CLOCK_ERROR} for agent, offset in _OFFSETS.items()],
        )


def _concatenate(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
