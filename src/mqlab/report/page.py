"""The report as a whole: what was found, the verdicts, the study's exhibits, then what stands behind the figures."""

from collections import Counter
from collections.abc import Iterator, Sequence

from mqlab.report import charts, svg, tables, words
from mqlab.report.claims import figures_table, verdict_table
from mqlab.report.content import MEASURED, Block, Figure, Page, Prose, Section, Tile
from mqlab.report.curves import latency_figure, series_figure
from mqlab.report.exhibits import bar, blocks
from mqlab.report.findings import CLEAN, Findings, stamped
from mqlab.report.matrix import subjects
from mqlab.report.verdicts import HOLDS, INCONCLUSIVE, NOT_TESTABLE, REFUTED, Verdict, judge
from mqlab.study import METRICS, Exhibit, Point
from mqlab.study.units import format_time


def build(findings: Findings) -> Page:
    verdicts = judge(findings)
    source = findings.study.source
    return Page(
        title=findings.study.title,
        source=". ".join(filter(None, (source.title, ", ".join(source.authors), source.where))) if source else "",
        facts=_facts(findings),
        tiles=(*_rate_tiles(findings), audit_tile(findings), *([verdict_tile(verdicts)] if verdicts else [])),
        warnings=tuple(warnings(findings)),
        sections=tuple(s for s in _sections(findings, verdicts) if s.blocks or s.parts),
    )


def audit_tile(findings: Findings) -> Tile:
    states = Counter(audit.status for audit in findings.audits)
    total = sum(states.values())
    if not total:
        return Tile("Delivery audit", "no run", "nothing was audited", "void")
    found = {
        name: sum(getattr(audit, name) or 0 for audit in findings.audits if audit.status in (CLEAN, "failed"))
        for name in ("lost", "duplicated", "out_of_order", "unexpected")
    }
    said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.items())
    others = "".join(f", {count:,} {state}" for state, count in states.items() if state != CLEAN)
    tone = CLEAN if states[CLEAN] == total else "failed"
    return Tile("Delivery audit", f"{states[CLEAN]:,} of {total:,} runs clean", said + others, tone)


def verdict_tile(verdicts: Sequence[Verdict]) -> Tile:
    counts = Counter(verdict.verdict for verdict in verdicts if verdict.basis == "measured")
    said = ", ".join(f"{counts[word]} {word}" for word in (REFUTED, INCONCLUSIVE, NOT_TESTABLE))
    held = f"{counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}"
    return Tile(f"Verdicts on the study's claims, {MEASURED}", held, said)


def warnings(findings: Findings) -> Iterator[str]:
    """What a reader must know before the first figure."""
    if findings.meta.get("status") != "complete":
        yield "This run is incomplete: it was ended before all its points were measured."
    spoiled = [audit for audit in findings.audits if audit.status != CLEAN]
    if spoiled:
        yield (
            f"{words.count(len(spoiled), 'run')} of {len(findings.audits):,} did not pass the audit and "
            f"{'counts' if len(spoiled) == 1 else 'count'} for no figure."
        )
    for system in findings.systems:
        if system.stamps:
            yield f"{system.name} was run with: {words.listed(list(system.stamps))}."
    if findings.scale != "full":
        ours, own = _lengths(findings.points), _lengths(findings.study.points("full"))
        yield f"Scale {findings.scale}: {ours} measured a run, not the study's own {own}."


def _facts(findings: Findings) -> tuple[tuple[str, str], ...]:
    meta = findings.meta
    machine = meta.get("machine") or {}
    systems = [" ".join(filter(None, (stamped(s.name, s.stamps), s.version))) for s in findings.systems]
    return (
        ("Study", findings.study.id),
        ("Scale", f"{findings.scale}: {_lengths(findings.points)} measured a run"),
        ("Systems", words.listed(systems)),
        ("Machine", ", ".join(str(machine[key]) for key in ("cpu", "os") if machine.get(key)) or words.NOT_AVAILABLE),
        ("Started", words.moment(meta.get("started"))),
        ("Run", str(meta.get("id", findings.folder.path.name))),
    )


def _rate_tiles(findings: Findings) -> Iterator[Tile]:
    """The highest figure of each system; a page of many systems has the exhibits for the rest."""
    metric = headline(findings)
    for system in findings.systems[:2]:
        found = [m for m in findings.measures if m.system == system.name and m.metric == metric]
        if found:
            best = max(found, key=lambda measure: measure.value)
            bound = f"{words.LOWER_BOUND} " if best.lower_bound else ""
            place = f"{best.scenario} {best.point}".strip()
            yield Tile(
                f"Highest {words.metric(metric)}, {MEASURED}",
                f"{bound}{words.short(best.value)} {best.unit}",
                f"{stamped(system.name, system.stamps)}, scenario {place}",
            )


