"""What a reader is told first: the highest figures, the audit, the verdicts, and what to beware of."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.pipeline.schema import CLEAN, FAILED, FAULTS, VOID, MeasureRow
from mqlab.pipeline.sources import has_unchecked_events
from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, NOT_TESTABLE, REFUTED, Verdict
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.data.records import System
from mqlab.report.exhibits.cells import why_unknown
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Tile
from mqlab.study import Exhibit, Point
from mqlab.study.language.units import format_time

_SYSTEMS: Final = 2
_LENGTHS: Final = 3


def headline(findings: Findings) -> str:
    """The metric the study is about: the first that its exhibits show and that was measured."""
    known = {measure.metric for measure in findings.measures}
    shown = [metric for exhibit in findings.study.exhibits for metric in _shown(exhibit)]
    metric = next((metric for metric in (*shown, "rate.work") if metric in known), (*shown, "rate.received")[0])
    # Side by side, one-way messages and requests with their replies are counted as work: each request once.
    mixed = {point.work for point in findings.points} > {metric}
    return "rate.work" if mixed and "rate.work" in known else metric


def _shown(exhibit: Exhibit) -> list[str]:
    figures = [figure.metric for figure in exhibit.views if figure.kind in ("value", "peak")]
    return [exhibit.value] if exhibit.value else figures


def rate_tiles(findings: Findings) -> Iterator[Tile]:
    """The highest figure of each system; of more than two systems, those of the two highest: exhibits have the rest."""
    metric = headline(findings)
    best: list[tuple[System, MeasureRow]] = []
    for system in findings.systems:
        found = [
            m for m in findings.measures
            if m.system == system.name and m.metric == metric and not why_unknown(metric, m.value, m.ci95)
        ]  # fmt: skip
        if found:
            best.append((system, max(found, key=lambda measure: measure.value)))
    if len(best) > _SYSTEMS:
        best.sort(key=lambda one: -one[1].value)
    for system, highest in best[:_SYSTEMS]:
        yield Tile(
            f"Highest {formatting.metric(metric)}, {MEASURED}",
            _figure(highest),
            f"{stamped(system.name, system.stamps)}, scenario {f'{highest.scenario} {highest.point}'.strip()}",
        )


def _figure(best: MeasureRow) -> str:
    scaled = best.unit in formatting.SCALED
    text = formatting.quantity(best.value, best.unit) if scaled else f"{formatting.short(best.value)} {best.unit}"
    bound = f"{formatting.LOWER_BOUND} " if best.lower_bound else ""
    return f"{bound}{text}{' ' + formatting.FLAG if best.client_cpu else ''}"


def audit_tile(findings: Findings) -> Tile:
    states = Counter(audit.status for audit in findings.audits)
    total = sum(states.values())
    if not total:
        return Tile("Delivery audit", "no run", "nothing was audited", VOID)
    found = {
        name: sum(getattr(audit, name) or 0 for audit in findings.audits if audit.status in (CLEAN, FAILED))
        for name in FAULTS
    }
    said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.items())
    others = "".join(f", {count:,} {state}" for state, count in states.items() if state != CLEAN)
    tone = CLEAN if states[CLEAN] == total else FAILED
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
            f"{formatting.count(len(spoiled), 'run')} of {len(findings.audits):,} did not pass the audit and "
            f"{'counts' if len(spoiled) == 1 else 'count'} for no figure."
        )
    if has_unchecked_events(findings.folder):
        yield "Not checked: event files of this run carry no checksums, so damage to them may show in the figures."
    for system in findings.systems:
        if system.stamps:
            yield f"{system.name} was run with: {formatting.listed(list(system.stamps))}."
    busy = sum(findings.busy(system.name, point) for point in findings.points for system in findings.systems)
    if busy:
        yield (
            f"{formatting.count(busy, 'point')} ran with an agent busier than the study allows its clients: "
            f"the figures are marked {formatting.FLAG}."
        )
    if findings.scale != "full":
        yield from _shorter(findings)


def _shorter(findings: Findings) -> Iterator[str]:
    """What a shorter scale leaves out."""
    ours, own = lengths(findings.points), lengths(findings.declared)
    if ours != own:
        yield f"Scale {findings.scale}: {ours} measured a run, not the study's own {own}."
    if len(findings.points) < len(findings.declared):
        yield f"Scale {findings.scale}: {len(findings.points):,} of the study's {len(findings.declared):,} points."


def lengths(points: Sequence[Point]) -> str:
    """How long a run of these points is measured; a fixed amount of work takes what it takes."""
    texts = [
        f"{point.messages:,} messages" if point.messages else format_time(point.phases.measure) for point in points
    ]
    found = list(dict.fromkeys(texts))
    return formatting.listed(found) if len(found) <= _LENGTHS else f"{found[0]} to {found[-1]}"
