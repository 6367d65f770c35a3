"""Each class of the audit, the status of a run, and faults put in on purpose."""

import pytest

from mqlab.pipeline.schema import DELIVERY_CLASSES
from pipeline.cases import BLOCK, CASES, INJECTED
from pipeline.synthetic_runs import Run
from table_rows import Row, Tables

# What differs from nothing at all: sent, expected and the classes.
EXPECTED: dict[str, tuple[str, dict[str, int]]] = {
    "clean": ("clean", {"sent": 20, "expected": 20, "delivered": 20}),
    "lost": ("failed", {"sent": 10, "expected": 10, "delivered": 9, "lost": 1}),
    "lost at a silent subscription": ("failed", {"sent": 10, "expected": 20, "delivered": 10, "lost": 10}),
    "duplicated": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "duplicated": 2}),
    "duplicated with the mark": ("clean", {"sent": 10, "expected": 10, "delivered": 10, "duplicated_marked": 2}),
    "duplicated both ways": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "duplicated": 2}),
    "delivered by the marked copies alone": (
        "clean",
        {"sent": 10, "expected": 10, "delivered": 10, "duplicated_marked": 3},
    ),
    "recovered": ("clean", {"sent": 15, "expected": 10, "delivered": 10, "recovered": 2}),
    "out of order": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "out_of_order": 4}),
    "overtaken by a higher priority": ("clean", {"sent": 10, "expected": 10, "delivered": 10, "out_of_order": 6}),
    "of one priority": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "out_of_order": 6}),
    "with keys": ("failed", {"sent": 10, "expected": 10, "delivered": 9, "lost": 1, "out_of_order": 5}),
    "late with the mark": ("clean", {"sent": 10, "expected": 10, "delivered": 10}),
    "order between consumers": ("clean", {"sent": 10, "expected": 10, "delivered": 10}),
    "unexpected: never sent": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "unexpected": 2}),
    "unexpected: a negative number": ("failed", {"sent": 10, "expected": 10, "delivered": 10, "unexpected": 1}),
    "unexpected: refused": ("failed", {"sent": 12, "expected": 10, "delivered": 10, "unexpected": 2}),
    "unexpected: rolled back": ("failed", {"sent": 13, "expected": 10, "delivered": 10, "unexpected": 3}),
    "unexpected: another destination": (
        "failed",
        {"sent": 10, "expected": 10, "delivered": 9, "lost": 1, "unexpected": 1},
    ),
    "unexpected: a consumer that has no role": (
        "failed",
        {"sent": 10, "expected": 10, "delivered": 10, "unexpected": 2},
    ),
    "rolled back and sent again": ("clean", {"sent": 20, "expected": 10, "delivered": 10}),
    "sent twice, without an answer and with one": (
        "clean",
        {"sent": 15, "expected": 5, "delivered": 5, "recovered": 5, "resent": 5},
    ),
    "sent again, and received as often": (
        "clean",
        {"sent": 20, "expected": 10, "delivered": 10, "resent": 10, "duplicated_resent": 3},
    ),
    "sent again, and received more often": (
        "failed",
        {"sent": 20, "expected": 10, "delivered": 10, "resent": 10, "duplicated": 2, "duplicated_resent": 8},
    ),
    "over the edge of a block": (
        "failed",
        {"sent": BLOCK + 13, "expected": BLOCK + 13, "delivered": BLOCK + 12, "lost": 1},
    ),
}
EXPECTED |= {
    "only sends": ("clean", {"sent": 10}),
    "only receives": ("clean", {"sent": 10, "expected": 10, "delivered": 10}),
    "round trips": ("clean", {"sent": 6, "expected": 6, "delivered": 6}),
    "a reply is lost": ("failed", {"sent": 4, "expected": 4, "delivered": 3, "lost": 1}),
    "a request is lost": ("failed", {"sent": 3, "expected": 3, "delivered": 2, "lost": 1}),
}
_NEVER_RECORDED = "messages in the sequences of their producers were never recorded as sent"
_BEYOND = "sent, beyond the error of the clocks"
for _n in INJECTED:
    _all = {"sent": 5_000, "expected": 5_000, "delivered": 5_000}
    EXPECTED[f"{_n} lost"] = ("failed", _all | {"delivered": 5_000 - _n, "lost": _n})
    EXPECTED[f"{_n} duplicated"] = ("failed", _all | {"duplicated": _n})
    EXPECTED[f"{_n} reordered"] = ("failed", _all | {"out_of_order": _n})


