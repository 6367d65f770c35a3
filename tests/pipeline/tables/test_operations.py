"""What was traced, of operations whose durations are known beforehand."""

import pytest

from table_rows import Tables


def test_operations_of_the_valid_runs_by_kind_of_application(tables: Tables) -> None:
    found = {(row["application"], row["operation"]): row for row in tables["operations"]}
    assert set(found) == {("Requester", "put"), ("Requester", "get"), ("reader", "get")}
    puts = found["Requester", "put"]
    assert (puts["scenario"], puts["point"], puts["system"]) == ("traced", "", "embedded")
    assert (puts["count"], puts["messages"], puts["bytes"], puts["failed"]) == (102, 102, 1_030, 0)
    # One second of the first run and three of the second.
    assert puts["rate"] == pytest.approx(102 / 4)
    assert puts["mean"] == pytest.approx((5_050 + 500) / 102 / 1e6)
    assert (puts["p50"], puts["p90"], puts["p99"]) == pytest.approx((51e-6, 92e-6, 200e-6), rel=0.01)
    assert puts["max"] == 300e-6


def test_what_went_wrong_is_counted(tables: Tables) -> None:
    found = {(row["application"], row["operation"]): row["failed"] for row in tables["operations"]}
    assert found == {("Requester", "put"): 0, ("Requester", "get"): 1, ("reader", "get"): 0}
