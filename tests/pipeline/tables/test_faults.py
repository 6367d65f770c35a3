"""The effect of faults, in runs that were made up: a message is planned every tenth of a second."""

import pytest

from mqlab.pipeline.schema import UNSERVED
from pipeline.cases import CASES
from table_rows import Row, Tables


def effects(tables: Tables, name: str) -> list[Row]:
    return [row for row in tables["faults"] if row["run"] == CASES[name].number]


def figures(row: Row) -> dict[str, object]:
    names = ("started", "lasted", "outage", "recovery", "messages", "latency_p50", "latency_p99", "latency_max")
    return {name: None if row[name] is None else round(row[name], 6) for name in names}


def test_the_outage_is_the_longest_time_between_two_first_deliveries_from_the_fault_on(tables: Tables) -> None:
    (killed,) = effects(tables, "killed once")
    # From 405 ms to 910 ms; a copy that came at 900 ms was no first delivery. At 970 ms one message is on its way, as
    # before the fault. The five messages between took 410, 350, 260, 170 and 80 ms from their planned time.
    assert figures(killed) == {
        "started": 1.45, "lasted": 0.4, "outage": 0.505, "recovery": 0.52, "messages": 5,
        "latency_p50": 0.26, "latency_p99": 0.4076, "latency_max": 0.41,
    }  # fmt: skip
    assert (killed["kind"], killed["fault"], killed["number"]) == ("kill", "kill at 1s", 1)


def test_a_system_that_serves_no_more_is_out_until_the_drain_ends_or_longer(tables: Tables) -> None:
    first, last = effects(tables, "killed for good")
    assert figures(first) == figures(effects(tables, "killed once")[0]), "the second fault does not count for the first"
    # The last message came at 1,405 ms, and the drain phase ended at 3 s: the outage is that or longer.
    assert figures(last) == {
        "started": 2.45, "lasted": None, "outage": 1.595, "recovery": None, "messages": None,
        "latency_p50": None, "latency_p99": None, "latency_max": None,
    }  # fmt: skip
    assert [first["served"], last["served"]] == [True, False]


def test_a_system_is_not_missed_after_the_last_message(tables: Tables) -> None:
    """The fault comes after the last message that was planned: it says nothing about the service."""
    (late,) = effects(tables, "a fault behind the last message")
    assert (late["served"], round(late["outage"], 6)) == (True, 0.095)


def of_three_runs(tables: Tables, table: str, metric: str) -> list[Row]:
    return [row for row in tables[table] if (row["scenario"], row["metric"]) == ("three runs", metric)]


def test_a_point_of_which_a_run_never_recovered_has_no_time_to_recover(tables: Tables) -> None:
    recovered, unrecovered, unserved = (
        effects(tables, name)[0]
        for name in ("killed, and recovered", "the next fault is too early", "never served again")
    )
    assert round(recovered["recovery"], 6) == 0.52
    assert (unrecovered["served"], unrecovered["recovery"]) == (True, None)
    assert (unserved["served"], unserved["recovery"]) == (False, None)
    assert [row["status"] for row in tables["audits"] if row["scenario"] == "three runs"] == ["clean"] * 3
    for table in ("run_measures", "measures"):
        assert of_three_runs(tables, table, "fault.recovery") == []


def test_the_outage_of_a_run_that_was_never_served_again_is_a_lower_bound(tables: Tables) -> None:
    # From 405 ms to the end of the drain phase, at 3 s.
    values = [round(row["value"], 6) for row in of_three_runs(tables, "run_measures", "fault.outage")]
    assert values == [0.505, 0.505, 2.595]
    (outage,) = of_three_runs(tables, "measures", "fault.outage")
    assert (round(outage["value"], 6), outage["runs"], outage["bound_by"]) == (1.201667, 3, UNSERVED)
    (served,) = [
        row for row in tables["measures"] if (row["scenario"], row["metric"]) == ("killed once", "fault.outage")
    ]
    assert served["bound_by"] is None


def test_a_fault_without_effect_is_over_with_the_next_message(tables: Tables) -> None:
    (none,) = effects(tables, "a fault without effect")
    # Messages come every 100 ms; the first moment with no more than one on its way is that of a planned message.
    assert figures(none) | {"messages": 0} == {
        "started": 1.45, "lasted": 0.01, "outage": 0.1, "recovery": 0.055, "messages": 0,
        "latency_p50": 0.005, "latency_p99": 0.005, "latency_max": 0.005,
    }  # fmt: skip


def test_an_incomplete_run_says_nothing_of_its_faults(tables: Tables) -> None:
    assert effects(tables, "a fault in an incomplete run") == []


def test_the_accounts_of_a_run_with_a_fault(tables: Tables) -> None:
    (audit,) = [row for row in tables["audits"] if row["run"] == CASES["killed once"].number]
    counted = {name: audit[name] for name in ("status", "expected", "delivered", "lost", "resent", "duplicated")}
    assert counted == {"status": "clean", "expected": 20, "delivered": 20, "lost": 0, "resent": 1, "duplicated": 0}
    assert (audit["duplicated_marked"], audit["duplicated_resent"], audit["out_of_order"]) == (1, 0, 0)


@pytest.mark.parametrize(("metric", "value"), [("fault.outage", 0.505), ("fault.recovery", 0.52)])
def test_the_worst_fault_of_a_run_is_a_metric(tables: Tables, metric: str, value: float) -> None:
    (row,) = [
        row for row in tables["run_measures"] if row["run"] == CASES["killed once"].number and row["metric"] == metric
    ]
    assert row["value"] == pytest.approx(value)
    assert row["unit"] == "s"


def test_a_run_with_faults_is_not_judged_for_its_steady_state(tables: Tables) -> None:
    (noise,) = [row for row in tables["noise"] if row["run"] == CASES["killed once"].number]
    assert (noise["unsteady"], noise["used"]) == ("", True)
