"""How messages travelled, as agents and drivers recorded it; and which points cannot be packed."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mqlab.client.producer import MAX_ROWS
from mqlab.runner.capability import why_unsupported
from mqlab.study import Point
from mqlab.systems import SystemSettingError, system

from .lab import conducted
from .points import asking, point

Row = dict[str, int | str | None]


def travelled(path: Path, chosen: Point, on: str) -> dict[str, Row]:
    """The rows of the table `travel` of one run, by role."""
    folder = conducted(path, [chosen], agents=2, systems=[on])
    rows: list[Row] = [row for file in folder.event_files("travel") for row in pq.read_table(file).to_pylist()]
    return {str(row["role"]): row for row in rows}


def test_message_by_message_every_record_is_a_message(tmp_path: Path) -> None:
    many = 2 * MAX_ROWS + 1
    roles = travelled(tmp_path, point(messages=many), "embedded")
    sent, received = roles["producer"], roles["consumer"]
    assert (sent["sent_records"], sent["sent_messages"], sent["waits"]) == (many, many, 0)
    assert (received["received_records"], received["received_messages"]) == (many, many)
    # The client library coalesced the messages of each call.
    assert sent["sent_frames"] == 3
    assert received["received_frames"] is not None


def test_confirmed_one_by_one_a_producer_waits_as_often_as_it_sends(tmp_path: Path) -> None:
    roles = travelled(tmp_path, point(messages=50, send="confirmed", batch=1), "embedded:driver=stomp")
    assert [roles["producer"][name] for name in ("sent_messages", "sent_frames", "waits")] == [50, 50, 50]


def test_a_transaction_is_not_packed(tmp_path: Path) -> None:
    roles = travelled(tmp_path, point(messages=100, transaction=10, send="confirmed"), "embedded")
    assert [roles["producer"][name] for name in ("sent_records", "sent_messages", "waits")] == [100, 100, 10]


@pytest.mark.parametrize("driver", ["native", "stomp"])
def test_packed_records_share_a_message_on_both_sides(tmp_path: Path, driver: str) -> None:
    roles = travelled(tmp_path, point(messages=1000), f"embedded:driver={driver},packed=100")
    sent, received = roles["producer"], roles["consumer"]
    assert [sent[name] for name in ("sent_records", "sent_messages", "sent_frames")] == [1000, 10, 10]
    assert [received[name] for name in ("received_records", "received_messages", "received_frames")] == [1000, 10, 10]


def test_points_that_cannot_be_packed() -> None:
    native, stomp = system("embedded:packed=100"), system("embedded:packed=100,driver=stomp")
    assert why_unsupported(native, point()) == ""
    assert "a requester waits for the reply to each request" in why_unsupported(native, asking())
    assert "a transaction of 10 is smaller than a message of 100 records" in why_unsupported(
        native, point(transaction=10)
    )
    assert "are more than the largest body, 8MiB" in why_unsupported(native, point(size=1 << 20))
    assert "the point has 99 messages in all" in why_unsupported(native, point(messages=99))
    selecting = point(selector="seq >= 0")
    assert why_unsupported(native, selecting) == ""
    assert "a selector chooses whole messages" in why_unsupported(stomp, selecting)


@pytest.mark.parametrize("text", ["1", "0", "-5", "many", "1000001", ""])
@pytest.mark.parametrize("name", ["embedded", "nats"])
def test_packed_is_a_number_of_records(name: str, text: str) -> None:
    with pytest.raises(SystemSettingError, match="is not a number of records from 2 to 1000000"):
        system(f"{name}:packed={text}")
