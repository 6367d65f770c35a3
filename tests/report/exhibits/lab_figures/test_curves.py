"""From the pipeline's rows to curves: nothing is added, and what is too fine to see is left out."""

import pytest

from mqlab.report.charts.drawing import DrawnChart
from mqlab.report.charts.line_charts import Band, Curve, Steps
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.lab_figures.curves import latency_figure, series_figure
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns


class Caught:
    """Stands in for a chart and keeps what it was to draw."""

    def __init__(self) -> None:
        self.given: tuple[object, ...] = ()

    def __call__(self, *given: object) -> DrawnChart:
        self.given = given
        return DrawnChart("<svg/>", {})


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> Caught:
    found = Caught()
    monkeypatch.setattr("mqlab.report.charts.line_charts.latencies", found)
    monkeypatch.setattr("mqlab.report.charts.line_charts.series", found)
    return found


def histogram(made: SyntheticRuns, *buckets: tuple[float, int]) -> None:
    made.rows["latencies"] = [
        {"scenario": "A", "point": "", "system": "embedded", "latency": latency, "count": count}
        for latency, count in buckets
    ]


def curve(made: SyntheticRuns, write: Write, caught: Caught) -> Curve:
    results = RunResults.of(write(made))
    assert latency_figure(results, results.points[0]) is not None
    curves = caught.given[0]
    assert isinstance(curves, list)
    found = curves[0]
    assert isinstance(found, Curve)
    return found


def test_shares_are_running_sums_of_the_histogram(made: SyntheticRuns, write: Write, caught: Caught) -> None:
    histogram(made, (0.004, 9), (0.001, 500), (0.002, 400), (0.008, 1), (0.003, 90))
    points = list(curve(made, write, caught).points)
    assert points == [(0.5, 0.001), (0.9, 0.002), (0.99, 0.003), (0.999, 0.004), (0.9995, 0.008)]


def test_the_reported_percentiles_are_marked_as_they_are(made: SyntheticRuns, write: Write, caught: Caught) -> None:
    marks = curve(made, write, caught).marks
    assert [(share, value) for share, value, _ in marks] == [
        (0.5, 0.00041),
        (0.9, 0.0012),
        (0.99, 0.0041),
        (0.999, 0.0123),
    ]
    assert marks[0][2] == "latency, 50\u00a0%: 410 \u00b5s"


def test_a_few_very_fast_messages_do_not_stretch_the_axis(made: SyntheticRuns, write: Write, caught: Caught) -> None:
    histogram(made, (1e-9, 5), (0.001, 995))
    assert [latency for _, latency in curve(made, write, caught).points] == [0.001]


def test_points_on_the_same_pixel_are_left_out_but_for_the_last(
    made: SyntheticRuns, write: Write, caught: Caught
) -> None:
    histogram(made, *((0.001 + n / 1e6, 1) for n in range(5000)))
    points = curve(made, write, caught).points
    assert 100 < len(points) < 500
    assert points[-1] == (0.9999, 0.005999)


def series(made: SyntheticRuns, write: Write, caught: Caught) -> tuple[list[Steps], list[Band]]:
    results = RunResults.of(write(made))
    assert series_figure(results, results.points[0]) is not None
    lines, bands, _ = caught.given
    assert isinstance(lines, list)
    assert isinstance(bands, list)
    return lines, bands


def test_every_used_run_is_two_lines(made: SyntheticRuns, write: Write, caught: Caught) -> None:
    """The pipeline gives no series of the others."""
    made.rows["series"] = [row for row in made.rows["series"] if row["run"] != 2]
    lines, _ = series(made, write, caught)
    assert [(line.run, line.side) for line in lines] == [(r, s) for r in ("1", "3") for s in ("received", "sent")]
    assert [second for second, _ in lines[0].seconds] == [0, 1, 2, 3, 4]


def test_phases_other_than_measure_are_bands(made: SyntheticRuns, write: Write, caught: Caught) -> None:
    _, bands = series(made, write, caught)
    assert bands == [Band("warm-up", 0, 1), Band("drain", 4, 5)]


def test_nothing_measured_is_no_figure(made: SyntheticRuns, write: Write) -> None:
    made.drop("A")
    results = RunResults.of(write(made))
    assert latency_figure(results, results.points[0]) is None
    assert series_figure(results, results.points[0]) is None


def test_fewer_than_five_seconds_are_no_chart(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    assert series_figure(results, results.points[0]) is not None
    made.rows["series"] = [row for row in made.rows["series"] if row["second"] < 4]
    results = RunResults.of(write(made))
    assert series_figure(results, results.points[0]) is None
