"""The first sentence of a report: which system is first and by how much, or what the only system reached."""

import math
from collections.abc import Hashable, Sequence
from typing import Final

from mqlab.pipeline.schema import MeasureRow
from mqlab.report.capacity.section import capacity_answer
from mqlab.report.claims.evaluation import format_interval
from mqlab.report.claims.interval import Interval, Uncertainty
from mqlab.report.claims.verdicts import Verdict
from mqlab.report.data.pairing import stands_for
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import ONE_RUN, why_unknown
from mqlab.report.exhibits.headline import figure, headline, highest, place, verdict_tile
from mqlab.report.render import formatting
from mqlab.report.render.formatting import metric as in_words
from mqlab.study import METRICS
from mqlab.study.statistics import t975
from mqlab.study.travel import PACKED

# With more scenarios the reader finds them in a table.
_MOST_SENTENCES: Final = 6

Measures = Sequence[MeasureRow]  # of one system, at the points that all systems ran


def answer(results: RunResults, verdicts: Sequence[Verdict]) -> str:
    """The systems are ranked by the geometric mean of the main metric over the points that all of them ran."""
    if found := capacity_answer(results):
        return found
    metric = headline(results)
    ranked = _ranked(results, metric)
    if len(ranked) < 2:
        return _only(results, verdicts)
    (first, measures), (second, others) = ranked[:2]
    ratio, points = _ratio(measures, others)
    counted = f"{points:,}" if points == len(measures) else f"{points:,} of the {len(measures):,}"
    over = f"on geometric mean over the {counted} points" if len(measures) > 1 else "at the one point"
    certain = "" if points == len(measures) else " and that have intervals"
    name = _name(results, second)
    found = f"{format_interval(ratio, ' times')} that of {name}, the second, {over} that all ran{certain}"
    if _is_ahead(ratio, metric):
        best = sum(map(_is_first, zip(*(rows for _, rows in ranked), strict=True)))
        where = f"; its figure is the best at {best:,} of them" if len(measures) > 1 else ""
        return f"{_name(results, first)} is first: its {in_words(metric)} is {found}{where}."
    return f"No system is surely first: the {in_words(metric)} of {_name(results, first)} is {found}."


def scenario_answers(results: RunResults) -> tuple[str, ...]:
    """A sentence for each of a few scenarios that several systems ran: which system is ahead, and by how much."""
    metric = headline(results)
    ranked = {name: _ranked(results, metric, name) for name in results.study.scenarios}
    ranked = {name: systems for name, systems in ranked.items() if len(systems) > 1}
    if not 1 < len(ranked) <= _MOST_SENTENCES:
        return ()
    return tuple(_scenario_answer(name, systems, metric) for name, systems in ranked.items())


def _scenario_answer(scenario: str, ranked: Sequence[tuple[str, Measures]], metric: str) -> str:
    (first, measures), (second, others) = ranked[:2]
    ratio, _ = _ratio(measures, others)
    found = f"{format_interval(ratio, ' times')} that of {second}"
    ahead = f"{first} is ahead: its" if _is_ahead(ratio, metric) else f"no system is surely ahead: {first}'s"
    return f"Scenario {scenario}: {ahead} {in_words(metric)} is {found}."


def _is_ahead(ratio: Interval, metric: str) -> bool:
    return ratio.high < 1 if _lower_is_better(metric) else ratio.low > 1


def _ranked(results: RunResults, metric: str, scenario: str = "") -> Sequence[tuple[str, Measures]]:
    """The best system first, with its measures in one scenario or in all. Packed figures are not set against others."""
    known = [
        row for row in results.measures
        if row.metric == metric and scenario in ("", row.scenario) and _is_known(row)
    ]  # fmt: skip
    packed = {id(row) for row in known if results.travel_at(row.system, row.scenario, row.point).startswith(PACKED)}
    by_system: dict[str, dict[tuple[str, str], MeasureRow]] = {}
    for row in known:
        if id(row) not in packed or len(packed) == len(known):
            by_system.setdefault(row.system, {})[row.scenario, row.point] = row
    common = set.intersection(*(set(rows) for rows in by_system.values())) if by_system else set()
    if not common:
        return []
    measures = {name: [rows[key] for key in sorted(common)] for name, rows in by_system.items()}
    ranked = sorted(measures.items(), key=lambda entry: sum(math.log(row.value) for row in entry[1]))
    return ranked if _lower_is_better(metric) else ranked[::-1]


def _is_known(row: MeasureRow) -> bool:
    return row.value > 0 and not why_unknown(row.metric, row.value, row.ci95)


def _ratio(measures: Measures, others: Measures) -> tuple[Interval, int]:
    """The geometric mean of the ratios, and the number of points that it is of.

    A point with one run, or whose runs are all flagged, has no certain ratio. It is left out if others have one; if
    none has, the interval is open.
    """
    pairs = list(zip(measures, others, strict=True))
    certain = [pair for pair in pairs if all(row.ci95 is not None and row.quiet is not False for row in pair)]
    used = certain or pairs
    logarithm = sum(math.log(ours.value / theirs.value) for ours, theirs in used) / len(used)
    errors: dict[Hashable, Uncertainty] = {
        (row.system, row.scenario, row.point): Uncertainty(row.ci95 / t975(degrees) / row.value / len(used), degrees)
        for pair in used
        for row in pair
        if row.ci95 and (degrees := row.degrees_of_freedom)
    }
    known = Interval.estimated(logarithm, errors)
    low = 0.0 if not certain or any(theirs.lower_bound for _, theirs in used) else math.exp(known.low)
    high = math.inf if not certain or any(ours.lower_bound for ours, _ in used) else math.exp(known.high)
    return Interval(math.exp(logarithm), low, high), len(used)


def _is_first(rows: Measures) -> bool:
    """Whether the first of these, all of one point, has the best value."""
    values = [row.value for row in rows]
    return values[0] == (min(values) if _lower_is_better(rows[0].metric) else max(values))


def _lower_is_better(metric: str) -> bool:
    return METRICS[metric].better == "lower"


def _name(results: RunResults, system: str) -> str:
    replaced = stands_for(results, system)
    return stamped(system, results.stamps_of(system)) + (f" ({replaced})" if replaced else "")


def _only(results: RunResults, verdicts: Sequence[Verdict]) -> str:
    """The answer of one system, or of systems that have no point in common."""
    best = highest(results)
    if not best:
        return "Nothing was measured."
    system, measure = best[0]
    factor, _ = formatting.scaled_unit(measure.value, measure.unit)
    half = ONE_RUN if measure.ci95 is None else f"{formatting.PLUS_MINUS} {formatting.short(measure.ci95 / factor)}"
    way = results.travel_at(system.name, measure.scenario, measure.point)
    where = f"{place(measure)}{', ' + way if way else ''}"
    name = f"The highest {in_words(measure.metric)} of {_name(results, system.name)}"
    said = f"{name} is {figure(measure)}, {half}, in {where}."
    tile = verdict_tile(verdicts)
    return f"{said} Of the study's claims {tile.figure}; {tile.note}." if verdicts else said
