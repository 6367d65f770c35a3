"""Disturbed runs count for no figure, unless their point has no others."""

import pytest

from pipeline.cases import CASES
from table_rows import Row, Tables


def of(tables: Tables, table: str, scenario: str) -> list[Row]:
    return [row for row in tables[table] if row["scenario"] == scenario]


def rate(tables: Tables, scenario: str) -> Row:
    (row,) = [row for row in of(tables, "measures", scenario) if row["metric"] == "rate.received"]
    return row


def test_a_disturbed_run_is_not_used(tables: Tables) -> None:
    noise = of(tables, "noise", "disturbed once")
    assert [(row["repetition"], row["valid"], row["disturbed"], row["used"]) for row in noise] == [
        (1, True, "", True),
        (2, True, "by cc1", False),
        (2, True, "", True),
        (3, True, "", True),
        (4, False, "by cc1", False),
    ]
    row = rate(tables, "disturbed once")
    assert row["value"] == pytest.approx((1_000 + 1_200 + 1_100) / 3 / 2)
    assert (row["runs"], row["attempted"], row["void"], row["flagged"], row["quiet"]) == (3, 5, 1, 1, True)
    used = {row["run"] for row in of(tables, "run_measures", "disturbed once")}
    assert used == {row["run"] for row in noise if row["used"]}
    assert {row["run"] for row in of(tables, "series", "disturbed once")} == used


def test_a_point_without_an_undisturbed_run_is_marked(tables: Tables) -> None:
    """Of each repetition the last run counts: a pair of it with that of another system is one ratio."""
    noise = of(tables, "noise", "disturbed always")
    assert [(row["repetition"], row["used"]) for row in noise] == [(1, False), (1, True), (2, True)]
    row = rate(tables, "disturbed always")
    assert row["value"] == pytest.approx((500 + 700) / 2 / 2)
    assert (row["runs"], row["flagged"], row["quiet"]) == (2, 3, False)


def test_shares_of_the_processors_and_of_the_time(tables: Tables) -> None:
    quiet, disturbed = of(tables, "noise", "disturbed once")[:2]
    assert (quiet["steal"], quiet["foreign"], quiet["foreign_name"]) == (0.0, 0.0, "")
    assert (quiet["cpu_wait"], quiet["memory_wait"], quiet["disk_wait"], quiet["clock_hz"]) == (0.25, 0.0, None, 2.5e9)
    assert (disturbed["steal"], disturbed["foreign"], disturbed["foreign_name"]) == (0.25, 0.125, "cc1")


def test_a_run_that_was_not_watched_counts(tables: Tables) -> None:
    (row,) = of(tables, "noise", "clean")
    assert row["run"] == CASES["clean"].number
    assert (row["used"], row["disturbed"], row["steal"], row["foreign"]) == (True, "", None, None)
    assert rate(tables, "clean")["quiet"] is True
