"""The counts of runs in columns: what the SQL of the same tables computes a second time (`sql_counts`)."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.events.schema import CONFIRMED
from mqlab.pipeline.kernels.count_keys import COARSE_BUCKETS, OPERATION_BUCKETS, SLOT, SUCCESS_CODES
from mqlab.pipeline.kernels.histogram import LOG_GROWTH
from mqlab.pipeline.kernels.run_events import NEVER, Array, RunWindow, array, distinct, highest_before, keys

_INT, _LONG, _TEXT, _TOTAL = pa.int32(), pa.int64(), pa.string(), pa.decimal128(38, 0)
_MOVED: Final = ("sent", "received", "bytes_received", "damaged", "sends", "receipts")
# How the columns of `_timed` are aggregated.
_OF_TIMED: Final = {"longest": "max", "high": "sum", "low": "sum"}
_TIMED: Final = {"nanoseconds": _TOTAL, "longest": _LONG}
SCHEMAS: Final = {
    "activity": pa.schema({
        "run": _INT, "agent": _INT, "slot": _INT, "measured": pa.bool_(), **dict.fromkeys(_MOVED, _LONG),
        "largest_batch": _LONG,
    }),
    "gaps": pa.schema({"run": _INT, "missing": _LONG}),
    "round trips": pa.schema({
        "run": _INT, "bucket": _INT, **dict.fromkeys(("arrived", "mismatched", "messages"), _LONG), **_TIMED,
    }),
    "response slots": pa.schema({"run": _INT, "slot": _INT, "bucket": _INT, "messages": _LONG}),
    "confirmations": pa.schema({"run": _INT, "bucket": _INT, "messages": _LONG, "sends": _LONG, **_TIMED}),
    "operation counts": pa.schema({
        "run": _INT, "application": _TEXT, "operation": _TEXT, "bucket": _INT, "count": _LONG, **_TIMED,
        **dict.fromkeys(("messages", "bytes", "failed", "first", "last"), _LONG),
    }),
}  # fmt: skip


def row_counts(events: Mapping[str, pa.Table], windows: Mapping[int, RunWindow]) -> dict[str, pa.Table]:
    """Return all tables of SCHEMAS but `gaps`, from events on the clock of the controller.

    Each row of the events counts by itself: the counts of parts of a run add up to those of the run.
    """
    return {
        "activity": _activity(events["sends"], events["receipts"], windows),
        "round trips": _round_trips(events["round_trips"], windows),
        "response slots": _response_slots(events["round_trips"], windows),
        "confirmations": _confirmations(events["sends"], windows),
        "operation counts": _operation_counts(events["operations"]),
    }


class _Windows:
    """The windows of the runs of some rows, as columns; NEVER where a run has none."""

    def __init__(self, runs: Array, windows: Mapping[int, RunWindow]) -> None:
        known, self._place = distinct(runs)
        self._by_run = [windows.get(run, RunWindow(NEVER)) for run in known.tolist()]
        self.load_start, self._start, self.measure_end = (
            np.array([window[part] for window in self._by_run], np.int64)[self._place] for part in range(3)
        )
        self.latency_slot = np.array([window.latency_slot for window in self._by_run], np.int64)[self._place]

    def within_measure(self, times: Array) -> Array:
        inside = (times >= self._start) & (times < self.measure_end)
        for place, window in enumerate(self._by_run):
            if window.edges:
                of_run = self._place == place
                inside[of_run] = window.within_measure(times[of_run])
        return inside


def _activity(sends: pa.Table, receipts: pa.Table, windows: Mapping[int, RunWindow]) -> pa.Table:
    run = np.concatenate([array(sends["run"]), array(receipts["run"])])
    times = np.concatenate([array(sends["t_sent"]), array(receipts["t_received"])])
    of_runs = _Windows(run, windows)
    count = np.concatenate([array(sends["count"]), array(receipts["count"])])
    is_send = np.arange(len(run)) < len(sends)
    of_receipts = {
        name: np.concatenate([np.zeros(len(sends), np.int64), array(receipts[name])]) for name in ("bytes", "damaged")
    }
    has_window = of_runs.load_start != NEVER
    slots = np.floor(np.where(has_window, times - of_runs.load_start, 0) / SLOT)
    rows = {
        "run": run,
        "agent": np.concatenate([array(sends["agent"]), array(receipts["agent"])]),
        "slot": pa.array(slots.astype(np.int32), mask=~has_window),
        "measured": of_runs.within_measure(times),
        "sent": np.where(is_send, count, 0),
        "received": np.where(is_send, 0, count),
        "bytes_received": of_receipts["bytes"],
        "damaged": of_receipts["damaged"],
        "sends": is_send.astype(np.int64),
        "receipts": (~is_send).astype(np.int64),
        "largest_batch": count,
    }
    aggregates = dict.fromkeys(_MOVED, "sum") | {"largest_batch": "max"}
    return _group("activity", rows, ("run", "agent", "slot", "measured"), aggregates)


def gaps(sends: pa.Table) -> pa.Table:
    """Return the table `gaps` of all sends of some producers."""
    run, first = array(sends["run"]), array(sends["first_seq"])
    producer = keys([run, array(sends["destination"]), array(sends["producer"])])
    order = np.lexsort((first, producer))
    end_before = highest_before(producer[order], (first + array(sends["count"]))[order], np.zeros(len(run), np.int64))
    missing = np.maximum(first[order] - end_before, 0)
    rows = {"run": run[order][missing > 0], "missing": missing[missing > 0]}
    return _group("gaps", rows, ("run",), {"missing": "sum"})


def _round_trips(trips: pa.Table, windows: Mapping[int, RunWindow]) -> pa.Table:
    run, planned, received = (array(trips[name]) for name in ("run", "t_planned", "t_received"))
    of_runs = _Windows(run, windows)
    is_timed = (received != NEVER) & of_runs.within_measure(planned)
    duration = np.where(is_timed, np.maximum(received - planned, 0), 0)
    rows = {
        "run": run,
        "arrived": ((received != NEVER) & of_runs.within_measure(received)).astype(np.int64),
        "mismatched": array(trips["mismatched"]).astype(np.int64),
        "messages": is_timed.astype(np.int64),
        **_timed(duration, is_timed.astype(np.int64), ~is_timed),
    }
    sums = dict.fromkeys(("arrived", "mismatched", "messages"), "sum")
    return _group("round trips", rows, ("run", "bucket"), sums | _OF_TIMED)


def _response_slots(trips: pa.Table, windows: Mapping[int, RunWindow]) -> pa.Table:
    """Count replies by the slot in which their requests were planned and by the coarse bucket of the response time."""
    run, planned, received = (array(trips[name]) for name in ("run", "t_planned", "t_received"))
    of_runs = _Windows(run, windows)
    is_during_load = (planned >= of_runs.load_start) & (planned < of_runs.measure_end) & (of_runs.measure_end != NEVER)
    counted = (received != NEVER) & is_during_load
    run, planned, received = run[counted], planned[counted], received[counted]
    bucket = np.ceil(np.log(np.maximum(received - planned, 1)) / LOG_GROWTH)
    rows = {
        "run": run,
        "slot": (planned - of_runs.load_start[counted]) // of_runs.latency_slot[counted],
        "bucket": np.ceil(bucket / COARSE_BUCKETS).astype(np.int64),
        "messages": np.ones(len(run), np.int64),
    }
    return _group("response slots", rows, ("run", "slot", "bucket"), {"messages": "sum"})


def _confirmations(sends: pa.Table, windows: Mapping[int, RunWindow]) -> pa.Table:
    run, planned = array(sends["run"]), array(sends["t_planned"])
    confirmed = array(sends["t_confirmed"])
    is_confirmed = array(pc.equal(sends["outcome"].cast(pa.string()), CONFIRMED)) & (confirmed != NEVER)
    is_counted = is_confirmed & _Windows(run, windows).within_measure(planned)
    count, duration = array(sends["count"])[is_counted], (confirmed - array(sends["t_sent"]))[is_counted]
    rows = {
        "run": run[is_counted],
        "messages": count,
        "sends": np.ones(len(count), np.int64),
        **_timed(np.maximum(duration, 0), count, np.zeros(len(count), np.bool_)),
    }
    return _group("confirmations", rows, ("run", "bucket"), {"messages": "sum", "sends": "sum", **_OF_TIMED})


def _operation_counts(operations: pa.Table) -> pa.Table:
    applications = operations["application"].combine_chunks().dictionary_encode()
    kinds = pc.replace_substring_regex(applications.dictionary, r"\d+$", "")
    is_successful = pc.is_in(pc.fill_null(operations["code"], ""), pa.array(SUCCESS_CODES))
    ones = np.ones(len(operations), np.int64)
    rows = {
        **{name: operations[name] for name in ("run", "operation", "messages", "bytes")},
        "application": kinds.take(applications.indices),
        "count": ones,
        "failed": 1 - array(is_successful).astype(np.int64),
        **_timed(np.maximum(array(operations["duration"]), 0), ones, ones == 0, OPERATION_BUCKETS),
        "first": operations["t"],
        "last": operations["t"],
    }
    sums = dict.fromkeys(("count", "messages", "bytes", "failed"), "sum")
    by = ("run", "application", "operation", "bucket")
    return _group("operation counts", rows, by, sums | {"first": "min", "last": "max", **_OF_TIMED})


def _timed(duration: Array, count: Array, is_null: Array, buckets: int = 1) -> dict[str, pa.Array]:
    """The bucket of each duration, the longest, and the halves of their total: it may exceed 64 bits.

    `buckets`: as many buckets of the histogram are one, and have the number of the highest of them.
    """
    bucket = np.ceil(np.log(np.maximum(duration, 1)) / LOG_GROWTH).astype(np.int32)
    bucket = -(-bucket // buckets) * buckets
    product = duration * count
    columns = {"bucket": bucket, "longest": duration, "high": product >> 32, "low": product & (2**32 - 1)}
    return {name: pa.array(column, mask=is_null) for name, column in columns.items()}


def _group(
    name: str, rows: Mapping[str, Array | pa.Array], by: tuple[str, ...], aggregates: Mapping[str, str]
) -> pa.Table:
    """Group the rows into the table of this name; `high` and `low` become `nanoseconds`."""
    grouped = pa.table(dict(rows)).group_by([*by], use_threads=False).aggregate([*aggregates.items()])
    columns = {key: grouped[key] for key in by}
    columns |= {column: grouped[f"{column}_{how}"] for column, how in aggregates.items()}
    if "high" in columns:
        halves = zip(columns["high"].to_pylist(), columns["low"].to_pylist(), strict=True)
        totals = [None if high is None else Decimal((high << 32) + low) for high, low in halves]
        columns["nanoseconds"] = pa.chunked_array([pa.array(totals, _TOTAL)])
    schema = SCHEMAS[name]
    return pa.table({column: columns[column] for column in schema.names}).cast(schema)
