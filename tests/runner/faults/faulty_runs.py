"""Runs with faults: their points, and the account of every message of theirs."""

from mqlab.events.folder import RunFolder
from mqlab.study import Point
from runner.lab import Recount, columns, rows
from runner.points import RunChanges, point
from table_rows import Row


def faulty(faults: str, measure: float = 1.5, **changes: object) -> Point:
    declared: RunChanges = {
        "send": "confirmed", "batch": 1, "rate": 300.0, "persistent": True, "producers": 2, "consumers": 2,
        "size": 64, "measure": measure, "faults": faults, **changes,  # type: ignore[typeddict-item]
    }  # fmt: skip
    return point(**declared)


def _numbers(folder: RunFolder, table: str, run: int) -> list[tuple[int, int]]:
    """Producer and sequence number of each message in each row."""
    found = columns(folder, table, run=run)
    ranges = zip(found["producer"], found["first_seq"], found["count"], strict=True)
    return [(int(producer), int(seq)) for producer, first, count in ranges for seq in range(first, first + count)]


def check_run(folder: RunFolder, number: int = 1) -> list[Row]:
    """The run is complete, its counts are those of its events, and every message has arrived. Returns the faults."""
    (run,) = rows(folder, "runs", run=number)
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, number).check_counts(run)
    sends = columns(folder, "sends", run=number)
    assert set(_numbers(folder, "sends", number)) == set(_numbers(folder, "receipts", number))
    confirmed = sends["outcome"] == "confirmed"
    assert {*zip(sends["producer"][~confirmed], sends["first_seq"][~confirmed], strict=True)} <= {
        *zip(sends["producer"][confirmed], sends["first_seq"][confirmed], strict=True)
    }, "what was not confirmed was sent again"
    return rows(folder, "faults", run=number)
