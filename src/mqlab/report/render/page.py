"""The page of a report, in tabs: the answer, comparisons, the study's exhibits, the evidence and the set-up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from mqlab.report.capacity.scaling import scaling_table
from mqlab.report.capacity.section import capacity_sections
from mqlab.report.claims.gates import judge_gates
from mqlab.report.claims.limits import limits_figure
from mqlab.report.claims.tables import figures_table, gate_table, verdict_table
from mqlab.report.claims.verdicts import Verdict, judge
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits import lab_tables, run_tables
from mqlab.report.exhibits.answer import answer, scenario_answers
from mqlab.report.exhibits.compare import comparison_table, overview, rate_against_latency
from mqlab.report.exhibits.exhibits import blocks
from mqlab.report.exhibits.headline import headline, lengths, rate_tiles, verdict_tile, warnings
from mqlab.report.exhibits.lab_figures.curves import latency_figure, series_figure
from mqlab.report.exhibits.lab_figures.heat_map import heat_map_figures
from mqlab.report.exhibits.trust import trust_lights, undecided
from mqlab.report.render import formatting
from mqlab.report.render.content import Block, Figure, Page, Prose, Section, Tab
from mqlab.study import Exhibit, Point
from mqlab.study.exhibit import own_scenarios

# The most points whose latencies and series are drawn: pictures of hundreds of points would take minutes.
DRAWN: Final = 12


def build(results: RunResults) -> Page:
    verdicts = judge(results)
    source = results.study.source
    tabs = (
        Tab("answer", "Answer", _answer_sections(results, verdicts)),
        Tab("compare", "Compare", _compare_sections(results)),
        Tab("scenarios", "Scenarios", tuple(_exhibit_sections(results))),
        Tab("evidence", "Evidence", tuple(_evidence_sections(results))),
        Tab("setup", "Setup", tuple(_setup_sections(results))),
    )
    return Page(
        title=results.study.title,
        source=". ".join(filter(None, (source.title, ", ".join(source.authors), source.where))) if source else "",
        facts=_facts(results),
        tiles=(*rate_tiles(results), *([verdict_tile(verdicts)] if verdicts else [])),
        warnings=tuple(warnings(results)),
        tabs=tuple(replace(tab, sections=_present(tab.sections)) for tab in tabs if _present(tab.sections)),
        answers=(answer(results, verdicts), *scenario_answers(results)),
        lights=trust_lights(results),
        undecided=undecided(results, verdicts),
    )


def _present(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.blocks)


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


def _answer_sections(results: RunResults, verdicts: Sequence[Verdict]) -> tuple[Section, ...]:
    goals = judge_gates(results, results.study.goals)
    own = (
        *capacity_sections(results),
        Section("goals", "Goals", (gate_table(goals),) if goals else ()),
        Section("faults", "Faults", _shown(run_tables.faults_table(results))),
    )
    if not results.study.claims:
        return (*own, Section("overview", "Overview", _shown(overview(results))))
    tables = (verdict_table(results, verdicts), figures_table(results, verdicts))
    return (
        *own,
        Section("limits", "Claims against their limits", _shown(limits_figure(results, verdicts))),
        Section("verdicts", "Verdicts", tables, folded=True),
    )


def _compare_sections(results: RunResults) -> tuple[Section, ...]:
    """Systems, and published figures beside measured ones."""
    every = _shown(overview(results)) if results.study.claims else ()
    return (
        Section("overview", "Overview", every),
        Section("comparison", "Ratios", _shown(comparison_table(results))),
        Section("rate-and-latency", "Rate against latency", _shown(rate_against_latency(results))),
        Section("scaling", "Scaling", _shown(scaling_table(results))),
    )


def _evidence_sections(results: RunResults) -> Iterator[Section]:
    drawn = drawn_points(results)
    yield Section("points", "Points", (lab_tables.points_table(results),), folded=True)
    curves = _shown(*(latency_figure(results, point) for point in drawn))
    latencies = (lab_tables.latency_table(results), *_some(results, drawn, curves))
    yield Section("latencies", "Latencies", latencies, folded=True)
    series = _shown(*(series_figure(results, point) for point in drawn))
    heat_maps = tuple(heat_map_figures(results, drawn))
    yield Section("latency-over-time", "Latency over time", _some_maps(results, heat_maps), folded=True)
    yield Section("series", "Second by second", _some(results, drawn, series), folded=True)
    yield Section("resources", "Resources", (lab_tables.resource_table(results),), folded=True)
    yield Section("audit", "Delivery audit", (run_tables.audit_table(results),), folded=True)
    yield Section("noise", "Noise and steadiness", (run_tables.noise_table(results),), folded=True)
    yield Section("durability", "Durability of confirmations", (lab_tables.durability_table(results),), folded=True)
    yield Section("lab", "The lab's own work", _shown(lab_tables.calibration_table(results)), folded=True)
    yield Section("operations", "Traced operations", _shown(run_tables.operations_table(results)), folded=True)


def _some(results: RunResults, drawn: Sequence[Point], figures: tuple[Block, ...]) -> tuple[Block, ...]:
    """The figures, and a note if they are not those of all points."""
    if not figures or len(drawn) == len(results.points):
        return figures
    highest = f"those with the highest {formatting.metric(headline(results))}"
    note = f"Drawn for {len(drawn)} of {len(results.points):,} points, {highest}; the tables have all."
    return (*figures, Prose(note))


def _some_maps(results: RunResults, figures: tuple[Figure, ...]) -> tuple[Block, ...]:
    if not figures or len(figures) == len(results.points):
        return figures
    chosen = "first those with faults or with producers held back"
    return (*figures, Prose(f"Drawn for {len(figures)} of {len(results.points):,} points, {chosen}."))


def _setup_sections(results: RunResults) -> Iterator[Section]:
    yield Section("systems", "Systems", (lab_tables.systems_table(results), lab_tables.settings_table(results)))
    yield Section("machine", "Machine and versions", tuple(lab_tables.machine_tables(results)))
    yield Section("reading", "How to read this report", tuple(Prose(text) for text in _READING), folded=True)


def _shown(*blocks: Block | None) -> tuple[Block, ...]:
    return tuple(block for block in blocks if block is not None)


def _exhibit_sections(results: RunResults) -> Iterator[Section]:
    """Sections in the order of the study; of exhibits with a part for each scenario, every scenario is a section."""
    exhibits = results.study.exhibits
    each = [exhibit for exhibit in exhibits if exhibit.each]
    for number, exhibit in enumerate(exhibits, start=1):
        if not exhibit.each:
            yield Section(f"exhibit-{number}", exhibit.title, blocks(results, exhibit), folded=True)
        elif exhibit is each[0]:
            yield from (_scenario(results, name, each) for name in results.study.scenarios)


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


def _scenario(results: RunResults, name: str, exhibits: Sequence[Exhibit]) -> Section:
    scenario = results.study.scenarios[name]
    # The study's exhibits say nothing of a scenario that the lab added.
    shown = () if own_scenarios(results.points_of(name)) else exhibits
    content = tuple(block for exhibit in shown for block in blocks(results, exhibit, name))
    title = f"Scenario {name}: {scenario.title}" if scenario.title else f"Scenario {name}"
    number = list(results.study.scenarios).index(name) + 1
    return Section(f"scenario-{number}", title, content, folded=True)


_READING = (
    "Published figures are the study's own, as it printed them, on its own machines. Figures measured here come from "
    "the records of this run. The two are always labelled, never averaged, and compared only by shape and ratio.",
    f"{formatting.PLUS_MINUS} is the half width of a 95 % interval over the valid runs of a point. "
    f"{formatting.LOWER_BOUND} marks a figure that the lab bounded, so that the system can do at least that much, "
    "or a time without service that had not ended when the run did. "
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
