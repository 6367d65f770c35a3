"""The overview of a study in one picture: a row for each point, or for each scenario where there are many points."""

from collections.abc import Iterator
from typing import Final

from mqlab.report.charts import bar_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.data.pairing import subjects
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.exhibits import bar
from mqlab.report.exhibits.headline import headline
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Figure
from mqlab.study import METRICS

# With more points, or longer names, each scenario is one row.
_ROWS: Final = 24
_NAME: Final = 36

_OWN_COLOURS: Final = ", each system in a colour of its own"

Row = tuple[str, bar_charts.Bar]


def overview(results: RunResults) -> Figure | None:
    metric = headline(results)
    all_points = len(results.study_points) <= _ROWS and all(len(point.label) <= _NAME for point in results.study_points)
    bars = list(_each(results, metric) if all_points else _best(results, metric))
    if not any(bar.value for _, bar in bars):
        return None
    title = f"{formatting.capital(formatting.metric(metric))} of every scenario"
    if not all_points:
        title = f"Highest {formatting.metric(metric)} of every scenario"
    several = len({bar.name for _, bar in bars if bar.origin == MEASURED}) > 1
    description = (
        f"{title}: published figures as circles, those measured here as diamonds{_OWN_COLOURS if several else ''}."
    )
    note = (
        "Circles are published, all else was measured here: the mean with its 95 % interval, and below it a small dot "
        "for each run. The machines differ: compare the shape from scenario to scenario, not the distance between a "
        "circle and a diamond."
    )
    drawn = bar_charts.dots(bars, METRICS[metric].unit)
    return chart_figure("overview", title, drawn, description, (note,), wide=True)


def _each(results: RunResults, metric: str) -> Iterator[Row]:
    for point in results.study_points:
        for subject in subjects(results):
            yield point.label, bar(results, subject, point, metric)


def _best(results: RunResults, metric: str) -> Iterator[Row]:
    for name in dict.fromkeys(point.scenario for point in results.study_points):
        for subject in subjects(results):
            bars = [bar(results, subject, point, metric) for point in results.points_of(name)]
            if bars:
                yield name, max(bars, key=lambda candidate: candidate.value or 0.0)
