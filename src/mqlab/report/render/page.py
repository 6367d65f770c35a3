"""The report as a whole: what was found, the verdicts, the study's exhibits, then what stands behind the figures."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.report.claims.tables import figures_table, verdict_table
from mqlab.report.claims.verdicts import Verdict, judge
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.exhibits import lab_tables, run_tables
from mqlab.report.exhibits.curves import latency_figure, series_figure
from mqlab.report.exhibits.exhibits import blocks
from mqlab.report.exhibits.headline import audit_tile, headline, lengths, rate_tiles, verdict_tile, warnings
from mqlab.report.exhibits.overview import glance
from mqlab.report.render import formatting
from mqlab.report.render.content import Block, Page, Prose, Section
from mqlab.study import Exhibit, Point

# A picture for each of hundreds of points would take minutes to draw, and nobody would look at it.
DRAWN: Final = 12


def build(findings: Findings) -> Page:
    verdicts = judge(findings)
    source = findings.study.source
    return Page(
        title=findings.study.title,
        source=". ".join(filter(None, (source.title, ", ".join(source.authors), source.where))) if source else "",
        facts=_facts(findings),
        tiles=(*rate_tiles(findings), audit_tile(findings), *([verdict_tile(verdicts)] if verdicts else [])),
        warnings=tuple(warnings(findings)),
        sections=tuple(s for s in _sections(findings, verdicts) if s.blocks or s.parts),
    )


def _facts(findings: Findings) -> tuple[tuple[str, str], ...]:
    meta = findings.meta
    machine = meta.get("machine") or {}
    systems = [" ".join(filter(None, (stamped(s.name, s.stamps), s.version))) for s in findings.systems]
    return (
        ("Study", findings.study.id),
        ("Scale", f"{findings.scale}: {lengths(findings.points)} measured a run"),
        ("Systems", formatting.listed(systems)),
        (
            "Machine",
            ", ".join(str(machine[key]) for key in ("cpu", "os") if machine.get(key)) or formatting.NOT_AVAILABLE,
        ),
        ("Started", formatting.moment(meta.get("started"))),
        ("Run", str(meta.get("id", findings.folder.path.name))),
    )


def _sections(findings: Findings, verdicts: Sequence[Verdict]) -> Iterator[Section]:
    picture = glance(findings)
    yield Section("glance", "At a glance", (picture,) if picture else ())
    if findings.study.claims:
        yield Section("verdicts", "Verdicts", (verdict_table(findings, verdicts), figures_table(findings, verdicts)))
    yield from _exhibit_sections(findings)
    yield Section("points", "Points", (lab_tables.points_table(findings), lab_tables.latency_table(findings)))
    yield Section("audit", "Delivery audit", (run_tables.audit_table(findings),))
    yield Section("resources", "Resources", (lab_tables.resource_table(findings),))
    operations = run_tables.operations_table(findings)
    yield Section("operations", "Traced operations", (operations,) if operations else ())
    calibrated = lab_tables.calibration_table(findings)
    said = (
        lab_tables.systems_table(findings),
        lab_tables.durability_table(findings),
        *((calibrated,) if calibrated else ()),
    )
    yield Section("systems", "Systems", said)
    yield Section("machine", "Machine and versions", tuple(lab_tables.machine_tables(findings)))
    yield Section("reading", "How to read this report", tuple(Prose(text) for text in _READING))


def _exhibit_sections(findings: Findings) -> Iterator[Section]:
    """In the study's order; all that it has once a scenario stands together, in place of the first of them."""
    exhibits = findings.study.exhibits
    each = [exhibit for exhibit in exhibits if exhibit.each]
    drawn = {(point.scenario, point.name) for point in drawn_points(findings)}
    parts = tuple(_scenario(findings, name, each, drawn) for name in findings.study.scenarios)
    scenarios = Section("scenarios", "Scenarios", parts=tuple(part for part in parts if part.blocks))
    for number, exhibit in enumerate(exhibits, start=1):
        if not exhibit.each:
            yield Section(f"exhibit-{number}", exhibit.title, blocks(findings, exhibit))
        elif exhibit is each[0]:
            yield scenarios
    if not each:
        yield scenarios


def drawn_points(findings: Findings) -> list[Point]:
    """Whose latency and seconds are drawn: all of a few; else of every scenario in turn the one with the next rate."""
    if len(findings.points) <= DRAWN:
        return list(findings.points)
    metric = headline(findings)

    def rate(point: Point) -> float:
        found = (findings.measure(system.name, point, metric) for system in findings.systems)
        return max((measure.value for measure in found if measure), default=0.0)

    ranked = [sorted(findings.points_of(name), key=rate, reverse=True) for name in findings.study.scenarios]
    longest = max(map(len, ranked), default=0)
    in_turn = [points[place] for place in range(longest) for points in ranked if place < len(points)]
    return in_turn[:DRAWN]


def _scenario(findings: Findings, name: str, exhibits: Sequence[Exhibit], drawn: set[tuple[str, str]]) -> Section:
    scenario = findings.study.scenarios[name]
    found: list[Block] = [block for exhibit in exhibits for block in blocks(findings, exhibit, name)]
    points = findings.points_of(name)
    chosen = [point for point in points if (point.scenario, point.name) in drawn]
    for point in chosen:
        found += [figure for figure in (latency_figure(findings, point), series_figure(findings, point)) if figure]
    if found and len(chosen) < len(points):
        found.append(
            Prose(
                f"Times and seconds are drawn for {len(chosen)} of {len(points):,} points, those with the highest "
                f"{formatting.metric(headline(findings))}; the tables below have all."
            )
        )
    title = f"Scenario {name}: {scenario.title}" if scenario.title else f"Scenario {name}"
    return Section(f"scenario-{list(findings.study.scenarios).index(name) + 1}", title, tuple(found))


_READING = (
    "Published figures are the study's own, as it printed them, on its own machines. Figures measured here come from "
    "the records of this run. The two are always labelled, never averaged, and compared only by shape and ratio.",
    f"{formatting.PLUS_MINUS} is the half width of a 95 % interval over the valid runs of a point. "
    f"{formatting.LOWER_BOUND} marks a figure that the agents bounded, so that the system can do at least that much. "
    "n/a stands where there is no figure, with the reason; it never means zero. "
    f"{formatting.FLAG} marks a point in which an agent was busier than the study allows its clients.",
    "A verdict is holds or refuted when the claim's expression is true or false for every value inside the intervals "
    "of the figures it uses, inconclusive when it depends on where inside them the truth lies, and not testable here "
    "when a figure or a system that it needs is missing. Where a claim compares several points, a figure that the "
    "agents bounded counts as that much or more.",
    "Every figure comes from the pipeline's measures or from the published values. This report computes only the "
    "ratios to published figures and the claims' expressions.",
    "Where a system was run in place of a published one, the two stand side by side. A claim about the published "
    "system is then judged on the one that stands for it: on the effect that the study describes, not on the product.",
)
