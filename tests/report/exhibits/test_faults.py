"""What a report says of faults: systems that never came back, and every account of the messages."""

from pathlib import Path

import pytest
from rich.console import Console

from mqlab.pipeline.schema import UNSERVED
from mqlab.report import print_summary, write_report
from mqlab.report.claims.gates import FAILED, PASSED, judge_gates
from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, NOT_TESTABLE, REFUTED, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.run_tables import fault_lines, faults_table, unrecovered_lines
from mqlab.report.render.formatting import NOT_KNOWN
from mqlab.study import load_study
from mqlab.study.language.gate import parse_gate
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns

STUDY = """
study: failing
title: A system that is killed
scenarios:
  kill:
    {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB, persistent: yes}, send: confirmed, rate: 100/s,
     faults: kill at 500ms}
scales: {quick: {phases: {warmup: 300ms, measure: 2s, drain: 60s}}}
exhibits:
  - {table: Times, by: [scenario], columns: [{value: fault.outage}, {value: fault.recovery}]}
claims:
  - {id: back, says: It is back soon., source: we, check: "fault.outage[kill] < 10"}
  - {id: good, says: It recovers soon., source: we, check: "fault.recovery[kill] < 10"}
"""
EFFECT = {"number": 1, "kind": "kill", "fault": "kill at 500ms", "started": 0.8, "lasted": 0.5, "messages": 5}
MARK = "\u2265"


@pytest.fixture
def made(tmp_path: Path) -> SyntheticRuns:
    file = tmp_path / "failing.yaml"
    file.write_text(STUDY)
    return SyntheticRuns(study=load_study(file))


def add_run(made: SyntheticRuns, outage: float, recovery: float | None, **accounts: int) -> None:
    """A system without a time to recover never served again."""
    repetition = len(made.rows["audits"]) + 1
    number = made.run("kill", repetition)
    made.rows["audits"][-1] |= accounts
    run = {"run": number, "scenario": "kill", "point": "", "system": "embedded", "repetition": repetition}
    effect = {**EFFECT, "served": recovery is not None, "outage": outage, "recovery": recovery}
    made.rows["faults"].append({**run, **effect})


def never_back(made: SyntheticRuns, *, outage: float, ci95: float | None) -> None:
    """In one run of three; the pipeline gives no time to recover then."""
    for number in range(3):
        add_run(made, *((62.0, None) if number == 1 else (1.5, 1.6)))
    made.measure("kill", "fault.outage", outage, ci95, bound_by=UNSERVED)


def test_a_system_that_came_back_holds_the_claims(made: SyntheticRuns, write: Write) -> None:
    for _ in range(3):
        add_run(made, 1.5, 1.6)
    made.measure("kill", "fault.outage", 1.5, 0.1)
    made.measure("kill", "fault.recovery", 1.6, 0.1)
    results = RunResults.of(write(made))
    assert [verdict.verdict for verdict in judge(results) if verdict.basis == "measured"] == [HOLDS, HOLDS]
    assert unrecovered_lines(results) == []


@pytest.mark.parametrize(
    ("outage", "ci95", "verdict", "gate"),
    [
        # A mean below the limit, surely.
        (2.0, 0.1, INCONCLUSIVE, NOT_KNOWN),
        (21.0, 40.0, INCONCLUSIVE, NOT_KNOWN),
        (62.0, 0.1, REFUTED, FAILED),
        (62.0, None, INCONCLUSIVE, NOT_KNOWN),
    ],
)
def test_a_system_that_never_served_again_gets_nothing_in_its_favour(
    made: SyntheticRuns, write: Write, outage: float, ci95: float | None, verdict: str, gate: str
) -> None:
    never_back(made, outage=outage, ci95=ci95)
    results = RunResults.of(write(made))
    back, good = (found for found in judge(results) if found.basis == "measured")
    assert (back.verdict, good.verdict) == (verdict, NOT_TESTABLE)
    assert good.reason == "no fault.recovery of kill: 1 of 3 runs never recovered"
    if ci95 and verdict == INCONCLUSIVE:
        assert back.reason == "kill has a run in which the system never served again: its fault.outage is a lower bound"
    gates = [parse_gate(condition) for condition in ("fault.outage > 10s", "fault.recovery > 10s")]
    assert [found.outcome for found in judge_gates(results, gates)] == [gate, NOT_KNOWN]
    assert PASSED not in {found.outcome for found in judge_gates(results, [parse_gate("fault.outage > 1h")])}


def test_where_the_report_says_so(made: SyntheticRuns, write: Write) -> None:
    never_back(made, outage=21.0, ci95=0.1)
    folder = write(made)
    results = RunResults.of(folder)
    assert unrecovered_lines(results) == ["kill, embedded: 1 of 3 runs never recovered."]
    table = faults_table(results)
    assert table is not None
    assert [row.cells[4].full_text for row in table.rows] == ["1.5 s", f"{MARK} 62 s (never served again)", "1.5 s"]
    assert table.notes[0] == "kill, embedded: 1 of 3 runs never recovered."
    write_report(folder)
    page = (folder.report / "report.md").read_text()
    assert f"{MARK} 21 s" in page
    assert "1 of 3 runs never recovered" in page
    console = Console(record=True, width=200)
    print_summary(folder, console)
    shown = console.export_text()
    assert "kill, embedded: 1 of 3 runs never recovered." in shown
    assert f"{MARK} at least" in shown


def test_a_line_has_every_account(made: SyntheticRuns, write: Write) -> None:
    accounts = {"lost": 1, "resent": 2, "duplicated_marked": 3, "out_of_order": 4, "duplicated": 5}
    add_run(made, 1.5, 1.6, **accounts)
    add_run(made, 62.0, None)
    first, second = fault_lines(RunResults.of(write(made)))
    assert first == (
        "kill, embedded: kill at 500ms: 1.5 s without service, recovered after 1.6 s; 1,000 confirmed, 1 lost, 2 sent "
        "again, 3 marked, 4 out of order, 5 duplicated: the system delivered them again without the redelivered mark"
    )
    assert "kill at 500ms: never served again, at least 62 s without service; 1,000 confirmed" in second
