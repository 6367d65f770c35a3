"""Capacity in a report: one sentence for each search, the table of its rates, and latency against the rate."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.pipeline.schema import MeasureRow
from mqlab.report.capacity.scaling import scaling_blocks
from mqlab.report.capacity.trials import PointSearch, searches
from mqlab.report.charts import sweep_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.sweep_charts import Axes, Line, Mark, Panel
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import absent
from mqlab.report.exhibits.colours import line_colours
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Block, Cell, Figure, Prose, Row, Section, Table, number, row
from mqlab.study import Point
from mqlab.study.capacity.search import by_rate
from mqlab.study.language.units import format_rate
from mqlab.study.metric import METRICS

# Latencies of an overloaded system are those of its queue, and would flatten all others in a picture.
_MOST_TIMES: Final = 10


def capacity_sections(results: RunResults) -> Iterator[Section]:
    """A section for each scenario with a search."""
    found: dict[str, list[PointSearch]] = {}
    for search in searches(results):
        found.setdefault(search.point.scenario, []).append(search)
    for place, (scenario, of_scenario) in enumerate(found.items(), start=1):
        yield Section(f"capacity-{place}", f"Capacity: {scenario}", tuple(_blocks(of_scenario, place)))


def capacity_answer(results: RunResults) -> str:
    """The sentences of all searches; "" if the study has none."""
    return " ".join(sentence(search) for search in searches(results))


def sentence(search: PointSearch) -> str:
    """The result of the search, and how sure it is."""
    results, capacity = search.results, search.capacity
    name = stamped(search.system, results.stamps_of(search.system))
    where = f" in {search.point.label}" if len({each.point.label for each in searches(results)}) > 1 else ""
    if capacity.rate is None or capacity.status == "undecided":
        known = "" if capacity.rate is None else f"; {format_rate(capacity.rate)} is confirmed"
        return f"The capacity of {name} within {search.goal}{where} is not known: {capacity.reason}{known}."
    if capacity.status == "below":
        lowest = f"even at {format_rate(capacity.rate)}, the lowest rate that a run can tell"
        return f"{name} misses {search.goal}{where} {lowest}: {capacity.reason}."
    holds = by_rate(search.trials)[capacity.rate]
    runs = f"{holds.held} of {formatting.count(holds.held + holds.missed, 'run')}"
    if capacity.status == "above":
        return f"{name} holds {search.goal}{where} at {format_rate(capacity.rate)}, the highest rate, in {runs}."
    assert capacity.low is not None
    assert capacity.high is not None
    assert capacity.above is not None
    between = f"the limit lies between {format_rate(capacity.low)} and {format_rate(capacity.high)}"
    above = capacity.above
    missed = f"{above.missed} of {formatting.count(above.held + above.missed, 'run')} missed it at"
    return (
        f"{name} takes {format_rate(capacity.rate)} within {search.goal}{where}, confirmed in {runs}; {missed} "
        f"{format_rate(above.rate)} ({capacity.reason}); {between}."
    )


def _blocks(found: Sequence[PointSearch], place: int) -> Iterator[Block]:
    for search in found:
        yield Prose(sentence(search))
    if figure := _figure(found, place):
        yield figure
    yield from scaling_blocks(found)
    for search in found:
        yield rate_table(search)


def rate_table(search: PointSearch) -> Table:
    metrics = list(dict.fromkeys((f"{search.goal.metric.partition('.')[0]}.p50", search.goal.metric)))
    head = ("Planned rate", "Reached, messages/s", *(formatting.capital(formatting.metric(name)) for name in metrics),
            "Held", "Missed", "Bottleneck", "Why missed")  # fmt: skip
    where = f", {search.point.label}" if search.point.name else ""
    title = f"{search.system}{where}: {search.goal} at each rate, {MEASURED}"
    return Table(title, head, tuple(_rows(search, metrics)), tuple(_notes(search)))


def _rows(search: PointSearch, metrics: Sequence[str]) -> Iterator[Row]:
    rates, reached = by_rate(search.trials), "rate.round_trips" if search.point.requesters else "rate.sent"
    for point in search.points:
        if (trials := rates.get(point.rate or 0.0)) is None:
            continue
        measures = [search.results.measure(search.system, point, name) for name in (reached, *metrics)]
        cells = [_figure_cell(search, point, measure) for measure in measures]
        bound_by = next((measure.bound_by for measure in measures if measure), None)
        yield row(
            number(format_rate(trials.rate)), *cells, number(str(trials.held)), number(str(trials.missed)),
            Cell(bound_by or ""), Cell(trials.reasons[-1] if trials.reasons else ""),
        )  # fmt: skip


def _figure_cell(search: PointSearch, point: Point, measure: MeasureRow | None) -> Cell:
    if measure is None:
        return absent(search.results.absence(search.system, point, brief=True))
    flags = search.results.flags(search.system, point)
    return number(formatting.quantity(measure.value, "s" if measure.unit == "s" else "") + flags)


def _notes(search: PointSearch) -> Iterator[str]:
    if search.peak is not None:
        yield f"In a closed loop (rate: max) the producers reached {formatting.number(search.peak)} messages/s."
    yield (
        "Held: the runs that met the goal, with a clean audit, a steady state and the planned rate. A rate is "
        "confirmed when 3 more runs held the goal than missed it, and rejected when 2 more missed it. A run that was "
        "disturbed and missed the goal counts as neither."
    )


def _figure(found: Sequence[PointSearch], place: int) -> Figure | None:
    lines = [line for search in found if len((line := _line(search)).marks) > 1]
    if not lines:
        return None
    metric = found[0].goal.metric
    title = f"{formatting.capital(formatting.metric(metric))} against the planned rate"
    name = f"capacity-{place}"
    labels = {mark.x: formatting.short(mark.x) for line in lines for mark in line.marks}
    axes = Axes("planned rate, messages/s", formatting.metric(metric), METRICS[metric].unit, labels=labels)
    described = "; ".join(mark.description for line in lines for mark in line.marks)
    colours = line_colours(found[0].results, [line.key for line in lines])
    picture = sweep_charts.sweep([Panel("", "", lines)], axes, colours)
    drawn = f"Rates at which it is above {_MOST_TIMES} times the goal are only in the table."
    notes = (f"The goal is {found[0].goal}. {drawn}",)
    return chart_figure(name, title, picture, described, notes, wide=True)


def _line(search: PointSearch) -> Line:
    measures = ((p, search.results.measure(search.system, p, search.goal.metric)) for p in search.points)
    key = ", ".join(filter(None, (search.system, search.point.name)))
    marks = [
        Mark(point.rate or 0.0, measure.value, measure.ci95,
             f"{key} at {format_rate(point.rate or 0.0)}: {formatting.quantity(measure.value, 's')}")
        for point, measure in measures if measure and measure.value <= _MOST_TIMES * search.goal.limit
    ]  # fmt: skip
    return Line(key, marks)
