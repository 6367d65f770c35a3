"""The first sentence of a report: which system is first and by how much, or what the only system reached."""

import math
from collections.abc import Hashable, Sequence
from typing import Final

from mqlab.pipeline.schema import MeasureRow
from mqlab.report.capacity.section import capacity_answer
from mqlab.report.claims.evaluation import format_interval
from mqlab.report.claims.interval import Interval, Uncertainty
from mqlab.report.claims.values import clock_slack
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

# A point with so many runs has an interval, even if one of them is disturbed.
_FEWEST_RUNS: Final = 3

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
    certain_pairs = _certain(measures, others)
    if not certain_pairs:
        return _not_known(results, metric, ranked)
    ratio, points = _ratio(results, certain_pairs), len(certain_pairs)
    if ratio.is_open:
        return _not_known(results, metric, ranked)
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
    return tuple(_scenario_answer(results, name, systems, metric) for name, systems in ranked.items())


def _scenario_answer(results: RunResults, scenario: str, ranked: Sequence[tuple[str, Measures]], metric: str) -> str:
    (first, measures), (second, others) = ranked[:2]
    certain_pairs = _certain(measures, others)
    if not certain_pairs:
        return f"Scenario {scenario}: not known, {_why_not_known(results, (*measures, *others))}."
    ratio = _ratio(results, certain_pairs)
    if ratio.is_open:
        return f"Scenario {scenario}: not known, {_why_not_known(results, (*measures, *others))}."
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


def _certain(measures: Measures, others: Measures) -> list[tuple[MeasureRow, MeasureRow]]:
    """The pairs of one point that have a certain ratio: a point with one run, or with only flagged runs, has none."""
    pairs = zip(measures, others, strict=True)
    return [pair for pair in pairs if all(row.ci95 is not None and row.quiet is not False for row in pair)]


def _ratio(results: RunResults, pairs: Sequence[tuple[MeasureRow, MeasureRow]]) -> Interval:
    """The geometric mean of the ratios of these pairs."""
    logarithm = sum(math.log(ours.value / theirs.value) for ours, theirs in pairs) / len(pairs)
    errors: dict[Hashable, Uncertainty] = {
        (row.system, row.scenario, row.point): Uncertainty(row.ci95 / t975(degrees) / row.value / len(pairs), degrees)
        for pair in pairs
        for row in pair
        if row.ci95 and (degrees := row.degrees_of_freedom)
    }
    known = Interval.estimated(logarithm, errors)
    slacks = [[clock_slack(results, row.metric, row.value) for row in pair] for pair in pairs]
    lower = math.prod(ours[0] * theirs[1] for ours, theirs in slacks) ** (1 / len(pairs))
    higher = math.prod(ours[1] * theirs[0] for ours, theirs in slacks) ** (1 / len(pairs))
    low = 0.0 if any(theirs.lower_bound for _, theirs in pairs) else math.exp(known.low) / lower
    high = math.inf if any(ours.lower_bound for ours, _ in pairs) else math.exp(known.high) * higher
    return Interval(math.exp(logarithm), low, high)


def _not_known(results: RunResults, metric: str, ranked: Sequence[tuple[str, Measures]]) -> str:
    """The answer when no point has a certain ratio: why, and what to do."""
    rows = [row for _, measures in ranked for row in measures]
    why = _why_not_known(results, rows)
    return f"It is not known which system has the best {in_words(metric)}: {why}. {_what_to_do(results, rows)}"


def _why_not_known(results: RunResults, rows: Measures) -> str:
    flagged = sum(row.quiet is False for row in rows)
    single = sum(row.quiet is not False and row.ci95 is None for row in rows)
    bounded = sum(row.quiet is not False and row.ci95 is not None and row.lower_bound for row in rows)
    disturbed, unsteady = _flags(results, rows)
    figures = _figures(flagged, len(rows))
    or_unsteady = ", or they were not steady" if unsteady else ""
    reasons = (
        f"other work on the machine disturbed all runs of {figures}{or_unsteady}"
        if disturbed
        else f"no run of {figures} had a steady rate",
        f"{_figures(single, len(rows))} {'comes' if single == 1 else 'come'} from one run each, without an interval",
        f"the lab itself was the limit of {_figures(bounded, len(rows))}, so that both sides may be higher",
    )
    return "; ".join(reason for reason, many in zip(reasons, (flagged, single, bounded), strict=True) if many)


def _flags(results: RunResults, rows: Measures) -> tuple[bool, bool]:
    """Of flagged figures, whether some runs were disturbed, and whether some were not steady."""
    flagged = {(row.system, row.scenario, row.point) for row in rows if row.quiet is False}
    runs = [run for run in results.noise if (run.system, run.scenario, run.point) in flagged]
    unsteady = any(run.unsteady for run in runs)
    return bool(flagged) and (not unsteady or any(run.disturbed for run in runs)), unsteady


def _figures(many: int, every: int) -> str:
    return f"all {every:,} figures" if many == every > 1 else f"{many:,} of {formatting.count(every, 'figure')}"


def _what_to_do(results: RunResults, rows: Measures) -> str:
    disturbed, unsteady = _flags(results, rows)
    if unsteady and not disturbed:
        return "Longer phases show whether the rate gets steady: choose a larger scale, or `phases` of the study."
    if disturbed:
        return f"End the other work (`mqlab doctor` names it), then run it again: `{_again(results)}`."
    if all(row.ci95 is not None for row in rows):
        return "Give the lab more agents (`--agents`), or agents on other machines."
    return _run_longer(results)


def _run_longer(results: RunResults) -> str:
    minutes = math.ceil(_FEWEST_RUNS * max(1.0, results.meta.get("minutes") or 0.0))
    return f"Run it for longer: `{_again(results)} --minutes {minutes}`."


def _again(results: RunResults) -> str:
    return results.meta.get("again") or f"mqlab run {results.study.id}"


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
        return _without_figures(results)
    system, measure = best[0]
    if all(row.quiet is False for _, row in best):
        name = formatting.listed([_name(results, found.name) for found, _ in best])
        rows = [row for row in results.measures if row.metric == measure.metric]
        seen = f"in these runs it was {figure(measure)} in {place(measure)}"
        why = f"{_why_not_known(results, rows)}; {seen}"
        return f"The highest {in_words(measure.metric)} of {name} is not known: {why}. {_what_to_do(results, rows)}"
    factor, _ = formatting.scaled_unit(measure.value, measure.unit)
    half = ONE_RUN if measure.ci95 is None else f"{formatting.PLUS_MINUS} {formatting.short(measure.ci95 / factor)}"
    way = results.travel_at(system.name, measure.scenario, measure.point)
    where = f"{place(measure)}{', ' + way if way else ''}"
    name = f"The highest {in_words(measure.metric)} of {_name(results, system.name)}"
    said = f"{name} is {figure(measure)}, {half}, in {where}."
    tile = verdict_tile(verdicts)
    return f"{said} Of the study's claims {tile.figure}; {tile.note}." if verdicts else said


def _without_figures(results: RunResults) -> str:
    """The answer when no figure of the headline metric can be shown."""
    rows = [row for row in results.measures if row.metric == headline(results) and row.value > 0]
    if not rows:
        return "Nothing was measured."
    name = formatting.listed([_name(results, system) for system in dict.fromkeys(row.system for row in rows)])
    why = f"the runs differ so much that the {'intervals are' if len(rows) > 1 else 'interval is'} wider than the "
    why += "figures" if len(rows) > 1 else "figure"
    return f"The highest {in_words(rows[0].metric)} of {name} is not known: {why}. {_run_longer(results)}"
