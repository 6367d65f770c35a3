from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.events import recorder as recording
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE, Recorder, event_table
from mqlab.events.schema import OUTCOMES, ROWS, TABLES, EventRow, columns
from table_rows import Row


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "test")


def files(folder: RunFolder, table: str) -> list[Path]:
    return sorted((folder.events / table).glob("*.parquet"))


def rows(folder: RunFolder, table: str) -> list[Row]:
    return [row for file in files(folder, table) for row in pq.read_table(file).to_pylist()]


SEND = {
    "producer": 1, "destination": 0, "first_seq": 0, "count": 1, "bytes": 12, "t_planned": 10, "t_sent": 11,
    "t_confirmed": NO_TIME, "outcome": UNKNOWN_CODE,
}  # fmt: skip
RECEIPT = {
    "consumer": 1, "destination": 0, "producer": 1, "first_seq": 0, "count": 1, "bytes": 12, "damaged": 0, "ordinal": 0,
    "t_received": 20, "redelivered": 0, "t_acknowledged": NO_TIME,
}  # fmt: skip
ROUND_TRIP = {"requester": 1, "seq": 0, "t_planned": 10, "t_sent": 11, "t_received": NO_TIME, "mismatched": 0}
ANSWERED = {
    "requester": 1, "destination": 0, "seq": 0, "bytes": 12, "t_planned": 10, "t_sent": 11, "reply_destination": 1,
    "responder": 2, "reply_seq": 0, "reply_bytes": 12, "damaged": 0, "t_received": 20, "redelivered": 0,
    "mismatched": 0,
}  # fmt: skip


def record_one_of_each(recorder: Recorder) -> None:
    recorder.sends.append(**SEND)
    recorder.receipts.append(**RECEIPT)
    recorder.round_trips.append(**ROUND_TRIP)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_column_has_a_meaning(row: type[EventRow]) -> None:
    assert all(column.meaning for column in columns(row))
    assert [column.name for column in columns(row)] == TABLES[row.table].names


