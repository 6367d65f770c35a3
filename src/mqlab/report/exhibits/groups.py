"""Bar charts of all systems, grouped by parameters or by scenario, published beside measured."""

from collections.abc import Iterator

from mqlab.report.charts import group_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.group_charts import GroupBar, GroupPanel
from mqlab.report.data.pairing import SystemPair, pair_name, pairs
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.selection import SCENARIO, Key, RowPoints, row_names, rows
from mqlab.report.exhibits.cells import figure_text, notes_of, why_hidden
from mqlab.report.exhibits.colours import pair_colours
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Prose
from mqlab.study import METRICS, Exhibit


def grouped(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    metric = exhibit.value or ""
    panels = [_panel(results, exhibit, origin) for origin in (PUBLISHED, MEASURED)]
    panels = [panel for panel in panels if any(bar.value is not None for bar in panel.bars)]
    if not panels:
        return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured or published of it."),)
    shown = {bar.key for panel in panels for bar in panel.bars}
    colours = {key: colour for key, colour in pair_colours(results).items() if key in shown}
    name = results.exhibit_name("bars", exhibit)
    texts = [bar.description for panel in panels for bar in panel.bars]
    description = f"{exhibit.title}, {METRICS[metric].unit}. {'; '.join(texts)}"
    drawn = group_charts.groups(panels, colours, METRICS[metric].unit)
    notes = tuple(_notes(results, exhibit, panels))
    return (chart_figure(name, exhibit.title, drawn, description, notes, wide=True),)


def _panel(results: RunResults, exhibit: Exhibit, origin: str) -> GroupPanel:
    points = [*exhibit.select_points(results.declared), *exhibit.select_points(results.points)]
    names = row_names(exhibit, points)
    by_key = rows(results, exhibit, names)
    several = len({point.scenario for point in points}) > 1 and SCENARIO not in names
    bars: list[GroupBar] = []
    for key, by_scenario in by_key.items():
        for scenario, row in by_scenario.items():
            group = _named(names, key, scenario if several else "")
            for pair in pairs(results):
                bars += _bar(results, exhibit, pair, origin, group, row)
    return GroupPanel(origin.capitalize(), tuple(bars))


def _named(names: Key, key: Key, scenario: str) -> str:
    """The name of a group: of one parameter its value, of several their names too."""
    if len(names) == 1:
        parts = [scenario, key[0]]
    else:
        parts = [scenario, *(v if n == SCENARIO else f"{n}={v}" for n, v in zip(names, key, strict=True))]
    return ", ".join(part for part in parts if part)


def _bar(
    results: RunResults, exhibit: Exhibit, pair: SystemPair, origin: str, group: str, row: RowPoints
) -> Iterator[GroupBar]:
    system = pair.published if origin == PUBLISHED else pair.measured
    if system is None:
        return
    read = _printed if origin == PUBLISHED else _measured
    value, ci95, label = read(results, exhibit, system, row)
    unit = METRICS[exhibit.value or ""].unit
    half = f" {formatting.PLUS_MINUS} {formatting.quantity(ci95, unit)}" if ci95 else ""
    description = f"{group}, {system}, {origin}: {label}{half}"
    yield GroupBar(group, pair_name(results, pair), value, ci95, label, description)


def _printed(results: RunResults, exhibit: Exhibit, system: str, row: RowPoints) -> tuple[float | None, None, str]:
    point = row.declared
    published = point and results.study.find_published(system, point, exhibit.value or "", table=exhibit.title)
    if not published:
        return None, None, f"{formatting.NOT_AVAILABLE}, not published"
    if published.value is None:
        return None, None, f"printed as {published.text}"
    return published.value, None, formatting.printed(published.text)


def _measured(
    results: RunResults, exhibit: Exhibit, system: str, row: RowPoints
) -> tuple[float | None, float | None, str]:
    if row.point is None:
        return None, None, f"{formatting.NOT_AVAILABLE}, {row.absence(results)}"
    measure = results.measure(system, row.point, exhibit.value or "")
    if measure is None:
        return (
            None,
            None,
            f"{formatting.NOT_AVAILABLE}, {results.absence(system, row.point, True, exhibit.value or '')}",
        )
    if why_hidden(measure):
        return None, None, formatting.NOT_KNOWN
    unit = measure.unit if measure.unit in formatting.SCALED else ""
    text = figure_text(measure.value, unit, measure.lower_bound, results.flags(system, row.point))
    return measure.value, measure.ci95, text


def _notes(results: RunResults, exhibit: Exhibit, panels: list[GroupPanel]) -> Iterator[str]:
    if len(panels) > 1:
        yield "Published figures come from the study's own machines and have an axis of their own: compare the shapes."
    yield from notes_of(results, exhibit.select_points(results.points), [exhibit.value or ""])
