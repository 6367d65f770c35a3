"""A run is steady, or the reason stands in its row and it counts for no figure while its point has another."""

import pytest

from table_rows import Row, Tables


def row(tables: Tables, scenario: str) -> Row:
    (found,) = [one for one in tables["noise"] if one["scenario"] == scenario]
    return found


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        ("steady", ""),
        ("too few arrive", "10.0 % less arrived than was sent; the backlog grew by 11.1 % of the arrivals"),
        ("the backlog grows", "the backlog grew by 3.1 % of the arrivals"),
        ("the rate falls", "the rate fell by 18.0 %"),
        ("a short latency", ""),
        ("a long latency", "a hundredth took 1.05 s or longer, the warm-up 1.00 s"),
        # A trend that changes the rate by 1 % is found and is not worth a word.
        ("a small trend", ""),
    ],
)
def test_a_run_is_steady_or_there_is_a_reason(tables: Tables, scenario: str, why: str) -> None:
    assert row(tables, scenario)["unsteady"] == why


@pytest.mark.parametrize("scenario", ["fixed work", "one side", "a slow consumer"])
def test_what_is_not_steady_by_design_is_not_judged(tables: Tables, scenario: str) -> None:
    """Half of the messages arrive after the measure phase."""
    assert row(tables, scenario)["unsteady"] == ""


@pytest.mark.parametrize(("scenario", "quiet"), [("steady", True), ("the rate falls", False)])
def test_a_point_without_a_steady_run_decides_nothing(tables: Tables, scenario: str, quiet: bool) -> None:
    (rate,) = [m for m in tables["measures"] if (m["scenario"], m["metric"]) == (scenario, "rate.received")]
    assert (rate["quiet"], rate["flagged"], rate["runs"]) == (quiet, int(not quiet), 1)


def test_a_point_with_a_steady_run_uses_that_one(tables: Tables) -> None:
    found = [one for one in tables["noise"] if one["scenario"] == "steady once"]
    assert [(bool(one["unsteady"]), one["used"]) for one in found] == [(True, False), (False, True)]
