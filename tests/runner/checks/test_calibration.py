"""Calibration: the lab's own work costs CPU time, and each kind of work is measured once."""

import time

import pytest
import uvloop

from mqlab.drivers import ReceivedBatch
from mqlab.drivers.api import Matrix
from mqlab.runner.agents.bodies import BodyMaker, message_ranges
from mqlab.runner.agents.receipts import ReceiptLog
from mqlab.runner.checks.calibration import Calibration, calibrate, combinations
from mqlab.study import Point
from mqlab.wire.native.bodies import Bodies
from runner.points import asking, point


def calibrated(chosen: Point) -> Calibration:
    return uvloop.run(calibrate(chosen))


@pytest.mark.parametrize(
    "chosen",
    [
        point(size=12), point(size=1024, batch=1), point(size=100_000), point(size=8_000_000, batch=1),
        point(size=68, sizes="50% 12B + 50% 124B"), asking(size=68, sizes="50% 24B + 50% 112B"),
        point(send="confirmed", batch=1), point(transaction=5, persistent=True), point(rate=10.0, selector="seq >= 0"),
        point(load="receive", messages=3), asking(size=12), asking(size=1024, persistent=True),
    ],
)  # fmt: skip
def test_every_kind_of_work_takes_time(chosen: Point) -> None:
    found = calibrated(chosen)
    assert (found.pattern, found.send, found.size) == (chosen.pattern, chosen.send, chosen.size)
    assert found.transacted == (chosen.transaction > 0)
    assert found.sent_call + found.sent_message > 0
    assert found.received_call + found.received_message > 0
    assert min(found.sent_call, found.sent_message, found.received_call, found.received_message) >= 0


def test_large_messages_are_measured_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    make, sizes = BodyMaker.make, []

    def count(self: BodyMaker, first_seq: int, rows: int) -> Matrix:
        made = make(self, first_seq, rows)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(BodyMaker, "make", count)
    calibrated(point(size=8_000_000, batch=1))
    assert sum(sizes) < 4e9


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_numbering_counts_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    make = BodyMaker.make

    def slow(self: BodyMaker, first_seq: int, rows: int) -> Matrix:
        spin(rows * 1e-5)
        return make(self, first_seq, rows)

    monkeypatch.setattr(BodyMaker, "make", slow)
    assert calibrated(point()).sent_message >= 0.9e-5


def test_checking_counts_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(bodies: Bodies) -> list[tuple[int, int, int, int]]:
        spin(len(bodies) * 1e-5)
        return message_ranges(bodies)

    monkeypatch.setattr("mqlab.runner.agents.receipts.message_ranges", slow)
    assert calibrated(point()).received_message >= 0.9e-5


def test_recording_counts_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    record = ReceiptLog.record

    def slow(self: ReceiptLog, arrival: ReceivedBatch, received: int) -> None:
        spin(1e-4)
        record(self, arrival, received)

    monkeypatch.setattr(ReceiptLog, "record", slow)
    assert calibrated(point()).received_call >= 0.9e-4


def test_one_point_stands_for_all_with_the_same_work() -> None:
    points = [
        point(size=12, batch=100), point(size=12, batch=1, domain="topic"), point(size=1024), point(send="confirmed"),
        point(transaction=5), point(transaction=10), asking(size=12), asking(size=12, requesters=300),
    ]  # fmt: skip
    found = [(one.size, one.pattern, one.send, one.transaction > 0) for one in combinations(points)]
    assert found == [
        (12, "one-way", "confirmed", False), (12, "one-way", "free", False), (12, "one-way", "free", True),
        (12, "request-reply", "free", False), (1024, "one-way", "free", False),
    ]  # fmt: skip
