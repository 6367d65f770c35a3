"""The headline of a report: the highest values, the audit, the verdicts and the warnings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.pipeline.schema import CLEAN, FAILED, FAULTS, VOID, MeasureRow
from mqlab.report.claims.verdicts import BY_CONSTRUCTION, HOLDS, INCONCLUSIVE, NOT_TESTABLE, REFUTED, Verdict
from mqlab.report.data.run_results import MeasuredSystem, RunResults, flags_of, stamped
from mqlab.report.exhibits.cells import why_hidden
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Tile
from mqlab.study import Exhibit, Point
from mqlab.study.exhibit import own_scenarios
from mqlab.study.language.units import format_time

_SYSTEMS: Final = 2
_LENGTHS: Final = 3


def headline(results: RunResults) -> str:
    """The main metric of the study: the first that its exhibits show and that was measured."""
    known = {measure.metric for measure in results.measures}
    shown = [metric for exhibit in results.study.exhibits for metric in _shown(exhibit)]
    metric = next((metric for metric in (*shown, "rate.work") if metric in known), (*shown, "rate.received")[0])
    # A study with one-way messages and with requests counts both as work: each request once.
    mixed = {point.work for point in results.study_points} > {metric}
    return "rate.work" if mixed and "rate.work" in known else metric


def _shown(exhibit: Exhibit) -> list[str]:
    figures = [figure.metric for figure in exhibit.views if figure.kind in ("value", "peak")]
    return [exhibit.value] if exhibit.value else figures


def rate_tiles(results: RunResults) -> Iterator[Tile]:
    """The highest value of each system; of more than two systems, the two highest."""
    for system, measure in highest(results)[:_SYSTEMS]:
        way = results.travel_at(system.name, measure.scenario, measure.point)
        yield Tile(
            f"Highest {formatting.metric(measure.metric)}, {MEASURED}",
            figure(measure),
            f"{stamped(system.name, system.stamps)}, {place(measure)}{', ' + way if way else ''}",
        )


def highest(results: RunResults) -> list[tuple[MeasuredSystem, MeasureRow]]:
    """The highest value of each system, in the order of the run; of more than two systems, the highest first."""
    metric = headline(results)
    best: list[tuple[MeasuredSystem, MeasureRow]] = []
    for system in results.systems:
        candidates = [
            m for m in results.measures
            if m.system == system.name and m.metric == metric and not why_hidden(m)
        ]  # fmt: skip
        if candidates:
            best.append((system, max(candidates, key=lambda measure: measure.value)))
    if len(best) > _SYSTEMS:
        best.sort(key=lambda entry: -entry[1].value)
    return best


def place(measure: MeasureRow) -> str:
    return f"scenario {measure.scenario} {measure.point}".strip()


def figure(best: MeasureRow) -> str:
    scaled = best.unit in formatting.SCALED
    text = formatting.quantity(best.value, best.unit) if scaled else f"{formatting.short(best.value)} {best.unit}"
    bound = f"{formatting.LOWER_BOUND} " if best.lower_bound else ""
    return f"{bound}{text}{flags_of(best)}"


def audit_tile(results: RunResults) -> Tile:
    states = Counter(audit.status for audit in results.audits)
    total = sum(states.values())
    if not total:
        return Tile("Delivery audit", "no run", "nothing was audited", VOID)
    faults = {
        name: sum(getattr(audit, name) or 0 for audit in results.audits if audit.status in (CLEAN, FAILED))
        for name in FAULTS
    }
    fault_counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in faults.items())
    others = "".join(f", {count:,} {state}" for state, count in states.items() if state != CLEAN)
    tone = CLEAN if states[CLEAN] == total else FAILED
    return Tile("Delivery audit", f"{states[CLEAN]:,} of {total:,} runs clean", fault_counts + others, tone)


def verdict_tile(verdicts: Sequence[Verdict]) -> Tile:
    counts = Counter(verdict.verdict for verdict in verdicts if verdict.basis == "measured")
    words = (REFUTED, INCONCLUSIVE, *([BY_CONSTRUCTION] if counts[BY_CONSTRUCTION] else []), NOT_TESTABLE)
    others = ", ".join(f"{counts[word]} {word}" for word in words)
    held = f"{counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}"
    return Tile(f"Verdicts on the study's claims, {MEASURED}", held, others)


def warnings(results: RunResults) -> Iterator[str]:
    """Warnings that a reader needs before the first figure."""
    if results.meta.get("status") != "complete":
        yield "This run is incomplete: it was ended before all its points were measured."
    rejected = [audit for audit in results.audits if audit.status != CLEAN]
    if rejected:
        yield (
            f"{formatting.count(len(rejected), 'run')} of {len(results.audits):,} did not pass the audit and "
            f"{'counts' if len(rejected) == 1 else 'count'} for no figure."
        )
    for system in results.systems:
        if system.stamps:
            yield f"{system.name} was run with: {formatting.listed(list(system.stamps))}."
    if error := results.meta.get("clock_error"):
        yield (
            f"The agents' clocks are known to {formatting.quantity(error, 's')}: a latency between two machines may be "
            "wrong by twice that. Each latency has this error beside it, and decides no verdict by less."
        )
    yield from _flag_warnings(results)
    flags = [results.flags(system.name, point) for point in results.points for system in results.systems]
    if busy := sum(formatting.FLAG in one for one in flags):
        yield (
            f"{formatting.count(busy, 'point')} ran with an agent busier than the study allows its clients: "
            f"the figures are marked {formatting.FLAG}."
        )
    if results.scale != "full":
        yield from _scale_warnings(results)


def _flag_warnings(results: RunResults) -> Iterator[str]:
    unused = [run for run in results.noise if run.valid and not run.used]
    if unused:
        disturbed, unsteady = (sum(bool(getattr(run, why)) for run in unused) for why in ("disturbed", "unsteady"))
        yield (
            f"{formatting.count(len(unused), 'run')} of {len(results.noise):,} had no part in any figure: other work "
            f"on the machine disturbed {disturbed:,}, and {unsteady:,} had no steady rate."
        )
    flags = [results.flags(system.name, point) for point in results.points for system in results.systems]
    if flagged := sum(formatting.FLAGGED in one for one in flags):
        yield (
            f"All runs of {formatting.count(flagged, 'point')} were disturbed by other work on the machine or not "
            f"steady: the figures are marked {formatting.FLAGGED} and decide no verdict."
        )


def _scale_warnings(results: RunResults) -> Iterator[str]:
    measured, declared = lengths(results.points), lengths(results.declared)
    if measured != declared:
        yield f"Scale {results.scale}: {measured} measured a run, not the study's own {declared}."
    if len(results.points) < len(results.declared):
        yield f"Scale {results.scale}: {len(results.points):,} of the study's {len(results.declared):,} points."


def lengths(points: Sequence[Point]) -> str:
    """The measured time of a run of the study's own points, or its fixed number of messages."""
    of_lab = own_scenarios(points)
    own = [point for point in points if point.scenario not in of_lab]
    own.sort(key=lambda point: (point.messages or 0, point.phases.measure))
    times = [format_time(point.phases.measure) for point in own if not point.messages]
    counts = [f"{point.messages:,} messages" for point in own if point.messages]
    return " or ".join(_span([*dict.fromkeys(texts)]) for texts in (times, counts) if texts)


def _span(distinct: list[str]) -> str:
    return formatting.listed(distinct) if len(distinct) <= _LENGTHS else f"{distinct[0]} to {distinct[-1]}"
