"""Messages that were sent together, or received together, are one observation of a duration."""

from pipeline.cases import CASES
from table_rows import Tables


def observations(tables: Tables, table: str, name: str) -> dict[str, int | None]:
    run = CASES[name]
    found = [row for row in tables[table] if (row["scenario"], row["point"]) == (run.scenario, run.point)]
    return {row["metric"]: row["observations"] for row in found}


def test_the_fewer_of_sends_and_receipts_count(tables: Tables) -> None:
    """Twenty messages in two sends and two receipts; the other has 100 sends and as many receipts."""
    assert observations(tables, "run_measures", "clean")["latency.p50"] == 2
    assert observations(tables, "run_measures", "steady")["latency.p99"] == 100
    assert observations(tables, "run_measures", "steady")["rate.received"] is None


def test_those_of_all_used_runs_count_for_a_point(tables: Tables) -> None:
    """Three runs of one send and one receipt each."""
    assert observations(tables, "measures", "repeated 0")["latency.p50"] == 3
