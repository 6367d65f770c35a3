"""Line charts of a study against a swept parameter: panels for published and for measured values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mqlab.report.charts import sweep_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.sweep_charts import Axes, Line, Mark, Panel
from mqlab.report.data.pairing import SystemPair, pair_name, pairs
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.data.selection import SCENARIO, Key, RowPoints, row_names, rows
from mqlab.report.exhibits.cells import bound_mark, notes_of
from mqlab.report.exhibits.colours import line_colours
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Prose
from mqlab.study import METRICS, Exhibit
from mqlab.study.exhibit import MetricView
from mqlab.study.language.units import parse_size, parse_time

# Fewer published values than this are listed as text in place of a chart.
_FEWEST = 3


@dataclass(frozen=True)
class _Sweep:
    """The points of a line chart, by line and along the axis."""

    results: RunResults
    exhibit: Exhibit
    names: Key  # the parameters of a line; the swept one comes last
    by_scenario: dict[Key, dict[str, RowPoints]]

    @property
    def keys(self) -> list[Key]:
        """The parameter values of each line, in the order of the study."""
        return list(dict.fromkeys(key[:-1] for key in self.by_scenario))

    @cached_property
    def numeric(self) -> bool:
        return all(number_of(key[-1]) is not None for key in self.by_scenario)

    @cached_property
    def places(self) -> dict[str, float]:
        """The positions on the axis of the values, as the study writes them."""
        texts = dict.fromkeys(key[-1] for key in self.by_scenario)
        return {text: (number_of(text) or 0.0) if self.numeric else float(n) for n, text in enumerate(texts)}

    def along(self, line: Key) -> Iterator[tuple[str, RowPoints]]:
        for key, by_scenario in self.by_scenario.items():
            if key[:-1] == line:
                for row in by_scenario.values():
                    yield key[-1], row

    def named(self, line: Key) -> str:
        pairs = zip(self.names[:-1], line, strict=True)
        return ", ".join(value if name == SCENARIO else f"{name}={value}" for name, value in pairs)


def lines(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    points = [*exhibit.select_points(results.declared), *exhibit.select_points(results.points)]
    varied = [name for figure in exhibit.views for name in figure.over]
    scenarios = {point.scenario for point in points}
    by = (*((SCENARIO,) if len(scenarios) > 1 and SCENARIO not in exhibit.by else ()), *exhibit.by)
    # A parameter that changes together with the axis does not make a line.
    names = row_names(replace(exhibit, by=(*by, exhibit.x)), points, varied)
    names = (*(name for name in names if name != exhibit.x), exhibit.x)
    sweep = _Sweep(results, exhibit, names, rows(results, exhibit, names))
    panels, as_text = _panels(sweep)
    if not panels:
        listed = f" As printed: {'; '.join(as_text)}." if as_text else ""
        return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured of it.{listed}"),)
    name = results.exhibit_name("lines", exhibit)
    axes = _axes(sweep)
    description = _description(exhibit, panels, axes.labels)
    keys = list(dict.fromkeys(line.key for panel in panels for line in panel.lines))
    drawn = sweep_charts.sweep(panels, axes, line_colours(results, keys))
    notes = tuple(_notes(sweep, panels, as_text))
    return (chart_figure(name, exhibit.title, drawn, description, notes, wide=True),)


def number_of(text: str) -> float | None:
    """A parameter as a number on an axis; None where it is a name."""
    for parse in (float, parse_size, parse_time):
        try:
            return float(parse(text))
        except ValueError:
            continue
    return None


def _axes(sweep: _Sweep) -> Axes:
    first, *others = sweep.exhibit.views
    x = formatting.parameter(sweep.exhibit.x)
    labels = {place: text for text, place in sweep.places.items()}
    made = Axes(x, _named(first), METRICS[first.metric].unit, labels=labels, named=not sweep.numeric)
    if not others:
        return made
    return replace(made, second=_named(others[0]), second_unit=METRICS[others[0].metric].unit)


def _named(figure: MetricView) -> str:
    return figure.head or formatting.metric(figure.metric) + (", peak" if figure.kind == "peak" else "")


def _panels(sweep: _Sweep) -> tuple[list[Panel], list[str]]:
    """One panel for each system where it has several lines; otherwise one panel for all systems.

    Published values come from other machines: they have their own panels and axes.
    """
    panels: list[Panel] = []
    as_text: list[str] = []
    for origin in (PUBLISHED, MEASURED):
        drawn = {pair: made for pair in pairs(sweep.results) if (made := _lines_of(sweep, pair, origin))}
        all_lines = [line for made in drawn.values() for line in made]
        marks = [mark for line in all_lines for mark in line.marks if not line.second]
        if origin == PUBLISHED and len(marks) < _FEWEST:
            as_text += [mark.description for mark in marks]
        elif len(sweep.keys) == 1 and drawn:
            panels.append(_panel(origin.capitalize(), origin, all_lines))
        else:
            named = ((f"{_name(sweep.results, pair, origin)}, {origin}", made) for pair, made in drawn.items())
            panels += [_panel(title, origin, made) for title, made in named]
    return panels, as_text


def _panel(title: str, origin: str, made: Sequence[Line]) -> Panel:
    # Published values at one position of the axis have marks only: a line would be vertical.
    joined = origin == MEASURED or any(len(line.marks) > 1 for line in made)
    return Panel(title, origin, tuple(made), joined)


def _name(results: RunResults, pair: SystemPair, origin: str) -> str:
    if origin == PUBLISHED or pair.measured is None:
        return stamped(pair.published or "", results.published_stamps)
    return stamped(pair.measured, results.stamps_of(pair.measured))


def _lines_of(sweep: _Sweep, pair: SystemPair, origin: str) -> list[Line]:
    system = pair.published if origin == PUBLISHED else pair.measured
    if system is None:
        return []
    lines = []
    for key in sweep.keys:
        # With one line for each system, the colour shows the system; with several, the setting.
        name = sweep.named(key) if len(sweep.keys) > 1 else pair_name(sweep.results, pair)
        for second, figure in enumerate(sweep.exhibit.views):
            marks = [
                mark
                for x, row in sweep.along(key)
                if (mark := _mark(sweep, (system, origin), figure, key, x, row)) is not None
            ]
            if marks:
                lines.append(Line(name, tuple(marks), bool(second)))
    return lines


def _mark(sweep: _Sweep, subject: tuple[str, str], figure: MetricView, key: Key, x: str, row: RowPoints) -> Mark | None:
    system, origin = subject
    value = _printed(sweep, system, figure, row) if origin == PUBLISHED else _measured(sweep, system, figure, row)
    if value is None:
        return None
    number, ci95, before, after = value
    place = ", ".join(part for part in (sweep.named(key), f"{sweep.exhibit.x}={x}") if part)
    unit = METRICS[figure.metric].unit
    half = f" {formatting.PLUS_MINUS} {formatting.quantity(ci95, unit)}" if ci95 else ""
    amount = f"{before}{formatting.quantity(number, unit)}{half}{after}"
    description = f"{system}, {origin}, {place}: {amount} ({_named(figure)})"
    return Mark(sweep.places[x], number, ci95, description)


_Value = tuple[float, float | None, str, str]  # a value, its ci95, the text before and after it


def _printed(sweep: _Sweep, system: str, figure: MetricView, row: RowPoints) -> _Value | None:
    point = row.declared
    if point is None:
        return None
    published = sweep.results.study.find_published(system, point, figure.metric, figure.over, sweep.exhibit.title)
    return None if published is None or published.value is None else (published.value, None, "", "")


def _measured(sweep: _Sweep, system: str, figure: MetricView, row: RowPoints) -> _Value | None:
    results = sweep.results
    if figure.kind == "peak":
        peak = results.peak(system, row.measured, figure.metric, figure.over)
        if peak is None:
            return None
        return peak.value, peak.ci95, bound_mark(peak.metric, peak.bound_by), f" at {peak.at}"
    measure = row.point and results.measure(system, row.point, figure.metric)
    if not measure or row.point is None or measure.is_thin:
        return None
    flags = results.flags(system, row.point)
    return measure.value, measure.ci95, bound_mark(measure.metric, measure.bound_by), flags


def _description(exhibit: Exhibit, panels: Sequence[Panel], labels: Mapping[float, str]) -> str:
    """The text of the chart: the highest value of every line."""
    metrics = " and ".join(_named(figure) for figure in exhibit.views)
    texts = []
    for panel in panels:
        for line in panel.lines:
            top = max(line.marks, key=lambda mark: mark.y)
            texts.append(
                f"{panel.title}, {line.key}: highest {formatting.number(top.y)} at {exhibit.x}={labels[top.x]}"
            )
    return f"{exhibit.title}: {metrics} against {formatting.parameter(exhibit.x).lower()}. {'. '.join(texts)}."


def _notes(sweep: _Sweep, panels: Sequence[Panel], as_text: Sequence[str]) -> Iterator[str]:
    if as_text:
        yield f"As printed: {'; '.join(as_text)}."
    if {panel.family for panel in panels} == {PUBLISHED, MEASURED}:
        yield "Published figures come from the study's own machines and have axes of their own: compare the shapes."
    if len(sweep.exhibit.views) > 1:
        named = _named(sweep.exhibit.views[1])
        yield f"Dashed, with squares, on the right: {named}, in the colour of the line it belongs to."
    if any(figure.metric == "cpu.broker" for figure in sweep.exhibit.views):
        yield "CPU measured here is in percent of one core."
    metrics = [figure.metric for figure in sweep.exhibit.views]
    yield from notes_of(sweep.results, sweep.exhibit.select_points(sweep.results.points), metrics)