def headline(findings: Findings) -> str:
    """The metric the study is about: that of its first exhibit that shows one."""
    return next((exhibit.value for exhibit in findings.study.exhibits if exhibit.value), "rate.received")


def _sections(findings: Findings, verdicts: Sequence[Verdict]) -> Iterator[Section]:
    glance = _glance(findings)
    yield Section("glance", "At a glance", (glance,) if glance else ())
    if findings.study.claims:
        yield Section("verdicts", "Verdicts", (verdict_table(findings, verdicts), figures_table(findings, verdicts)))
    yield from _exhibit_sections(findings)
    yield Section("points", "Points", (tables.points_table(findings), tables.latency_table(findings)))
    yield Section("audit", "Delivery audit", (tables.audit_table(findings),))
    yield Section("resources", "Resources", (tables.resource_table(findings),))
    yield Section("systems", "Systems", (tables.systems_table(findings),))
    yield Section("machine", "Machine and versions", tuple(tables.machine_tables(findings)))
    yield Section("reading", "How to read this report", tuple(Prose(text) for text in _READING))


def _exhibit_sections(findings: Findings) -> Iterator[Section]:
    """In the study's order; all that it has once a scenario stands together, in place of the first of them."""
    exhibits = findings.study.exhibits
    each = [exhibit for exhibit in exhibits if exhibit.each]
    parts = tuple(_scenario(findings, name, each) for name in findings.study.scenarios)
    scenarios = Section("scenarios", "Scenarios", parts=tuple(part for part in parts if part.blocks))
    for number, exhibit in enumerate(exhibits, start=1):
        if not exhibit.each:
            yield Section(f"exhibit-{number}", exhibit.title, blocks(findings, exhibit))
        elif exhibit is each[0]:
            yield scenarios
    if not each:
        yield scenarios


def _scenario(findings: Findings, name: str, exhibits: Sequence[Exhibit]) -> Section:
    scenario = findings.study.scenarios[name]
    found: list[Block] = [block for exhibit in exhibits for block in blocks(findings, exhibit, name)]
    for point in findings.points_of(name):
        found += [figure for figure in (latency_figure(findings, point), series_figure(findings, point)) if figure]
    title = f"Scenario {name}: {scenario.title}" if scenario.title else f"Scenario {name}"
    return Section(f"scenario-{list(findings.study.scenarios).index(name) + 1}", title, tuple(found))


def _glance(findings: Findings) -> Figure | None:
    metric = headline(findings)
    given = [
        (point.label, bar(findings, subject, point, metric))
        for point in findings.points
        for subject in subjects(findings)
    ]
    if not any(found.value for _, found in given):
        return None
    title = f"{words.metric(metric).capitalize()} of every scenario"
    says = f"{title}: published figures as circles, those measured here as diamonds."
    picture = svg.clean(charts.dots(given, METRICS[metric]), "glance", says)
    note = (
        "Circles are published, diamonds were measured here. The machines differ: compare the shape from scenario "
        "to scenario, not the distance between a circle and a diamond."
    )
    return Figure("glance", title, picture, says, (note,))


def _lengths(points: Sequence[Point]) -> str:
    return words.listed(list(dict.fromkeys(format_time(point.phases.measure) for point in points)))


_READING = (
    "Published figures are the study's own, as it printed them, on its own machines. Figures measured here come from "
    "the records of this run. The two are always labelled, never averaged, and compared only by shape and ratio.",
    f"{words.PLUS_MINUS} is the half width of a 95 % interval over the valid runs of a point. {words.LOWER_BOUND} "
    "marks a figure that the agents bounded, so that the system can do at least that much. n/a stands where there is "
    "no figure, with the reason; it never means zero.",
    "A verdict is holds or refuted when the claim's expression is true or false for every value inside the intervals "
    "of the figures it uses, inconclusive when it depends on where inside them the truth lies, and not testable here "
    "when a figure or a system that it needs is missing. Where a claim compares several points, a figure that the "
    "agents bounded counts as that much or more.",
    "Every figure comes from the pipeline's measures or from the published values. This report computes only the "
    "ratios to published figures and the claims' expressions.",
)
