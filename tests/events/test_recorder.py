from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.events import recorder as recording
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE, Recorder, rows_of
from mqlab.events.schema import OUTCOMES, TABLES


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "test")


def files(folder: RunFolder, table: str) -> list[Path]:
    return sorted((folder.events / table).glob("*.parquet"))


def rows(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    return [row for file in files(folder, table) for row in pq.read_table(file).to_pylist()]


def record_one_of_each(recorder: Recorder) -> None:
    recorder.sent(3, 4, 100, 10, 120, 1_000, 1_001, 1_002, CONFIRMED_CODE)
    recorder.received(5, 4, 3, 100, 10, 120, 0, 2_000, 1, 2_001)
    recorder.round_trip(3, 100, 1_000, 1_001, 2_000)


def test_a_send_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    recorder.sent(3, 4, 2**40, 10, 120, 2**60, 2**60 + 1, 2**60 + 2, CONFIRMED_CODE)
    recorder.close()
    assert rows(folder, "sends") == [{
        "run": 7, "agent": 2, "producer": 3, "destination": 4, "first_seq": 2**40, "count": 10, "bytes": 120,
        "t_planned": 2**60, "t_sent": 2**60 + 1, "t_confirmed": 2**60 + 2, "outcome": "confirmed",
    }]  # fmt: skip


def test_a_receipt_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    recorder.received(5, 4, 3, 2**40, 10, 120, 9, 2**60, 1, 2**60 + 1)
    recorder.received(5, 4, 3, 2**40 + 10, 1, 12, 10, 2**60 + 2, 0, NO_TIME)
    recorder.close()
    first = {
        "run": 7, "agent": 2, "consumer": 5, "destination": 4, "producer": 3, "first_seq": 2**40, "count": 10,
        "bytes": 120, "ordinal": 9, "t_received": 2**60, "redelivered": True, "t_acknowledged": 2**60 + 1,
    }  # fmt: skip
    second = {
        **first, "first_seq": 2**40 + 10, "count": 1, "bytes": 12, "ordinal": 10, "t_received": 2**60 + 2,
        "redelivered": False, "t_acknowledged": None,
    }  # fmt: skip
    assert rows(folder, "receipts") == [first, second]


def test_a_request_with_its_reply_is_written_as_a_send_a_receipt_and_a_round_trip(folder: RunFolder) -> None:
    one, other = Recorder(folder, run=7, agent=2), Recorder(folder, run=7, agent=3)
    one.sent(3, 4, 2**40, 1, 1000, 2**60, 2**60 + 1, NO_TIME, CONFIRMED_CODE)
    one.received(3, 6, 9, 2**41, 1, 500, 2**40, 2**60 + 9, 1, NO_TIME)
    one.round_trip(3, 2**40, 2**60, 2**60 + 1, 2**60 + 9)
    other.answered(3, 4, 2**40, 1000, 2**60, 2**60 + 1, 6, 9, 2**41, 500, 2**60 + 9, 1)
    one.close()
    other.close()
    for table in ("sends", "receipts", "round_trips"):
        first, second = rows(folder, table)
        assert second == {**first, "agent": 3}


def test_a_round_trip_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    recorder.round_trip(3, 2**40, 2**60, 2**60 + 1, 2**60 + 2)
    recorder.round_trip(3, 2**40 + 1, 2**60, 2**60 + 1, NO_TIME)
    recorder.close()
    first = {
        "run": 7, "agent": 2, "requester": 3, "seq": 2**40, "t_planned": 2**60, "t_sent": 2**60 + 1,
        "t_received": 2**60 + 2,
    }  # fmt: skip
    assert rows(folder, "round_trips") == [first, {**first, "seq": 2**40 + 1, "t_received": None}]


@pytest.mark.parametrize("table", ["sends", "receipts", "round_trips"])
def test_the_files_have_exactly_the_schema(folder: RunFolder, table: str) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    record_one_of_each(recorder)
    recorder.close()
    (file,) = files(folder, table)
    # Names, their order, types and nullability.
    assert pq.read_schema(file).remove_metadata().equals(TABLES[table])


@pytest.mark.parametrize("code", range(len(OUTCOMES)))
def test_every_outcome_is_written_by_its_name(folder: RunFolder, code: int) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    recorder.sent(0, 0, 0, 1, 12, 1, 2, NO_TIME, code)
    recorder.close()
    assert [(row["outcome"], row["t_confirmed"]) for row in rows(folder, "sends")] == [(OUTCOMES[code], None)]


def test_only_a_missing_time_is_null(folder: RunFolder) -> None:
    """-1 stands for no time; in a column that must have a value it stays what it is."""
    recorder = Recorder(folder, run=1, agent=1)
    recorder.sent(0, 0, 0, 1, 12, -1, -1, -1, UNKNOWN_CODE)
    recorder.close()
    (row,) = rows(folder, "sends")
    assert (row["t_planned"], row["t_sent"], row["t_confirmed"]) == (-1, -1, None)


class TestFreeSends:
    def outcomes(self, folder: RunFolder) -> dict[tuple[int, int], tuple[str, int | None]]:
        return {
            (row["producer"], row["first_seq"]): (row["outcome"], row["t_confirmed"]) for row in rows(folder, "sends")
        }

    def test_they_are_confirmed_when_the_system_accepted_them_and_only_those(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        for seq in range(3):
            recorder.sent_freely(1, 0, seq, 1, 12, 10, 11)
            recorder.sent_freely(2, 0, seq, 1, 12, 10, 11)
        recorder.accepted(1)
        recorder.close()
        assert self.outcomes(folder) == {
            **{(1, seq): ("confirmed", None) for seq in range(3)},
            **{(2, seq): ("unknown", None) for seq in range(3)},
        }

    def test_what_was_sent_after_the_acceptance_is_unknown(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        recorder.sent_freely(1, 0, 0, 1, 12, 10, 11)
        recorder.accepted(1)
        recorder.sent_freely(1, 0, 1, 1, 12, 10, 11)
        recorder.close()
        assert self.outcomes(folder) == {(1, 0): ("confirmed", None), (1, 1): ("unknown", None)}

    def test_a_producer_that_sent_nothing_freely_may_be_accepted(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        recorder.sent(1, 0, 0, 1, 12, 10, 11, NO_TIME, UNKNOWN_CODE)
        recorder.accepted(1)
        recorder.close()
        assert self.outcomes(folder) == {(1, 0): ("unknown", None)}


class TestSpilling:
    @pytest.fixture(autouse=True)
    def _little_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recording, "_MOST_NUMBERS", 100)

    def sends(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.sent(1, 0, seq, 1, 12, seq, seq, seq, CONFIRMED_CODE)

    def receipts(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.received(1, 0, 1, seq, 1, 12, seq, seq, 0, NO_TIME)

    def round_trips(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.round_trip(1, seq, seq, seq, NO_TIME)

    def test_requests_with_their_replies_become_several_files_too(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        for seq in range(1000):
            recorder.answered(1, 0, seq, 12, seq, seq, 1, 2, seq, 12, seq, 0)
        assert len(files(folder, "round_trips")) >= 45, "rows must not wait for the end"
        recorder.close()
        for table, number in (("sends", "first_seq"), ("receipts", "first_seq"), ("round_trips", "seq")):
            assert sorted(row[number] for row in rows(folder, table)) == list(range(1000))

    @pytest.mark.parametrize(("table", "number"), [("sends", "first_seq"), ("receipts", "first_seq"),
                                                   ("round_trips", "seq")])  # fmt: skip
    def test_many_rows_become_several_files_and_none_is_lost(self, folder: RunFolder, table: str, number: str) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        write: Callable[[Recorder, int], None] = getattr(self, table)
        write(recorder, 1000)
        before = len(files(folder, table))
        recorder.close()
        assert before >= 45, "rows must not wait for the end"
        assert sorted(row[number] for row in rows(folder, table)) == list(range(1000))

    def test_no_file_of_one_agent_takes_the_place_of_another(self, folder: RunFolder) -> None:
        recorders = [Recorder(folder, run, agent) for run in (1, 2) for agent in (1, 2)]
        for recorder in recorders:
            self.sends(recorder, 30)
            self.receipts(recorder, 30)
        for recorder in recorders:
            recorder.close()
        for table in ("sends", "receipts"):
            found = sorted((row["run"], row["agent"], row["first_seq"]) for row in rows(folder, table))
            assert found == [(run, agent, seq) for run in (1, 2) for agent in (1, 2) for seq in range(30)]

    def test_free_sends_of_an_accepted_producer_are_all_there(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        for seq in range(500):
            recorder.sent_freely(seq % 3, 0, seq, 1, 12, seq, seq)
        for producer in range(3):
            recorder.accepted(producer)
        recorder.close()
        found = rows(folder, "sends")
        assert sorted(row["first_seq"] for row in found) == list(range(500))
        assert {row["outcome"] for row in found} == {"confirmed"}


def test_without_events_there_is_no_file(folder: RunFolder) -> None:
    Recorder(folder, run=1, agent=1).close()
    assert [*folder.events.rglob("*")] == []


def test_closing_twice_writes_once(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    record_one_of_each(recorder)
    recorder.close()
    recorder.close()
    assert [len(rows(folder, table)) for table in ("sends", "receipts", "round_trips")] == [1, 1, 1]


class TestSmallTables:
    def test_columns_that_may_be_missing_are_null(self) -> None:
        table = rows_of("samples", [{"run": 1, "source": "broker", "t": 5, "cpu_seconds": 0.5, "rss": 7}])
        assert table.schema.equals(TABLES["samples"])
        (row,) = table.to_pylist()
        assert (row["cpu_seconds"], row["syncs"], row["blocked"]) == (0.5, None, None)

    def test_no_rows_have_the_schema_too(self) -> None:
        assert rows_of("phases", []).schema.equals(TABLES["phases"])

    def test_a_missing_column_is_not_written_as_null(self, folder: RunFolder) -> None:
        with pytest.raises((ValueError, pa.ArrowException)):
            folder.write_events("phases", "run-1", rows_of("phases", [{"run": 1, "phase": "measure", "t_start": 1}]))