def audit(tables: Tables, name: str) -> Row:
    (row,) = [row for row in tables["audits"] if row["run"] == CASES[name].number]
    return row


@pytest.mark.parametrize("name", EXPECTED)
def test_classes(tables: Tables, name: str) -> None:
    status, counts = EXPECTED[name]
    row = audit(tables, name)
    found = {column: row[column] for column in ("sent", "expected", *DELIVERY_CLASSES) if row[column]}
    assert (row["status"], found) == (status, counts)


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("clean", "clean", ""),
        ("lost", "failed", "1 lost"),
        ("unexpected: another destination", "failed", "1 lost, 1 unexpected"),
        ("with keys", "failed", "1 lost"),
        ("duplicated", "failed", "2 duplicated without the redelivered mark"),
        ("1000 reordered", "failed", "1,000 out of order"),
        ("said to be incomplete", "incomplete", "agent 2 does not listen any more"),
        ("an agent without a clock", "incomplete", "no clock offset from agent 2"),
        ("without a measure phase", "incomplete", "no measure phase was recorded"),
        (
            "agents counted more sent",
            "void",
            "the agents counted 1,010 messages sent in the measure phase, the events show 1,000",
        ),
        (
            "agents counted less received",
            "void",
            "the agents counted 999 messages received in the measure phase, the events show 1,000",
        ),
        (
            "agents counted more round trips",
            "void",
            "the agents counted 1,001 round trips in the measure phase, the events show 1",
        ),
        ("a gap in the sends", "void", f"3 {_NEVER_RECORDED}"),
        (
            "a gap before the first send",
            "void",
            "1 message in the sequence of its producer was never recorded as sent",
        ),
        ("a gap as long as what was sent twice", "void", f"2 {_NEVER_RECORDED}"),
        ("a gap in the sends of the second producer", "void", f"2 {_NEVER_RECORDED}"),
        ("received before it was sent", "void", f"4 messages were received before they were {_BEYOND}"),
        ("sent after its planned time, received between", "void", f"1 message was received before it was {_BEYOND}"),
        ("early within the error of the clocks", "clean", ""),
        (
            "early beyond the error of the clocks",
            "void",
            f"10 messages were received before they were {_BEYOND}",
        ),
        ("other bodies", "void", "3 messages arrived with another body than was sent"),
        ("another body in the warm-up", "void", "1 message arrived with another body than was sent"),
        ("a reply to another request", "void", "1 reply carried the id of another request"),
        ("only sends, and nothing", "void", "no message was sent in the measure phase"),
        ("nothing in the measure phase", "void", "no message was received in the measure phase"),
        ("nothing at all", "void", "no message was received in the measure phase"),
    ],
)
def test_status_and_reason(tables: Tables, name: str, status: str, reason: str) -> None:
    row = audit(tables, name)
    assert (row["status"], row["reason"]) == (status, reason)


def test_every_run_is_audited_once(tables: Tables, chance_runs: list[Run]) -> None:
    assert [row["run"] for row in tables["audits"]] == [run.number for run in [*CASES.values(), *chance_runs]]


def test_only_a_clean_run_gives_a_figure(tables: Tables) -> None:
    disturbed = {row["run"] for row in tables["noise"] if row["valid"] and not row["used"]}
    clean = {row["run"] for row in tables["audits"] if row["status"] == "clean"} - disturbed
    scenarios = {row["scenario"] for row in tables["audits"] if row["status"] == "clean"}
    assert {row["run"] for row in tables["run_measures"]} == clean
    assert {row["run"] for row in tables["series"]} == clean
    assert {row["scenario"] for row in tables["measures"]} == scenarios
    assert {row["scenario"] for row in tables["latencies"]} <= scenarios
    assert {row["scenario"] for row in tables["responses"]} <= scenarios
    assert {row["run"] for row in tables["paces"]} == clean
    assert {row["run"] for row in tables["depths"]} <= clean
