"""Bars of all systems, grouped by a parameter or by scenario: one chart of the study, beside ours."""

from collections.abc import Iterator

from mqlab.report.charts import group_charts, svg
from mqlab.report.charts.group_charts import GroupBar, GroupPanel
from mqlab.report.data.findings import Findings
from mqlab.report.data.pairing import Pair, pair_name, pairs
from mqlab.report.data.selection import SCENARIO, Key, Spot, row_names, rows
from mqlab.report.exhibits.cells import figure_text, flag_notes, why_unknown
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Figure, Prose
from mqlab.study import METRICS, Exhibit


def grouped(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    metric = exhibit.value or ""
    panels = [_panel(findings, exhibit, origin) for origin in (PUBLISHED, MEASURED)]
    panels = [panel for panel in panels if any(bar.value is not None for bar in panel.bars)]
    if not panels:
        return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured or published of it."),)
    shown = {bar.key for panel in panels for bar in panel.bars}
    keys = [name for pair in pairs(findings) if (name := pair_name(findings, pair)) in shown]
    name = findings.exhibit_name("bars", exhibit)
    says = f"{exhibit.title}, {METRICS[metric].unit}. " + "; ".join(bar.says for panel in panels for bar in panel.bars)
    picture = svg.clean(group_charts.groups(panels, keys, METRICS[metric].unit), name, says)
    return (Figure(name, exhibit.title, picture, says, tuple(_notes(findings, exhibit, panels)), wide=True),)


def _panel(findings: Findings, exhibit: Exhibit, origin: str) -> GroupPanel:
    points = [*exhibit.select_points(findings.declared), *exhibit.select_points(findings.points)]
    names = row_names(exhibit, points)
    found = rows(findings, exhibit, names)
    several = len({point.scenario for point in points}) > 1 and SCENARIO not in names
    bars: list[GroupBar] = []
    for key, spots in found.items():
        for scenario, spot in spots.items():
            group = _named(names, key, scenario if several else "")
            for pair in pairs(findings):
                bars += _bar(findings, exhibit, pair, origin, group, spot)
    return GroupPanel(origin.capitalize(), tuple(bars))


def _named(names: Key, key: Key, scenario: str) -> str:
    """One parameter says by its value alone what a group is, several by their names too."""
    if len(names) == 1:
        parts = [scenario, key[0]]
    else:
        parts = [scenario, *(v if n == SCENARIO else f"{n}={v}" for n, v in zip(names, key, strict=True))]
    return ", ".join(part for part in parts if part)


def _bar(findings: Findings, exhibit: Exhibit, pair: Pair, origin: str, group: str, spot: Spot) -> Iterator[GroupBar]:
    system = pair.published if origin == PUBLISHED else pair.measured
    if system is None:
        return
    value, ci95, label = (
        _printed(findings, exhibit, system, spot) if origin == PUBLISHED else _measured(findings, exhibit, system, spot)
    )
    says = f"{group}, {system}, {origin}: {label}"
    yield GroupBar(group, pair_name(findings, pair), value, ci95, label, says)


def _printed(findings: Findings, exhibit: Exhibit, system: str, spot: Spot) -> tuple[float | None, None, str]:
    point = spot.declared
    found = point and findings.study.find_published(system, point, exhibit.value or "", table=exhibit.title)
    if not found:
        return None, None, f"{formatting.NOT_AVAILABLE}, not published"
    return found.value, None, formatting.printed(found.text) if found.value is not None else f"printed as {found.text}"


def _measured(findings: Findings, exhibit: Exhibit, system: str, spot: Spot) -> tuple[float | None, float | None, str]:
    if spot.point is None:
        return None, None, f"{formatting.NOT_AVAILABLE}, {spot.absence(findings)}"
    found = findings.measure(system, spot.point, exhibit.value or "")
    if found is None:
        return None, None, f"{formatting.NOT_AVAILABLE}, {findings.absence(system, spot.point, brief=True)}"
    if why_unknown(found.metric, found.value, found.ci95):
        return None, None, formatting.NOT_KNOWN
    unit = found.unit if found.unit in formatting.SCALED else ""
    text = figure_text(found.value, unit, found.lower_bound, findings.busy(system, spot.point))
    return found.value, found.ci95, text


def _notes(findings: Findings, exhibit: Exhibit, panels: list[GroupPanel]) -> Iterator[str]:
    if len(panels) > 1:
        yield "Published figures come from the study's own machines and have an axis of their own: compare the shapes."
    yield from flag_notes(findings, exhibit.select_points(findings.points))
