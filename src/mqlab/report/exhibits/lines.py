"""A figure of a study against a swept parameter: panels for what was published and for what was measured here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mqlab.report.charts import svg, sweep_charts
from mqlab.report.charts.sweep_charts import Axes, Line, Mark, Panel
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.data.pairing import Pair, pair_name, pairs
from mqlab.report.data.selection import SCENARIO, Key, Spot, row_names, rows
from mqlab.report.exhibits.cells import bound_mark, flag_notes
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Figure, Prose
from mqlab.study import METRICS, Exhibit
from mqlab.study.exhibit import MetricView
from mqlab.study.language.units import parse_size, parse_time

# Fewer printed values than this are said in words: a chart of them shows nothing.
_FEWEST = 3


@dataclass(frozen=True)
class _Sweep:
    """The rows of a line chart: by what a line is, then along the axis."""

    findings: Findings
    exhibit: Exhibit
    names: Key  # the parameters of a line; the swept one comes last
    spots: dict[Key, dict[str, Spot]]

    @property
    def keys(self) -> list[Key]:
        """The values that make a line, in the order of the study."""
        return list(dict.fromkeys(key[:-1] for key in self.spots))

    @cached_property
    def numeric(self) -> bool:
        return all(number_of(key[-1]) is not None for key in self.spots)

    @cached_property
    def places(self) -> dict[str, float]:
        """The values along the axis, as the study writes them, and where they stand on it."""
        texts = dict.fromkeys(key[-1] for key in self.spots)
        return {text: (number_of(text) or 0.0) if self.numeric else float(n) for n, text in enumerate(texts)}

    def along(self, line: Key) -> Iterator[tuple[str, Spot]]:
        for key, spots in self.spots.items():
            if key[:-1] == line:
                for spot in spots.values():
                    yield key[-1], spot

    def named(self, line: Key) -> str:
        pairs = zip(self.names[:-1], line, strict=True)
        return ", ".join(value if name == SCENARIO else f"{name}={value}" for name, value in pairs)


def lines(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    points = [*exhibit.select_points(findings.declared), *exhibit.select_points(findings.points)]
    apart = [name for figure in exhibit.views for name in figure.over]
    scenarios = {point.scenario for point in points}
    wanted = (*((SCENARIO,) if len(scenarios) > 1 and SCENARIO not in exhibit.by else ()), *exhibit.by)
    # What only changes along the axis, in step with it, makes no line of its own.
    names = row_names(replace(exhibit, by=(*wanted, exhibit.x)), points, apart)
    names = (*(name for name in names if name != exhibit.x), exhibit.x)
    sweep = _Sweep(findings, exhibit, names, rows(findings, exhibit, names))
    panels, said = _panels(sweep)
    if not panels:
        known = f" As printed: {'; '.join(said)}." if said else ""
        return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured of it.{known}"),)
    name = findings.exhibit_name("lines", exhibit)
    axes = _axes(sweep)
    says = _description(exhibit, panels, axes.labels)
    keys = list(dict.fromkeys(line.key for panel in panels for line in panel.lines))
    picture = svg.clean(sweep_charts.sweep(panels, axes, keys), name, says)
    notes = tuple(_notes(sweep, panels, said))
    return (Figure(name, exhibit.title, picture, says, notes, wide=True),)


def number_of(text: str) -> float | None:
    """A parameter as a place on an axis; None where it is only a name."""
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
    """Of several systems with several lines each, every system has a panel; else one holds them all.

    Published figures come from other machines: they have panels, and axes, of their own.
    """
    found: list[Panel] = []
    said: list[str] = []
    for origin in (PUBLISHED, MEASURED):
        every = [(pair, made) for pair in pairs(sweep.findings) if (made := _lines_of(sweep, pair, origin))]
        marks = [mark for _, made in every for line in made for mark in line.marks if not line.second]
        if origin == PUBLISHED and len(marks) < _FEWEST:
            said += [mark.says for mark in marks]
        elif len(sweep.keys) == 1 and every:
            found.append(_panel(origin.capitalize(), origin, [line for _, made in every for line in made]))
        else:
            found += [_panel(f"{_name(sweep.findings, pair, origin)}, {origin}", origin, made) for pair, made in every]
    return found, said


def _panel(title: str, origin: str, made: Sequence[Line]) -> Panel:
    # Printed figures at one place of the axis are marks: a line through them would go straight up.
    joined = origin == MEASURED or any(len(line.marks) > 1 for line in made)
    return Panel(title, origin, tuple(made), joined)


def _name(findings: Findings, pair: Pair, origin: str) -> str:
    if origin == PUBLISHED or pair.measured is None:
        return pair.published or ""
    return stamped(pair.measured, findings.stamps_of(pair.measured))


def _lines_of(sweep: _Sweep, pair: Pair, origin: str) -> list[Line]:
    system = pair.published if origin == PUBLISHED else pair.measured
    if system is None:
        return []
    found = []
    for key in sweep.keys:
        # With one line a system, the system is the colour; with several, the setting is.
        named = sweep.named(key) if len(sweep.keys) > 1 else pair_name(sweep.findings, pair)
        for second, figure in enumerate(sweep.exhibit.views):
            marks = [
                mark
                for x, spot in sweep.along(key)
                if (mark := _mark(sweep, (system, origin), figure, key, x, spot)) is not None
            ]
            if marks:
                found.append(Line(named, tuple(marks), bool(second)))
    return found


def _mark(sweep: _Sweep, subject: tuple[str, str], figure: MetricView, key: Key, x: str, spot: Spot) -> Mark | None:
    system, origin = subject
    value = _printed(sweep, system, figure, spot) if origin == PUBLISHED else _measured(sweep, system, figure, spot)
    if value is None:
        return None
    found, ci95, before, after = value
    place = ", ".join(part for part in (sweep.named(key), f"{sweep.exhibit.x}={x}") if part)
    amount = f"{before}{formatting.quantity(found, METRICS[figure.metric].unit)}{after}"
    says = f"{system}, {origin}, {place}: {amount} ({_named(figure)})"
    return Mark(sweep.places[x], found, ci95, says)


_Value = tuple[float, float | None, str, str]  # a figure, half its interval, what stands before and after it


def _printed(sweep: _Sweep, system: str, figure: MetricView, spot: Spot) -> _Value | None:
    point = spot.declared
    if point is None:
        return None
    found = sweep.findings.study.find_published(system, point, figure.metric, figure.over, sweep.exhibit.title)
    return None if found is None or found.value is None else (found.value, None, "", "")


def _measured(sweep: _Sweep, system: str, figure: MetricView, spot: Spot) -> _Value | None:
    findings = sweep.findings
    if figure.kind == "peak":
        peak = findings.peak(system, spot.ours, figure.metric, figure.over)
        if peak is None:
            return None
        return peak.value, peak.ci95, bound_mark(peak.metric, peak.bound_by), f" at {peak.at}"
    found = spot.point and findings.measure(system, spot.point, figure.metric)
    if not found or spot.point is None:
        return None
    flag = f" {formatting.FLAG}" if findings.busy(system, spot.point) else ""
    return found.value, found.ci95, bound_mark(found.metric, found.bound_by), flag


def _description(exhibit: Exhibit, panels: Sequence[Panel], labels: Mapping[float, str]) -> str:
    """Every line with its first, highest and last figure; the marks themselves say the others."""
    named = " and ".join(_named(figure) for figure in exhibit.views)
    said = []
    for panel in panels:
        for line in panel.lines:
            top = max(line.marks, key=lambda mark: mark.y)
            said.append(f"{panel.title}, {line.key}: highest {formatting.number(top.y)} at {exhibit.x}={labels[top.x]}")
    return f"{exhibit.title}: {named} against {formatting.parameter(exhibit.x).lower()}. {'. '.join(said)}."


def _notes(sweep: _Sweep, panels: Sequence[Panel], said: Sequence[str]) -> Iterator[str]:
    if said:
        yield f"As printed: {'; '.join(said)}."
    if {panel.family for panel in panels} == {PUBLISHED, MEASURED}:
        yield "Published figures come from the study's own machines and have axes of their own: compare the shapes."
    if len(sweep.exhibit.views) > 1:
        named = _named(sweep.exhibit.views[1])
        yield f"Dashed, with squares, on the right: {named}, in the colour of the line it belongs to."
    if any(figure.metric == "cpu.broker" for figure in sweep.exhibit.views):
        yield "CPU measured here is in percent of one core."
    yield from flag_notes(sweep.findings, sweep.exhibit.select_points(sweep.findings.points))
