"""What is shown against time: messages by the second and finer, the depth, and when producers were first held back."""

import pytest

from pipeline.cases import CASES
from table_rows import Row, Tables


def rows_of(tables: Tables, table: str, name: str) -> list[Row]:
    return [row for row in tables[table] if row["run"] == CASES[name].number]


def onset(tables: Tables, name: str) -> list[float]:
    return [row["value"] for row in rows_of(tables, "run_measures", name) if row["metric"] == "onset"]


def test_series_has_every_second_also_the_silent(tables: Tables) -> None:
    rows = [row for row in tables["series"] if row["run"] == CASES["at the edges"].number]
    found = [(row["second"], row["sent"], row["received"], row["phase"]) for row in rows]
    assert found == [
        (0, 1.0, 1.0, "warm-up"),
        (1, 2.0, 2.0, "measure"),
        (2, 4.0, 4.0, "measure"),
        (3, 8.0, 8.0, "drain"),
    ]
    silent = [row for row in tables["series"] if row["run"] == CASES["clean"].number]
    assert [row["received"] for row in silent] == [0.0, 0.0, 20.0]


def test_paces_are_rates_within_a_fifth_of_a_second(tables: Tables) -> None:
    rows = rows_of(tables, "paces", "at the edges")
    moved = {row["seconds"]: (row["sent"], row["received"], row["phase"]) for row in rows if row["sent"]}
    # The one just before the measure phase lies in a slot that ends with the warm-up.
    assert moved == {
        0.8: (5.0, 5.0, "warm-up"),
        1.0: (10.0, 10.0, "measure"),
        2.8: (20.0, 20.0, "measure"),
        3.0: (40.0, 40.0, "drain"),
    }
    assert [row["seconds"] for row in rows] == pytest.approx([slot / 5 for slot in range(16)])


def test_the_load_begins_with_the_measure_phase_where_there_is_no_warm_up(tables: Tables) -> None:
    rows = rows_of(tables, "series", "only receives")
    assert [(row["second"], row["sent"], row["received"], row["phase"]) for row in rows] == [
        (0, 0.0, 4.0, "measure"),
        (1, 0.0, 6.0, "measure"),
    ]


def test_onset_is_the_first_look_at_which_holds_had_grown_since_the_load_began(tables: Tables) -> None:
    assert onset(tables, "held back") == [0.3]
    assert onset(tables, "not held back") == []
    assert onset(tables, "never looked at before the load") == [2.0]


def test_depths_count_from_the_start_of_the_load(tables: Tables) -> None:
    rows = rows_of(tables, "depths", "held back")
    columns = ("source", "seconds", "depth", "blocked", "holds")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("broker", 0.1, 2, 0, 0),
        ("broker", 0.3, 70, 1, 2),
        ("broker", 0.5, 80, 0, 3),
        ("broker", 1.2, 90, 0, 3),
    ]
    assert [row["held_seconds"] for row in rows] == pytest.approx([0.0, 0.2, 0.3, 0.3])


def test_series_has_the_depth_at_the_last_look_of_a_second(tables: Tables) -> None:
    assert [row["depth"] for row in rows_of(tables, "series", "held back")] == [80.0, 90.0, None]
