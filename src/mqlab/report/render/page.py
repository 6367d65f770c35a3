"""The page of a report: headline, verdicts, the study's exhibits, and the lab's own tables."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.report.capacity.section import capacity_sections
from mqlab.report.claims.gates import judge_gates
from mqlab.report.claims.tables import figures_table, gate_table, verdict_table
from mqlab.report.claims.verdicts import Verdict, judge
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits import lab_tables, run_tables
from mqlab.report.exhibits.answer import answer
from mqlab.report.exhibits.curves import latency_figure, series_figure
from mqlab.report.exhibits.exhibits import blocks
from mqlab.report.exhibits.headline import audit_tile, headline, lengths, rate_tiles, verdict_tile, warnings
from mqlab.report.exhibits.overview import overview
from mqlab.report.render import formatting
from mqlab.report.render.content import Block, Page, Prose, Section
from mqlab.study import Exhibit, Point
from mqlab.study.exhibit import own_scenarios

# The most points whose latencies and series are drawn: pictures of hundreds of points would take minutes.
DRAWN: Final = 12


def build(results: RunResults) -> Page:
    verdicts = judge(results)
    source = results.study.source
    return Page(
        title=results.study.title,
        source=". ".join(filter(None, (source.title, ", ".join(source.authors), source.where))) if source else "",
        facts=_facts(results),
        tiles=(*rate_tiles(results), audit_tile(results), *([verdict_tile(verdicts)] if verdicts else [])),
        warnings=tuple(warnings(results)),
        sections=tuple(s for s in _sections(results, verdicts) if s.blocks or s.parts),
        answer=answer(results, verdicts),
    )


def _facts(results: RunResults) -> tuple[tuple[str, str], ...]:
    meta = results.meta
    machine = meta.get("machine") or {}
    systems = [" ".join(filter(None, (stamped(s.name, s.stamps), s.version))) for s in results.systems]
    return (
        ("Study", results.study.id),
        ("Scale", f"{results.scale}: {lengths(results.points)} measured a run"),
        ("Systems", formatting.listed(systems)),
        (
            "Machine",
            ", ".join(str(machine[key]) for key in ("cpu", "os") if machine.get(key)) or formatting.NOT_AVAILABLE,
        ),
        ("Started", formatting.moment(meta.get("started"))),
        ("Run", str(meta.get("id", results.folder.path.name))),
    )


def _sections(results: RunResults, verdicts: Sequence[Verdict]) -> Iterator[Section]:
    yield from capacity_sections(results)
    picture = overview(results)
    yield Section("overview", "Overview", (picture,) if picture else ())
    if results.study.claims:
        yield Section("verdicts", "Verdicts", (verdict_table(results, verdicts), figures_table(results, verdicts)))
    if goals := judge_gates(results, results.study.goals):
        yield Section("goals", "Goals", (gate_table(goals),))
    yield from _exhibit_sections(results)
    faults = run_tables.faults_table(results)
    yield Section("faults", "Faults", (faults,) if faults else ())
    yield Section("points", "Points", (lab_tables.points_table(results), lab_tables.latency_table(results)))
    yield Section("audit", "Delivery audit", (run_tables.audit_table(results),))
    yield Section("noise", "Noise and steadiness", (run_tables.noise_table(results),))
    yield Section("resources", "Resources", (lab_tables.resource_table(results),))
    operations = run_tables.operations_table(results)
    yield Section("operations", "Traced operations", (operations,) if operations else ())
    calibrated = lab_tables.calibration_table(results)
    tables = (
        lab_tables.systems_table(results),
        lab_tables.durability_table(results),
        *((calibrated,) if calibrated else ()),
    )
    yield Section("systems", "Systems", tables)
    yield Section("machine", "Machine and versions", tuple(lab_tables.machine_tables(results)))
    yield Section("reading", "How to read this report", tuple(Prose(text) for text in _READING))


def _exhibit_sections(results: RunResults) -> Iterator[Section]:
    """Sections in the order of the study; exhibits with a part for each scenario share one section."""
    exhibits = results.study.exhibits
    each = [exhibit for exhibit in exhibits if exhibit.each]
    drawn = {(point.scenario, point.name) for point in drawn_points(results)}
    parts = tuple(_scenario(results, name, each, drawn) for name in results.study.scenarios)
    scenarios = Section("scenarios", "Scenarios", parts=tuple(part for part in parts if part.blocks))
    for number, exhibit in enumerate(exhibits, start=1):
        if not exhibit.each:
            yield Section(f"exhibit-{number}", exhibit.title, blocks(results, exhibit))
        elif exhibit is each[0]:
            yield scenarios
    if not each:
        yield scenarios


def drawn_points(results: RunResults) -> list[Point]:
    """The points whose latencies and series are drawn: all of a few, else the highest of every scenario in turn."""
    if len(results.study_points) <= DRAWN:
        return [point for point in results.points if point not in results.searched]
    metric = headline(results)

    def rate(point: Point) -> float:
        measures = (results.measure(system.name, point, metric) for system in results.systems)
        return max((measure.value for measure in measures if measure), default=0.0)

    ranked = [sorted(results.points_of(name), key=rate, reverse=True) for name in results.study.scenarios]
    longest = max(map(len, ranked), default=0)
    by_rank = [points[place] for place in range(longest) for points in ranked if place < len(points)]
    return by_rank[:DRAWN]


def _scenario(results: RunResults, name: str, exhibits: Sequence[Exhibit], drawn: set[tuple[str, str]]) -> Section:
    scenario = results.study.scenarios[name]
    points = results.points_of(name)
    # The study's exhibits say nothing of a scenario that the lab added.
    shown = () if own_scenarios(points) else exhibits
    content: list[Block] = [block for exhibit in shown for block in blocks(results, exhibit, name)]
    chosen = [point for point in points if (point.scenario, point.name) in drawn]
    for point in chosen:
        content += [figure for figure in (latency_figure(results, point), series_figure(results, point)) if figure]
    if content and len(chosen) < len(points):
        content.append(
            Prose(
                f"Times and seconds are drawn for {len(chosen)} of {len(points):,} points, those with the highest "
                f"{formatting.metric(headline(results))}; the tables below have all."
            )
        )
    title = f"Scenario {name}: {scenario.title}" if scenario.title else f"Scenario {name}"
    return Section(f"scenario-{list(results.study.scenarios).index(name) + 1}", title, tuple(content))


_READING = (
    "Published figures are the study's own, as it printed them, on its own machines. Figures measured here come from "
    "the records of this run. The two are always labelled, never averaged, and compared only by shape and ratio.",
    f"{formatting.PLUS_MINUS} is the half width of a 95 % interval over the valid runs of a point. "
    f"{formatting.LOWER_BOUND} marks a figure that the lab bounded, so that the system can do at least that much. "
    "n/a stands in place of a missing figure, with the reason; it never means zero. "
    f"{formatting.FLAG} marks a point in which an agent was busier than the study allows its clients. "
    f"{formatting.FLAGGED} marks a point all of whose runs are flagged: other work on the machine disturbed them, or "
    "they were not steady.",
    "A verdict is holds or refuted when the claim's expression is true or false for every value inside the intervals "
    "of the figures it uses, inconclusive when it depends on where inside them the truth lies, and not testable here "
    "when a figure or a system that it needs is missing. Where a claim compares several points, a figure that the "
    "lab bounded counts as that much or more: up to what the system could do if the lab's own work took no time.",
    "Every figure comes from the pipeline's measures or from the published values. This report computes only the "
    "ratios to published figures and the claims' expressions.",
    "Where a system was run in place of a published one, the two stand side by side. A claim about the published "
    "system is then judged on the one that stands for it: on the effect that the study describes, not on the product.",
)
