"""The whole study in one picture: a row a point, or a row a scenario where there are too many points."""

from collections.abc import Iterator
from typing import Final

from mqlab.report.charts import bar_charts, svg
from mqlab.report.data.findings import Findings
from mqlab.report.data.pairing import subjects
from mqlab.report.exhibits.exhibits import bar
from mqlab.report.exhibits.headline import headline
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Figure
from mqlab.study import METRICS

# With more rows, or names too long for the side of a chart, each scenario is one row.
_ROWS: Final = 24
_NAME: Final = 36

_OWN_COLOURS: Final = ", each system in a colour of its own"

Row = tuple[str, bar_charts.Bar]


def glance(findings: Findings) -> Figure | None:
    metric = headline(findings)
    whole = len(findings.points) <= _ROWS and all(len(point.label) <= _NAME for point in findings.points)
    given = list(_each(findings, metric) if whole else _best(findings, metric))
    if not any(found.value for _, found in given):
        return None
    title = f"{formatting.capital(formatting.metric(metric))} of every scenario"
    if not whole:
        title = f"Highest {formatting.metric(metric)} of every scenario"
    several = len({found.name for _, found in given if found.origin == MEASURED}) > 1
    says = f"{title}: published figures as circles, those measured here as diamonds{_OWN_COLOURS if several else ''}."
    picture = svg.clean(bar_charts.dots(given, METRICS[metric].unit), "glance", says)
    note = (
        "Circles are published, all else was measured here. The machines differ: compare the shape from scenario "
        "to scenario, not the distance between a circle and a diamond."
    )
    return Figure("glance", title, picture, says, (note,), wide=True)


def _each(findings: Findings, metric: str) -> Iterator[Row]:
    for point in findings.points:
        for subject in subjects(findings):
            yield point.label, bar(findings, subject, point, metric)


def _best(findings: Findings, metric: str) -> Iterator[Row]:
    for name in findings.study.scenarios:
        for subject in subjects(findings):
            found = [bar(findings, subject, point, metric) for point in findings.points_of(name)]
            if found:
                yield name, max(found, key=lambda one: one.value or 0.0)
