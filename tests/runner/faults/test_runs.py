"""Runs with faults on the embedded broker: they go on, and every message is accounted for."""

from pathlib import Path

import numpy as np
import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner.capability import why_unsupported
from mqlab.study import Point
from mqlab.systems import system
from mqlab.systems.embedded.process import BrokerProcess
from runner.lab import Recount, columns, conducted, rows
from runner.points import RunChanges, point
from table_rows import Row


def faulty(faults: str, measure: float = 1.5, **changes: object) -> Point:
    declared: RunChanges = {
        "send": "confirmed", "batch": 1, "rate": 300.0, "persistent": True, "producers": 2, "consumers": 2,
        "size": 64, "measure": measure, "faults": faults, **changes,  # type: ignore[typeddict-item]
    }  # fmt: skip
    return point(**declared)


def numbers(folder: RunFolder, table: str) -> list[tuple[int, int]]:
    """Producer and sequence number of each message in each row."""
    found = columns(folder, table)
    ranges = zip(found["producer"], found["first_seq"], found["count"], strict=True)
    return [(int(producer), int(seq)) for producer, first, count in ranges for seq in range(first, first + count)]


def check_run(folder: RunFolder) -> list[Row]:
    """The run is complete, its counts are those of its events, and every message has arrived. Returns the faults."""
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, 1).check_counts(run)
    sends = columns(folder, "sends")
    assert set(numbers(folder, "sends")) == set(numbers(folder, "receipts"))
    confirmed = sends["outcome"] == "confirmed"
    assert {*zip(sends["producer"][~confirmed], sends["first_seq"][~confirmed], strict=True)} <= {
        *zip(sends["producer"][confirmed], sends["first_seq"][confirmed], strict=True)
    }, "what was not confirmed was sent again"
    return rows(folder, "faults")


def test_a_broker_that_stops_and_is_killed(tmp_path: Path) -> None:
    folder = conducted(tmp_path, [faulty("stop at 200ms for 200ms and kill at 700ms for 100ms")])
    found = check_run(folder)
    assert [(row["number"], row["kind"], row["fault"]) for row in found] == [
        (1, "stop", "stop at 200ms for 200ms"), (2, "kill", "kill at 700ms for 100ms"),
    ]  # fmt: skip
    for row, least_s in zip(found, (0.2, 0.1), strict=True):
        assert row["t_planned"] <= row["t_start"] <= row["t_end"] - least_s * 1e9
    samples = columns(folder, "samples", source="broker")
    assert (samples["t"] > found[1]["t_end"]).any(), "the broker that was started again is sampled"
    for name in ("cpu_seconds", "syncs", "bytes_written"):
        assert (np.diff(samples[name][np.argsort(samples["t"])]) >= 0).all(), f"{name} goes on"


def test_a_line_that_is_cut_reset_slow_and_lossy(tmp_path: Path) -> None:
    faults = (
        "cut at 200ms for 200ms and reset at 600ms for 100ms and slow 5ms at 900ms for 100ms "
        "and lossy 20% at 1100ms for 100ms"
    )
    found = check_run(conducted(tmp_path, [faulty(faults)]))
    assert [row["kind"] for row in found] == ["cut", "reset", "slow", "lossy"]


def test_transactions_and_shared_connections_over_restarts(tmp_path: Path) -> None:
    changes = {"transaction": 5, "connections": "shared", "send": "free"}
    folder = conducted(tmp_path, [faulty("restart at 200ms every 400ms", measure=0.9, **changes)])
    assert [row["kind"] for row in check_run(folder)] == ["restart", "restart"]


def test_a_broker_that_does_not_start_again_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = BrokerProcess.start
    starts = []

    async def start_once(self: BrokerProcess) -> None:
        starts.append(self)
        if len(starts) > 1:
            raise OSError("no")
        await start(self)

    monkeypatch.setattr(BrokerProcess, "start", start_once)
    folder = conducted(tmp_path, [faulty("kill at 200ms", measure=0.5)])
    (run,) = rows(folder, "runs")
    assert run["status"] == "incomplete"
    assert "the embedded broker did not start again" in run["reason"]
    (fault,) = rows(folder, "faults")
    assert (fault["kind"], fault["t_end"]) == ("kill", None)


@pytest.mark.parametrize(
    ("name", "faults", "reason"),
    [
        ("external:driver=native,address=tcp:127.0.0.1:1", "kill at 1s", "no kill: the lab did not start it"),
        ("external:driver=native,address=tcp:127.0.0.1:1", "cut at 200ms for 1ms", ""),
        ("openmq", "slow 5ms at 200ms for 1ms", "no slow: its port mapper sends clients to another port"),
        ("embedded", "kill at 200ms and cut at 300ms for 1ms", ""),
    ],
)
def test_faults_need_control_of_the_process_or_the_line(name: str, faults: str, reason: str) -> None:
    assert why_unsupported(system(name), faulty(faults)) == reason
