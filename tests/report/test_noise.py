"""Disturbed runs are told before the first figure; figures made of them alone are marked and decide nothing."""

from dataclasses import replace

import pytest

from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.headline import warnings
from mqlab.report.exhibits.lab_tables import points_table
from mqlab.report.exhibits.run_tables import noise_table
from mqlab.report.render.json_document import as_json
from mqlab.study import Claim

from .conftest import Write
from .synthetic_runs import SyntheticRuns

WHY = "other processes (cc1) took 30% of the processors"


def disturb(made: SyntheticRuns, scenario: str) -> None:
    for row in made.rows["measures"]:
        if row["scenario"] == scenario:
            row |= {"quiet": False, "disturbed": row["runs"]}
    for row in made.rows["noise"]:
        if row["scenario"] == scenario:
            row |= {"disturbed": WHY}


def test_a_quiet_machine_is_not_worth_a_word(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    assert not any("Other work" in warning for warning in warnings(results))
    assert not any("~" in cell.text for row in points_table(results).rows for cell in row.cells)


def test_runs_that_were_not_used_are_counted(made: SyntheticRuns, write: Write) -> None:
    made.run("A", repetition=2, disturbed=WHY)
    results = RunResults.of(write(made))
    total = len(made.rows["noise"])
    expected = f"Other work on the machine disturbed 1 run of {total}, which counts for no figure: see Noise."
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


def test_runs_that_were_not_watched_are_called_so(made: SyntheticRuns, write: Write) -> None:
    made.meta["noise"] = None
    for row in made.rows["noise"]:
        row |= {"steal": None, "foreign": None}
    assert noise_table(RunResults.of(write(made))).notes[0] == "The runs were not watched."


def test_a_figure_of_disturbed_runs_alone_is_marked(made: SyntheticRuns, write: Write) -> None:
    disturb(made, "G")
    results = RunResults.of(write(made))
    told = [*warnings(results)]
    assert any(warning.startswith("Other work on the machine disturbed every run of 1 point") for warning in told)
    table = points_table(results)
    marked = {row.cells[0].text for row in table.rows for cell in row.cells if cell.text.endswith(" ~")}
    assert len(marked) == 1
    assert any(note.startswith("~ Other work") for note in table.notes)


@pytest.mark.parametrize(
    ("disturbed", "verdict"), [("", HOLDS), ("G", INCONCLUSIVE), ("H", INCONCLUSIVE), ("A", HOLDS)]
)
def test_disturbed_runs_decide_no_verdict(made: SyntheticRuns, write: Write, disturbed: str, verdict: str) -> None:
    if disturbed:
        disturb(made, disturbed)
    results = RunResults.of(write(made))
    ours = Claim(id="ours", says="we say so", source="here", check="rate.received[H] / rate.received[G] > 1.2")
    judged = judge(replace(results, study=replace(results.study, claims=(ours,))))
    (found,) = [one for one in judged if one.basis == "measured"]
    assert found.verdict == verdict
    if verdict == INCONCLUSIVE:
        assert found.reason == f"other work on the machine disturbed every run of {disturbed}"


def test_programs_are_told_too(made: SyntheticRuns, write: Write) -> None:
    disturb(made, "G")
    document = as_json(write(made))
    assert {measure["scenario"] for measure in document["measures"] if not measure["quiet"]} == {"G"}
    assert {run["scenario"] for run in document["noise"] if run["disturbed"]} == {"G"}
