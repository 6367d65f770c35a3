"""The course of a run: how fast was sent and received from moment to moment, and when producers were held back."""

from collections.abc import Iterator

from mqlab.report.charts import svg, time_charts
from mqlab.report.charts.time_charts import Course, Onset
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.exhibits.cells import flag_notes
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Figure, Prose
from mqlab.study import Exhibit, Point


def courses(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """One figure a point, of the first valid run of each system."""
    points = exhibit.select_points(findings.points)
    found = [_figure(findings, exhibit, point, len(points) > 1) for point in points]
    kept: list[Block] = [figure for figure in found if figure is not None]
    if kept:
        return tuple(kept)
    return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured of it."),)


def _figure(findings: Findings, exhibit: Exhibit, point: Point, several: bool) -> Block | None:
    made = [course for system in findings.systems if (course := _course(findings, system.name, point))]
    if not made:
        return None
    onsets = list(_onsets(findings, point))
    name = f"{findings.exhibit_name('course', exhibit)}-{findings.figure_name('', point)}"
    title = f"{exhibit.title}: {point.name or point.scenario}" if several else exhibit.title
    if all(len(course.paces) < 2 for course in made):
        return Prose(f"{title}: not drawn, the run has a single step of 0.2 s.")
    held = "; ".join(onset.label for onset in onsets) or "no producer was held back"
    says = f"{title}: messages sent and received a second against time, {MEASURED}; {held}."
    picture = svg.clean(time_charts.course(made, onsets, findings.names()), name, says)
    return Figure(name, title, picture, says, tuple(_notes(findings, exhibit, point)), wide=True)


def _course(findings: Findings, system: str, point: Point) -> Course | None:
    place = (system, point.scenario, point.name)
    paces = [p for p in findings.paces if (p.system, p.scenario, p.point) == place and p.run in findings.valid_runs]
    if not paces:
        return None
    run = paces[0].run
    depths = [d for d in findings.depths if d.run == run and d.depth is not None]
    source = depths[0].source if depths else ""
    return Course(
        stamped(system, findings.stamps_of(system)),
        str(run),
        [(p.seconds, p.sent, p.received) for p in paces if p.run == run],
        [(d.seconds, d.depth or 0.0) for d in depths if d.source == source],
    )


def _onsets(findings: Findings, point: Point) -> Iterator[Onset]:
    several = len(findings.systems) > 1
    for system in findings.systems:
        found = findings.measure(system.name, point, "onset")
        if found is not None:
            whose = f"{stamped(system.name, system.stamps)}: " if several else ""
            label = f"{whose}producers held back after {formatting.quantity(found.value, found.unit)}"
            yield Onset(system.name, found.value, label)


def _notes(findings: Findings, exhibit: Exhibit, point: Point) -> Iterator[str]:
    yield (
        "The first valid run of each system, in steps of 0.2 s. The red line stands where the first producer was held "
        "back, as the mean over the valid runs."
    )
    for system in findings.study.systems_published:
        value = findings.study.find_published(system, point, "onset", table=exhibit.title)
        if value is not None and value.value is not None:
            yield f"{system}, {PUBLISHED}: producers held back after {formatting.printed(value.text)} {value.unit}."
    yield from flag_notes(findings, (point,))
