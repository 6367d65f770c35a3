"""Flagged runs are told before the first figure; figures made of them alone are marked and decide nothing."""

from dataclasses import replace

import pytest

from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.cells import measured
from mqlab.report.exhibits.headline import warnings
from mqlab.report.exhibits.lab_tables import points_table
from mqlab.report.exhibits.run_tables import noise_table
from mqlab.report.render.json_document import as_json
from mqlab.study import Claim
from mqlab.study.steadiness import is_judged

from .conftest import Write
from .synthetic_runs import SyntheticRuns

WHY = "other processes (cc1) took 30% of the processors"
UNSTEADY = "the rate fell by 18.0 %"


def disturb(made: SyntheticRuns, scenario: str, column: str = "disturbed", why: str = WHY) -> None:
    for row in made.rows["measures"]:
        if row["scenario"] == scenario:
            row |= {"quiet": False, "flagged": row["runs"]}
    for row in made.rows["noise"]:
        if row["scenario"] == scenario:
            row |= {column: why}


def test_a_quiet_machine_is_not_worth_a_word(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    assert not any("steady" in warning for warning in warnings(results))
    assert not any("~" in cell.text for row in points_table(results).rows for cell in row.cells)


@pytest.mark.parametrize(("error", "words"), [(0.0, ""), (0.0004, "known to 400 µs: a latency between two machines")])
def test_the_error_of_clocks_is_a_warning(made: SyntheticRuns, write: Write, error: float, words: str) -> None:
    made.meta["clock_error"] = error
    warned = [warning for warning in warnings(RunResults.of(write(made))) if "clocks" in warning]
    assert len(warned) == bool(words)
    assert all(words in warning for warning in warned)


def test_latencies_have_the_error_of_clocks_beside_them(made: SyntheticRuns, write: Write) -> None:
    made.meta["clock_error"] = 0.0004
    results = RunResults.of(write(made))
    (system, *_), (point, *_) = results.systems, results.points
    told = {metric: measured(results, system.name, point, metric).note for metric in ("latency.p50", "rate.received")}
    assert "± 800 µs by the clocks" in told["latency.p50"]
    assert "clocks" not in told["rate.received"]


def test_runs_that_were_not_used_are_counted(made: SyntheticRuns, write: Write) -> None:
    made.run("A", repetition=2, disturbed=WHY)
    made.run("A", repetition=3, unsteady=UNSTEADY)
    results = RunResults.of(write(made))
    expected = (
        f"2 runs of {len(made.rows['noise'])} had no part in any figure: other work on the machine disturbed 1, "
        "and 1 had no steady rate."
    )
    assert expected in [*warnings(results)]


def test_the_table_has_every_run_with_its_noise(made: SyntheticRuns, write: Write) -> None:
    number = made.run("A", repetition=2, disturbed=WHY)
    table = noise_table(RunResults.of(write(made)))
    (found,) = [row for row in table.rows if row.cells[0].text == f"{number}"]
    texts = [cell.text for cell in found.cells]
    assert texts[4:] == ["no", "2.0%", "30.0%", "50.0%", "0.0%", "n/a", "2.50 GHz", WHY]
    assert len(table.rows) == len(made.rows["noise"])
    assert f"1 of {len(table.rows)} watched runs were disturbed" in table.notes[0]
    assert "more than 5%" in table.notes[0]
    assert table.notes[1].startswith(f"0 of {len(table.rows)} runs were not steady.")


def test_runs_that_were_not_watched_are_called_so(made: SyntheticRuns, write: Write) -> None:
    made.meta["noise"] = None
    for row in made.rows["noise"]:
        row |= {"steal": None, "foreign": None}
    assert noise_table(RunResults.of(write(made))).notes[0] == "The runs were not watched."


FLAGS = pytest.mark.parametrize(("column", "why"), [("disturbed", WHY), ("unsteady", UNSTEADY)])


@FLAGS
def test_a_figure_of_flagged_runs_alone_is_marked(made: SyntheticRuns, write: Write, column: str, why: str) -> None:
    disturb(made, "G", column, why)
    results = RunResults.of(write(made))
    told = [*warnings(results)]
    assert any(warning.startswith("All runs of 1 point were disturbed") for warning in told)
    table = points_table(results)
    marked = {row.cells[0].text for row in table.rows for cell in row.cells if cell.text.endswith(" ~")}
    assert len(marked) == 1
    assert any(note.startswith("~ All runs") for note in table.notes)


@pytest.mark.parametrize(("flagged", "verdict"), [("", HOLDS), ("G", INCONCLUSIVE), ("H", INCONCLUSIVE), ("A", HOLDS)])
@FLAGS
def test_flagged_runs_decide_no_verdict(
    made: SyntheticRuns, write: Write, flagged: str, verdict: str, column: str, why: str
) -> None:
    if flagged:
        disturb(made, flagged, column, why)
    results = RunResults.of(write(made))
    ours = Claim(id="ours", says="we say so", source="here", check="rate.received[H] / rate.received[G] > 1.2")
    judged = judge(replace(results, study=replace(results.study, claims=(ours,))))
    (found,) = [one for one in judged if one.basis == "measured"]
    assert found.verdict == verdict
    if verdict == INCONCLUSIVE:
        assert found.reason == f"all runs of {flagged} are flagged, the first: {why}"


def test_programs_are_told_too(made: SyntheticRuns, write: Write) -> None:
    disturb(made, "G")
    document = as_json(write(made))
    assert {measure["scenario"] for measure in document["measures"] if not measure["quiet"]} == {"G"}
    assert {run["scenario"] for run in document["noise"] if run["disturbed"]} == {"G"}
    assert {run["unsteady"] for run in document["noise"]} == {""}


def test_runs_that_are_too_short_for_a_trend_are_not_called_tested(made: SyntheticRuns, write: Write) -> None:
    """At the scale quick, C, F and H measure for 2 s, of which the warm-up of C and H leaves nine whole slots."""
    results = RunResults.of(write(made))
    judged = [point for point in results.points if is_judged(point)]
    assert [point.scenario for point in judged if point.phases.measure >= 2] == ["C", "F", "H"]
    said = f"has a trend at 1 of {len(judged)} judged points; the runs of the others were judged by the other two"
    assert said in noise_table(results).notes[1]
    longer = [
        point.model_copy(update={"phases": point.phases.model_copy(update={"measure": 2.2})})
        for point in results.points
    ]
    vars(results)["points"] = tuple(longer)
    assert "judged points" not in noise_table(results).notes[1]
