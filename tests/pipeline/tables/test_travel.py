"""How messages travelled: by the counters of the roles, not by what was planned."""

import pytest

from mqlab.study.travel import CONFIRMED_ONE_BY_ONE, MESSAGE_BY_MESSAGE, PACKED, way_of_travel
from table_rows import Tables


def measured(tables: Tables, scenario: str) -> dict[str, float]:
    names = ("message.records", "frame.messages", "message.waits")
    rows = [row for row in tables["measures"] if row["scenario"] == scenario and row["metric"] in names]
    return {row["metric"]: row["value"] for row in rows}


@pytest.mark.parametrize(
    ("scenario", "records", "messages", "waits", "way"),
    [
        ("travel: message by message", 1.0, 8.0, 0.0, MESSAGE_BY_MESSAGE),
        ("travel: confirmed one by one", 1.0, 1.0, 1.0, CONFIRMED_ONE_BY_ONE),
        ("travel: packed", 100.0, 1.0, 1.0, PACKED),
    ],
)
def test_the_way_follows_from_the_counters(
    tables: Tables, scenario: str, records: float, messages: float, waits: float, way: str
) -> None:
    found = measured(tables, scenario)
    assert found == {"message.records": records, "frame.messages": messages, "message.waits": waits}
    assert way_of_travel(found["message.records"], found["message.waits"]) == way


def test_a_library_that_tells_no_frames_leaves_them_open(tables: Tables) -> None:
    assert measured(tables, "travel: frames unknown") == {"message.records": 1.0, "message.waits": 0.0}


def test_runs_that_recorded_no_travel_have_no_way(tables: Tables) -> None:
    assert measured(tables, "clean") == {}
