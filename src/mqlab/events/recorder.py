"""Writing events as they happen: whole numbers into flat arrays, Parquet when there are many.

Recording stands in the hot path of every role, so a row is one `extend` of a tuple and nothing else.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqlab.events.folder import RunFolder
from mqlab.events.schema import CONFIRMED, OUTCOMES, TABLES, UNKNOWN

# Numbers held in memory before they are written: 8 bytes each, some ten a row.
_MOST_NUMBERS: Final = 8_000_000

NO_TIME: Final = -1
CONFIRMED_CODE: Final = OUTCOMES.index(CONFIRMED)
UNKNOWN_CODE: Final = OUTCOMES.index(UNKNOWN)

_SENDS = ("producer", "destination", "first_seq", "count", "bytes", "t_planned", "t_sent", "t_confirmed", "outcome")
_RECEIPTS = (
    "consumer", "destination", "producer", "first_seq", "count", "bytes", "ordinal", "t_received", "redelivered",
    "t_acknowledged",
)  # fmt: skip
_ROUND_TRIPS = ("requester", "seq", "t_planned", "t_sent", "t_received")
# Numbers of a row of `answered`.
_ANSWERED: Final = 12


class Recorder:
    """The events of one agent in one run. Call `close()` to have them written."""

    def __init__(self, folder: RunFolder, run: int, agent: int) -> None:
        self._folder = folder
        self._run = run
        self._agent = agent
        self._parts = 0
        self._sends = array("q")
        self._receipts = array("q")
        self._round_trips = array("q")
        self._answered = array("q")
        # Sends nobody waited for: their outcome is known when the producer is closed.
        self._open: dict[int, array[int]] = {}

    def sent(self, *row: int) -> None:
        """One row of `sends` whose outcome is known: the columns of _SENDS."""
        self._sends.extend(row)
        if len(self._sends) > _MOST_NUMBERS:
            self._write("sends", _SENDS, self._sends)

    def sent_freely(self, producer: int, *row: int) -> None:
        """One row of `sends` without its last two columns, of a producer that does not wait."""
        rows = self._open.get(producer)
        if rows is None:
            rows = self._open[producer] = array("q")
        rows.extend((producer, *row, NO_TIME, UNKNOWN_CODE))

    def accepted(self, producer: int) -> None:
        """The system has everything that this producer sent without waiting."""
        rows = self._open.pop(producer, None)
        if rows is not None:
            table = np.frombuffer(rows, dtype=np.int64).reshape(-1, len(_SENDS))
            table[:, -1] = CONFIRMED_CODE
            self._sends.extend(rows)
        if len(self._sends) > _MOST_NUMBERS:
            self._write("sends", _SENDS, self._sends)

    def received(self, *row: int) -> None:
        """One row of `receipts`: the columns of _RECEIPTS."""
        self._receipts.extend(row)
        if len(self._receipts) > _MOST_NUMBERS:
            self._write("receipts", _RECEIPTS, self._receipts)

    def round_trip(self, *row: int) -> None:
        """One row of `round_trips`: the columns of _ROUND_TRIPS."""
        self._round_trips.extend(row)
        if len(self._round_trips) > _MOST_NUMBERS:
            self._write("round_trips", _ROUND_TRIPS, self._round_trips)

    def answered(self, *row: int) -> None:
        """A request whose reply has come: a row of `sends`, of `receipts` and of `round_trips`, in one.

        Requester, destination, sequence number, bytes, when planned and sent; the destination of the reply, the
        responder, its sequence number, bytes, when received, whether redelivered.
        """
        self._answered.extend(row)
        if len(self._answered) > _MOST_NUMBERS:
            self._write_answered()

    def close(self) -> None:
        for rows in self._open.values():
            self._sends.extend(rows)
        self._open.clear()
        self._write("sends", _SENDS, self._sends)
        self._write("receipts", _RECEIPTS, self._receipts)
        self._write("round_trips", _ROUND_TRIPS, self._round_trips)
        self._write_answered()

    def _write_answered(self) -> None:
        if not self._answered:
            return
        rows = np.array(self._answered, dtype=np.int64).reshape(-1, _ANSWERED)
        del self._answered[:]
        number, destination, seq, size, planned, sent, replies, responder, answer, length, received, again = rows.T
        one, nothing = np.ones(len(rows), dtype=np.int64), np.full(len(rows), NO_TIME)
        # That there is a reply confirms the request; when the system had it, nobody knows.
        confirmed = np.full(len(rows), CONFIRMED_CODE)
        sends = (number, destination, seq, one, size, planned, sent, nothing, confirmed)
        receipts = (number, replies, responder, answer, one, length, seq, received, again, nothing)
        self._put("sends", dict(zip(_SENDS, sends, strict=True)))
        self._put("receipts", dict(zip(_RECEIPTS, receipts, strict=True)))
        self._put("round_trips", dict(zip(_ROUND_TRIPS, (number, seq, planned, sent, received), strict=True)))

    def _write(self, table: str, columns: Sequence[str], numbers: "array[int]") -> None:
        if not numbers:
            return
        # A copy, since `array` may not be emptied while numpy looks at it.
        rows = np.array(numbers, dtype=np.int64).reshape(-1, len(columns))
        del numbers[:]
        self._put(table, dict(zip(columns, rows.T, strict=True)))

    def _put(self, table: str, found: dict[str, Any]) -> None:
        self._parts += 1
        rows = len(next(iter(found.values())))
        found["run"], found["agent"] = np.full(rows, self._run), np.full(rows, self._agent)
        name = f"run-{self._run:05d}-agent-{self._agent}-{self._parts}"
        self._folder.write_events(table, name, _arrow(table, found))


def _arrow(table: str, found: dict[str, Any]) -> pa.Table:
    schema = TABLES[table]
    arrays = []
    for field in schema:
        numbers = np.ascontiguousarray(found[field.name])
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int8()), pa.array(OUTCOMES)))
        elif pa.types.is_boolean(field.type):
            arrays.append(pa.array(numbers != 0))
        else:
            missing = numbers == NO_TIME if field.nullable else None
            arrays.append(pa.array(numbers, field.type, mask=missing))
    return pa.Table.from_arrays(arrays, names=schema.names)


def rows_of(table: str, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """A small table from dictionaries: phases, clocks, samples, roles, runs."""
    return pa.Table.from_pylist([*rows], schema=TABLES[table])
