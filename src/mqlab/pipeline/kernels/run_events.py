"""The events of whole runs in columns, as a task reads them: which columns it needs, on the clock of the controller."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.events.slices import within
from mqlab.pipeline.kernels.count_keys import MOST_LATENCY_SLOTS, SLOT

# Any: integers and flags; numpy's own types of their arithmetic say no more.
Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = Mapping[str, Array]

# The columns of events that are needed.
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "sends": (
        "run", "agent", "destination", "producer", "first_seq", "count", "outcome", "t_planned", "t_sent",
        "t_confirmed",
    ),
    "receipts": (
        "run", "agent", "consumer", "destination", "producer", "first_seq", "count", "bytes", "damaged", "ordinal",
        "redelivered", "t_received",
    ),
    "round_trips": ("run", "agent", "t_planned", "t_received", "mismatched"),
    "operations": ("run", "application", "operation", "t", "duration", "messages", "bytes", "code"),
    "roles": ("run", "role", "number", "destination", "subscription"),
    "clocks": ("run", "agent", "offset", "error"),
}  # fmt: skip
# A time, where there is none.
NEVER: Final = np.iinfo(np.int64).max
_ON_AGENT_CLOCK: Final = ("sends", "receipts", "round_trips")


class RunWindow(NamedTuple):
    """The start of the load of a run, and its measure phase [measure_start, measure_end), in ns.

    `edges`: those of its slices (`mqlab.events.slices`), if not all of the phase counts.
    """

    load_start: int
    measure_start: int = NEVER
    measure_end: int = NEVER
    edges: tuple[int, ...] = ()

    @classmethod
    def of(cls, times: Sequence[int]) -> "RunWindow":
        """From a list of all its times."""
        load_start, *phase = times
        start, end = phase[:2] or (NEVER, NEVER)
        return cls(load_start, start, end, tuple(phase[2:]))

    @property
    def latency_slot(self) -> int:
        """The length of a slot of latencies over time, in ns."""
        return SLOT * max(1, -(-(self.measure_end - self.load_start) // (MOST_LATENCY_SLOTS * SLOT)))

    def within_measure(self, times: Array) -> Array:
        if self.edges:
            return within(times, self.edges)
        return (times >= self.measure_start) & (times < self.measure_end)


def share_rows(rows: pa.Table, sharing: Mapping[int, Sequence[int]]) -> pa.Table:
    """The rows, once more for each further run that shares the events of a run."""
    return pa.concat_tables([rows, *(_of_run(rows, run, member) for run, member in _members(sharing))])


def of_sharing_runs(
    events: Mapping[str, pa.Table], sharing: Mapping[int, Sequence[int]]
) -> Iterator[Mapping[str, pa.Table]]:
    """The events, and then those of each further run that shares them: one after the other, for they may be many."""
    yield events
    for run, member in _members(sharing):
        yield {table: _of_run(rows, run, member) for table, rows in events.items()}


def _members(sharing: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    return [(run, member) for run, members in sharing.items() for member in members if member != run]


def _of_run(rows: pa.Table, run: int, member: int) -> pa.Table:
    """The rows of a run as those of another."""
    of_run = rows.filter(pc.equal(rows["run"], run))
    numbers = pa.repeat(pa.scalar(member, rows.schema.field("run").type), len(of_run))
    return of_run.set_column(rows.column_names.index("run"), rows.schema.field("run"), numbers)


def align_clocks(events: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Add each agent's clock offset to its times. An agent without an offset has none."""
    clocks = events["clocks"]
    known = paired(array(clocks["run"]), array(clocks["agent"]))
    order = np.argsort(known)
    known, offsets = np.append(known[order], -1), np.append(array(clocks["offset"])[order], 0)
    aligned = dict(events)
    for name in _ON_AGENT_CLOCK:
        asked = paired(array(events[name]["run"]), array(events[name]["agent"]))
        place = np.searchsorted(known[:-1], asked)
        offset = pa.array(np.where(known[place] == asked, offsets[place], 0))
        for time in (column for column in NEEDED[name] if column.startswith("t_")):
            table = aligned[name]
            aligned[name] = table.set_column(table.column_names.index(time), time, pc.add(table[time], offset))
    return aligned


def array(column: pa.ChunkedArray) -> Array:
    """A missing time is NEVER."""
    return np.asarray((pc.fill_null(column, NEVER) if column.null_count else column).to_numpy())


def paired(high: Array, low: Array) -> Array:
    """Both numbers of 32 bits in one; `low` may be -1."""
    return (high.astype(np.int64) << 32) + (low.astype(np.int64) + 1)


def highest_before(group: Array, values: Array, default: Array) -> Array:
    """The highest of the values before each row in its group, or the default; the rows are ordered by group."""
    if not len(values):
        return default
    # The group is the high part of a number, and the value the low one.
    least, span = _span(values)
    if span * (int(group[-1]) + 1) <= NEVER:
        highest = np.maximum.accumulate(group * span + (values - least)) - group * span + least
    else:
        ordered, place = distinct(values)
        highest = ordered[np.maximum.accumulate(group * len(ordered) + place) - group * len(ordered)]
    has_earlier = np.append(False, group[1:] == group[:-1])
    return np.where(has_earlier, np.roll(highest, 1), default)


def keys(columns: list[Array]) -> Array:
    """A number from 0 for each row: equal for equal rows, and ordered as they are."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = distinct(column)
        if len(values) > 1:
            key = distinct(key * len(values) + place)[1]
    return key


def distinct(column: Array) -> tuple[Array, Array]:
    """The different values in their order, and the place of each row's value among them."""
    if not len(column):
        return column, np.zeros(0, np.int64)
    least, span = _span(column)
    if span > 2 * len(column) + 1000:
        values, place = np.unique(column, return_inverse=True)
        return values, place
    # Numbers that lie close together need no sort.
    place = column - least
    is_there = np.bincount(place, minlength=span) > 0
    return np.flatnonzero(is_there) + least, (np.cumsum(is_there) - 1)[place]


def _span(values: Array) -> tuple[int, int]:
    """The least value, and how many there can be from it to the highest."""
    least = int(values.min())
    return least, int(values.max()) - least + 1
