"""Durations say how they were counted, and percentiles on how many independent observations they rest."""

from dataclasses import replace

import pytest

from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.lab_figures.curves import latency_figure
from mqlab.report.exhibits.lab_tables import latency_table
from mqlab.report.render.content import Figure
from mqlab.report.render.json_document import as_json
from mqlab.study import Claim
from mqlab.study.metric import METRICS, fewest_observations

from .conftest import Write
from .synthetic_runs import SyntheticRuns

CLOSED = "closed loop: stalls are under-represented"


def observe(made: SyntheticRuns, count: int) -> None:
    for row in made.rows["measures"]:
        if row["metric"].startswith("latency."):
            row |= {"observations": count}


@pytest.mark.parametrize(
    ("metric", "fewest"),
    [
        ("latency.p50", 20), ("response.p90", 100), ("confirm.p99", 1_000), ("latency.p99.9", 10_000),
        ("latency.max", 0), ("latency.mean", 0), ("rate.received", 0), ("cpu.broker", 0),
    ],
)  # fmt: skip
def test_ten_observations_lie_beyond_a_percentile(metric: str, fewest: int) -> None:
    assert metric in METRICS
    assert fewest_observations(metric) == fewest


def cells_of(results: RunResults, scenario: str) -> dict[str, tuple[str, str]]:
    table = latency_table(results)
    (found,) = [row for row in table.rows if row.cells[0].text == scenario]
    return {head: (cell.text, cell.note) for head, cell in zip(table.head, found.cells, strict=True)}


def test_a_percentile_has_its_observations_beside_it_or_is_not_shown(made: SyntheticRuns, write: Write) -> None:
    observe(made, 4_210)
    cells = cells_of(RunResults.of(write(made)), "A")
    assert cells["Latency, 99\u00a0%"][0] == "4.1 ms"
    assert cells["Latency, 99\u00a0%"][1].endswith(", n = 4,210")
    assert cells["Latency, 99.9\u00a0%"] == (
        "not known", "fewer than 10 of 4,210 independent observations lie beyond it",
    )  # fmt: skip
    assert "n =" not in cells["Latency, mean"][1]
    assert cells["Latency, longest"][0] == "98.7 ms"


@pytest.mark.parametrize(("count", "verdict"), [(999, INCONCLUSIVE), (1_000, HOLDS)])
def test_a_percentile_that_is_not_shown_decides_no_verdict(
    made: SyntheticRuns, write: Write, count: int, verdict: str
) -> None:
    observe(made, count)
    results = RunResults.of(write(made))
    ours = Claim(id="ours", says="we say so", source="here", check="latency.p99[A] < 1")
    judged = judge(replace(results, study=replace(results.study, claims=(ours,))))
    (found,) = [one for one in judged if one.basis == "measured"]
    assert found.verdict == verdict
    if verdict == INCONCLUSIVE:
        assert found.reason == "latency.p99 of A has too few independent observations beyond it"


def test_programs_are_told_too(made: SyntheticRuns, write: Write) -> None:
    observe(made, 4_210)
    measures = [measure for measure in as_json(write(made))["measures"] if measure["scenario"] == "A"]
    by_metric = {measure["metric"]: measure for measure in measures}
    assert (by_metric["latency.p99"]["value"], by_metric["latency.p99"]["observations"]) == (0.0041, 4_210)
    assert (by_metric["latency.p99.9"]["value"], by_metric["latency.p99.9"]["ci95"]) == (None, None)
    assert by_metric["latency.p99"]["loop"] == CLOSED
    assert by_metric["rate.received"]["loop"] is None


def test_a_closed_loop_says_so_and_has_no_planned_time(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    table = latency_table(results)
    loops = {row.cells[0].text: row.cells[0].note for row in table.rows}
    assert (loops["A"], loops["open-loop (rate=50%)"]) == (CLOSED, "open loop")
    closed, opened = (next(note for note in table.notes if note.startswith(loop)) for loop in ("Closed", "Open"))
    assert closed.startswith("Closed loop: stalls are under-represented.")
    assert "planned time" not in closed
    assert "planned time" in opened
    figure = latency_figure(results, results.points[0])
    assert isinstance(figure, Figure)
    assert closed in figure.notes
    assert opened not in figure.notes


def test_an_open_loop_counts_from_the_planned_time(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    point = results.points[0].model_copy(update={"rate": 100.0})
    figure = latency_figure(results, point)
    assert isinstance(figure, Figure)
    assert any(note.startswith("Open loop: ") and "planned time" in note for note in figure.notes)
    assert not any("losed loop" in note for note in figure.notes)