def test_a_row_takes_its_columns_by_name_only(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    with pytest.raises(TypeError):
        recorder.sends.append(*SEND.values())  # type: ignore[call-arg] # the test shows that it is refused
    with pytest.raises(TypeError):
        recorder.sends.append(**{name: value for name, value in SEND.items() if name != "outcome"})


def test_without_a_folder_nothing_is_recorded() -> None:
    recorder = Recorder(None, run=1, agent=1)
    record_one_of_each(recorder)
    pending = recorder.sends.pending()
    pending.append(**SEND)
    pending.release(outcome=CONFIRMED_CODE)
    recorder.answered.append(**ANSWERED)
    recorder.close()
    assert not recorder.sends.numbers
    assert not recorder.answered.numbers


def test_a_send_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    recorder.sends.append(
        producer=3, destination=4, first_seq=2**40, count=10, bytes=120, t_planned=2**60, t_sent=2**60 + 1,
        t_confirmed=2**60 + 2, outcome=CONFIRMED_CODE,
    )  # fmt: skip
    recorder.close()
    assert rows(folder, "sends") == [{
        "run": 7, "agent": 2, "producer": 3, "destination": 4, "first_seq": 2**40, "count": 10, "bytes": 120,
        "t_planned": 2**60, "t_sent": 2**60 + 1, "t_confirmed": 2**60 + 2, "outcome": "confirmed",
    }]  # fmt: skip


def test_a_receipt_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    recorder.receipts.append(
        consumer=5, destination=4, producer=3, first_seq=2**40, count=10, bytes=120, damaged=4, ordinal=9,
        t_received=2**60, redelivered=1, t_acknowledged=2**60 + 1,
    )  # fmt: skip
    recorder.receipts.append(
        consumer=5, destination=4, producer=3, first_seq=2**40 + 10, count=1, bytes=12, damaged=0, ordinal=10,
        t_received=2**60 + 2, redelivered=0, t_acknowledged=NO_TIME,
    )  # fmt: skip
    recorder.close()
    first = {
        "run": 7, "agent": 2, "consumer": 5, "destination": 4, "producer": 3, "first_seq": 2**40, "count": 10,
        "bytes": 120, "damaged": 4, "ordinal": 9, "t_received": 2**60, "redelivered": True, "t_acknowledged": 2**60 + 1,
    }  # fmt: skip
    second = {
        **first, "first_seq": 2**40 + 10, "count": 1, "bytes": 12, "damaged": 0, "ordinal": 10, "t_received": 2**60 + 2,
        "redelivered": False, "t_acknowledged": None,
    }  # fmt: skip
    assert rows(folder, "receipts") == [first, second]


def test_a_request_with_its_reply_is_written_as_a_send_a_receipt_and_a_round_trip(folder: RunFolder) -> None:
    one, other = Recorder(folder, run=7, agent=2), Recorder(folder, run=7, agent=3)
    one.sends.append(
        producer=3, destination=4, first_seq=2**40, count=1, bytes=1000, t_planned=2**60, t_sent=2**60 + 1,
        t_confirmed=NO_TIME, outcome=CONFIRMED_CODE,
    )  # fmt: skip
    one.receipts.append(
        consumer=3, destination=6, producer=9, first_seq=2**41, count=1, bytes=500, damaged=1, ordinal=2**40,
        t_received=2**60 + 9, redelivered=1, t_acknowledged=NO_TIME,
    )  # fmt: skip
    one.round_trips.append(
        requester=3, seq=2**40, t_planned=2**60, t_sent=2**60 + 1, t_received=2**60 + 9, mismatched=1
    )
    other.answered.append(
        requester=3, destination=4, seq=2**40, bytes=1000, t_planned=2**60, t_sent=2**60 + 1, reply_destination=6,
        responder=9, reply_seq=2**41, reply_bytes=500, damaged=1, t_received=2**60 + 9, redelivered=1,
        mismatched=1,
    )  # fmt: skip
    one.close()
    other.close()
    for table in ("sends", "receipts", "round_trips"):
        first, second = rows(folder, table)
        assert second == {**first, "agent": 3}


def test_a_round_trip_is_written_with_all_its_columns(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=7, agent=2)
    sent = {"requester": 3, "t_planned": 2**60, "t_sent": 2**60 + 1}
    recorder.round_trips.append(**sent, seq=2**40, t_received=2**60 + 2, mismatched=0)
    recorder.round_trips.append(**sent, seq=2**40 + 1, t_received=NO_TIME, mismatched=1)
    recorder.close()
    first = {"run": 7, "agent": 2, **sent, "seq": 2**40, "t_received": 2**60 + 2, "mismatched": False}
    second = {**first, "seq": 2**40 + 1, "t_received": None, "mismatched": True}
    assert rows(folder, "round_trips") == [first, second]


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
    recorder.sends.append(**{**SEND, "outcome": code})
    recorder.close()
    assert [(row["outcome"], row["t_confirmed"]) for row in rows(folder, "sends")] == [(OUTCOMES[code], None)]


def test_only_a_missing_time_is_null(folder: RunFolder) -> None:
    """-1 stands for no time; in a column that must have a value it stays what it is."""
    recorder = Recorder(folder, run=1, agent=1)
    recorder.sends.append(**{**SEND, "t_planned": -1, "t_sent": -1, "t_confirmed": -1})
    recorder.close()
    (row,) = rows(folder, "sends")
    assert (row["t_planned"], row["t_sent"], row["t_confirmed"]) == (-1, -1, None)


class TestUnconfirmedSends:
    def outcomes(self, folder: RunFolder) -> dict[tuple[int, int], tuple[str, int | None]]:
        return {
            (row["producer"], row["first_seq"]): (row["outcome"], row["t_confirmed"]) for row in rows(folder, "sends")
        }

    def test_only_released_sends_are_confirmed(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        released, unreleased = recorder.sends.pending(), recorder.sends.pending()
        for seq in range(3):
            released.append(**{**SEND, "producer": 1, "first_seq": seq})
            unreleased.append(**{**SEND, "producer": 2, "first_seq": seq})
        released.release(outcome=CONFIRMED_CODE)
        recorder.close()
        assert self.outcomes(folder) == {
            **{(1, seq): ("confirmed", None) for seq in range(3)},
            **{(2, seq): ("unknown", None) for seq in range(3)},
        }

    def test_a_send_after_the_release_is_unknown(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        pending = recorder.sends.pending()
        pending.append(**SEND)
        pending.release(outcome=CONFIRMED_CODE)
        pending.append(**{**SEND, "first_seq": 1})
        recorder.close()
        assert self.outcomes(folder) == {(1, 0): ("confirmed", None), (1, 1): ("unknown", None)}

    def test_a_release_without_rows_changes_nothing(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        recorder.sends.append(**SEND)
        recorder.sends.pending().release(outcome=CONFIRMED_CODE)
        recorder.close()
        assert self.outcomes(folder) == {(1, 0): ("unknown", None)}


class TestSpilling:
    @pytest.fixture(autouse=True)
    def _little_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recording, "_BUFFER_NUMBERS", 100)

    def sends(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.sends.append(**{**SEND, "first_seq": seq})

    def receipts(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.receipts.append(**{**RECEIPT, "first_seq": seq})

    def round_trips(self, recorder: Recorder, number: int) -> None:
        for seq in range(number):
            recorder.round_trips.append(**{**ROUND_TRIP, "seq": seq})

    def test_requests_with_their_replies_become_several_files_too(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        for seq in range(1000):
            recorder.answered.append(**{**ANSWERED, "seq": seq, "reply_seq": seq})
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

    def test_released_sends_are_all_written(self, folder: RunFolder) -> None:
        recorder = Recorder(folder, run=1, agent=1)
        producers = [recorder.sends.pending() for _ in range(3)]
        for seq in range(500):
            producers[seq % 3].append(**{**SEND, "producer": seq % 3, "first_seq": seq})
        for pending in producers:
            pending.release(outcome=CONFIRMED_CODE)
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
        table = event_table("samples", [{"run": 1, "source": "broker", "t": 5, "cpu_seconds": 0.5, "rss": 7}])
        assert table.schema.equals(TABLES["samples"])
        (row,) = table.to_pylist()
        assert (row["cpu_seconds"], row["syncs"], row["blocked"]) == (0.5, None, None)

    def test_no_rows_have_the_schema_too(self) -> None:
        assert event_table("phases", []).schema.equals(TABLES["phases"])

    def test_a_missing_column_is_not_written_as_null(self, folder: RunFolder) -> None:
        with pytest.raises((ValueError, pa.ArrowException)):
            folder.write_events(
                "phases", "run-1", event_table("phases", [{"run": 1, "phase": "measure", "t_start": 1}])
            )


def test_events_are_written_before_the_end_only_if_somebody_follows(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    record_one_of_each(recorder)
    recorder.answered.append(**ANSWERED)
    recorder.roll()
    assert files(folder, "sends") == []
    follower = folder.path / ".follow-1"
    follower.mkdir()
    recorder.roll()
    recorder._wait_for_roll()
    assert [len(rows(folder, table)) for table in ("sends", "receipts", "round_trips")] == [2, 2, 2]
    recorder.sends.append(**SEND)
    recorder.close()
    assert [len(rows(folder, table)) for table in ("sends", "receipts", "round_trips")] == [3, 2, 2]


def test_events_that_cannot_be_written_early_fail_the_run(folder: RunFolder) -> None:
    recorder = Recorder(folder, run=1, agent=1)
    record_one_of_each(recorder)
    (folder.path / ".follow-1").mkdir()
    folder.events.rmdir()
    recorder.roll()
    with pytest.raises(FileNotFoundError):
        recorder.close()
