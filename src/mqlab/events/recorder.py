"""The recorder of an agent: rows as whole numbers in flat arrays, written as Parquet files.

Roles record on their hot path. So a row costs one call, which appends its packed columns to an array; the functions for
that are generated from the row classes of the schema, as `dataclass` generates `__init__`.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from struct import Struct
from typing import Final, Generic, ParamSpec, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.events.folder import RunFolder, run_name
from mqlab.events.schema import CONFIRMED, OUTCOMES, TABLES, UNKNOWN, ReceiptRow, RoundTripRow, SendRow

# An array with more numbers (8 bytes each, some ten a row) is written to a file.
_BUFFER_NUMBERS: Final = 8_000_000

NO_TIME: Final = -1
CONFIRMED_CODE: Final = OUTCOMES.index(CONFIRMED)
UNKNOWN_CODE: Final = OUTCOMES.index(UNKNOWN)

_TABLES: Final = (SendRow.table, ReceiptRow.table, RoundTripRow.table)

P = ParamSpec("P")
Columns = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class AnsweredRequest:
    """A request whose reply has come: a row each of `sends`, `receipts` and `round_trips`, in one."""

    requester: int
    destination: int
    seq: int
    bytes: int
    t_planned: int
    t_sent: int
    reply_destination: int
    responder: int
    reply_seq: int
    reply_bytes: int
    damaged: int
    t_received: int
    redelivered: int
    mismatched: int


class RowBuffer(Generic[P]):
    """Rows of one class. `append` takes the columns of a row by name; it calls `write` when the buffer is full."""

    def __init__(self, row: Callable[P, object], write: Callable[[], None] | None, *, discard: bool) -> None:
        self.names = [field.name for field in fields(row)]  # type: ignore[arg-type]  # every row is a dataclass
        self.numbers = array("q")
        self.append: Callable[P, None] = self._generate_append(write, discard=discard)
        self.unreleased: list[PendingRows[P]] = []
        self._settings = row, write, discard

    def pending(self) -> "PendingRows[P]":
        """A buffer for rows that are recorded later."""
        row, write, discard = self._settings
        rows = PendingRows(row, self, write, discard=discard)
        self.unreleased.append(rows)
        return rows

    def take(self) -> Columns:
        """The columns as numpy arrays, by name. The buffer is empty afterwards."""
        # A copy: an array cannot be cleared while numpy uses its memory.
        rows = np.array(self.numbers, dtype=np.int64).reshape(-1, len(self.names))
        del self.numbers[:]
        return dict(zip(self.names, rows.T, strict=True))

    def _generate_append(self, write: Callable[[], None] | None, *, discard: bool) -> Callable[P, None]:
        columns = ", ".join(self.names)
        body = "pass" if discard else f"append_bytes(pack({columns}))"
        if write is not None and not discard:
            body += "\n    if len(numbers) > limit:\n        write()"
        scope = {
            "append_bytes": self.numbers.frombytes, "pack": Struct(f"={len(self.names)}q").pack, "write": write,
            "numbers": self.numbers, "limit": _BUFFER_NUMBERS,
        }  # fmt: skip
        exec(f"def append(*, {columns}):\n    {body}\n", scope)
        return cast("Callable[P, None]", scope["append"])


class PendingRows(RowBuffer[P]):
    """Rows with a column whose value is known later: the outcome of sends, the time of a commit."""

    def __init__(
        self, row: Callable[P, object], target: RowBuffer[P], write: Callable[[], None] | None, *, discard: bool
    ) -> None:
        super().__init__(row, None, discard=discard)
        self._target = target.numbers
        self._write = write

    def release(self, **values: int) -> None:
        """Record the rows, with these values in place of those that they were appended with."""
        rows = np.frombuffer(self.numbers, dtype=np.int64).reshape(-1, len(self.names))
        for name, value in values.items():
            rows[:, self.names.index(name)] = value
        # An array cannot be cleared while numpy uses its memory.
        del rows
        self._target.extend(self.numbers)
        del self.numbers[:]
        if len(self._target) > _BUFFER_NUMBERS and self._write is not None:
            self._write()


class Recorder:
    """The events of one agent in one run. `close` writes those that are still in memory; `roll` those so far.

    Without a folder nothing is recorded: that is only for measuring the cost of recording.
    """

    def __init__(self, folder: RunFolder | None, run: int, agent: int) -> None:
        self._folder = folder
        self._run = run
        self._agent = agent
        self._files = 0
        discard = folder is None
        self.sends = RowBuffer(SendRow, partial(self._write_rows, SendRow.table), discard=discard)
        self.receipts = RowBuffer(ReceiptRow, partial(self._write_rows, ReceiptRow.table), discard=discard)
        self.round_trips = RowBuffer(RoundTripRow, partial(self._write_rows, RoundTripRow.table), discard=discard)
        self.answered = RowBuffer(AnsweredRequest, self._write_answered, discard=discard)
        self._thread: ThreadPoolExecutor | None = None
        self._rolling: Future[None] | None = None

    def roll(self) -> None:
        """If the run is followed, write the rows so far, in another thread: the roles go on meanwhile.

        Does nothing while the rows of the last call are being written.
        """
        is_busy = self._rolling is not None and not self._rolling.done()
        if self._folder is None or is_busy or not self._folder.is_followed:
            return
        self._wait_for_roll()
        rows = {table: getattr(self, table).take() for table in _TABLES}
        answered = self.answered.take()
        self._thread = self._thread or ThreadPoolExecutor(1)
        self._rolling = self._thread.submit(self._write_taken, rows, answered)

    def close(self) -> None:
        for rows in self.sends.unreleased:
            rows.release()
        for table in _TABLES:
            self._write_rows(table)
        self._write_answered()
        if self._thread is not None:
            self._thread.shutdown()

    def _write_taken(self, rows: dict[str, Columns], answered: Columns) -> None:
        for table, columns in rows.items():
            self._write(table, columns)
        self._split_answered(answered)

    def _wait_for_roll(self) -> None:
        """Raises the error of writing."""
        if self._rolling is not None:
            self._rolling.result()

    def _write_rows(self, table: str) -> None:
        self._wait_for_roll()
        self._write(table, getattr(self, table).take())

    def _write_answered(self) -> None:
        self._wait_for_roll()
        self._split_answered(self.answered.take())

    def _split_answered(self, rows: Columns) -> None:
        count = len(rows["seq"])
        ones, no_time = np.ones(count, dtype=np.int64), np.full(count, NO_TIME)
        self._write("sends", {
            "producer": rows["requester"], "destination": rows["destination"], "first_seq": rows["seq"], "count": ones,
            "bytes": rows["bytes"], "t_planned": rows["t_planned"], "t_sent": rows["t_sent"],
            # The reply proves that the system had the request; it does not tell since when.
            "t_confirmed": no_time, "outcome": np.full(count, CONFIRMED_CODE),
        })  # fmt: skip
        self._write("receipts", {
            "consumer": rows["requester"], "destination": rows["reply_destination"], "producer": rows["responder"],
            "first_seq": rows["reply_seq"], "count": ones, "bytes": rows["reply_bytes"],
            "damaged": rows["damaged"], "ordinal": rows["seq"], "t_received": rows["t_received"],
            "redelivered": rows["redelivered"], "t_acknowledged": no_time,
        })  # fmt: skip
        self._write("round_trips", {name: rows[name] for name in self.round_trips.names})

    def _write(self, table: str, columns: Columns) -> None:
        count = len(next(iter(columns.values())))
        if self._folder is None or not count:
            return
        self._files += 1
        columns["run"], columns["agent"] = np.full(count, self._run), np.full(count, self._agent)
        name = f"{run_name(self._run)}-agent-{self._agent}-{self._files}"
        self._folder.write_events(table, name, _to_arrow(table, columns))


def _to_arrow(table: str, columns: Columns) -> pa.Table:
    schema = TABLES[table]
    arrays = []
    for field in schema:
        numbers = np.ascontiguousarray(columns[field.name])
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int8()), pa.array(OUTCOMES)))
        elif pa.types.is_boolean(field.type):
            arrays.append(pa.array(numbers != 0))
        else:
            missing = numbers == NO_TIME if field.nullable else None
            arrays.append(pa.array(numbers, field.type, mask=missing))
    return pa.Table.from_arrays(arrays, names=schema.names)


def event_table(table: str, rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """An Arrow table of this event table from dictionaries; for tables with few rows."""
    return pa.Table.from_pylist([*rows], schema=TABLES[table])
