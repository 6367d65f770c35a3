"""Table cells of measures: every figure with its interval, lower-bound mark, flag and the stamps of its system."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final

from mqlab.pipeline.schema import UNSERVED, MeasureRow, is_lower_bound
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.travel import described, ways_of_travel
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, number
from mqlab.study import METRICS, Point, PublishedValue
from mqlab.study.metric import FEWEST_BEYOND, fewest_observations, is_duration, is_throughput

ONE_RUN: Final = "one run, no interval"
# Its interval rests on the other points.
_SINGLE: Final = "one run"
SAME: Final = "the same in every run"
# Percent: with a wider interval even the sign of the change is unknown.
_WIDEST_CHANGE: Final = 100.0
NOT_PRINTED: Final = "not published"


def system_cell(results: RunResults, name: str, origin: str) -> Cell:
    """A system's name with its origin, and the stamps it must carry wherever it appears."""
    stamps = results.stamps_of(name) if origin == MEASURED else results.published_stamps
    return Cell(name, origin, "measured" if origin == MEASURED else "published", stamps)


def own_cell(results: RunResults, name: str) -> Cell:
    """A system's name in a table of which all figures were measured here."""
    return Cell(name, tone="measured", stamps=results.stamps_of(name))


def absent(reason: str) -> Cell:
    return Cell(formatting.NOT_AVAILABLE, reason, "absent")


def unknown(reason: str) -> Cell:
    """A cell in place of a figure that is not significant."""
    return Cell(formatting.NOT_KNOWN, reason, "absent")


def why_hidden(measure: MeasureRow) -> str:
    """Why a measure is not shown: it is a percentile of too few observations, or not significant. "": it is shown."""
    if measure.is_thin:
        return f"fewer than {FEWEST_BEYOND} of {measure.observations:,} independent observations lie beyond it"
    return why_unknown(measure.metric, measure.value, measure.ci95)


def why_unknown(metric: str, value: float, ci95: float | None) -> str:
    """Why a value is not significant: it is a rate of zero, or its interval is wider than itself. "": it is.

    `metric` is one of METRICS, or `impact` (a change in percent, which may be near zero) or `ratio`.
    """
    if metric == "impact":
        return "the interval is wider than 100 %" if ci95 is not None and ci95 >= _WIDEST_CHANGE else ""
    if value == 0 and is_throughput(metric):
        return "nothing was counted"
    return "the interval is wider than the figure" if ci95 is not None and ci95 >= abs(value) > 0 else ""


def measured(
    results: RunResults, system: str, point: Point, metric: str, unit: bool = True, brief: bool = True
) -> Cell:
    """The measured value with its interval as small print, or n/a with the reason."""
    measure = results.measure(system, point, metric)
    if measure is None:
        return absent(results.absence(system, point, brief, metric))
    if why := why_hidden(measure):
        return unknown(why)
    text = figure_text(measure.value, measure.unit if unit else "", measure.lower_bound, results.flags(system, point))
    half = half_width(measure.value, measure.unit if unit else "", measure.ci95)
    half = f"{half}, {_SINGLE}" if _is_single(measure) else half
    if error := results.clock_error_s(metric):
        half = f"{half}, {formatting.PLUS_MINUS} {formatting.quantity(error, measure.unit)} by the clocks"
    return number(text, f"{half}, n = {measure.observations:,}" if is_counted(measure) else half)


def _is_single(measure: MeasureRow) -> bool:
    return measure.runs == 1 and measure.ci95 is not None


def is_counted(measure: MeasureRow) -> bool:
    """Whether the number of its observations stands beside a measure: it is a percentile."""
    return measure.observations is not None and fewest_observations(measure.metric) > 0


def printed(value: PublishedValue | None, unit: bool = True) -> Cell:
    """A published value as it was printed."""
    if value is None:
        return absent(NOT_PRINTED)
    if value.value is None:
        return absent(f"printed as {value.text}")
    name = value.unit.partition(" (")[0] if unit else ""
    return number(f"{formatting.printed(value.text)} {name}".rstrip())


def figure_text(value: float, unit: str, lower_bound: bool, flags: str) -> str:
    """A value in a unit scaled to its size ("": the head of the column names the unit), with its marks."""
    return f"{formatting.LOWER_BOUND + ' ' if lower_bound else ''}{formatting.quantity(value, unit)}{flags}"


def half_width(value: float, unit: str, ci95: float | None) -> str:
    """The interval as small print, in the unit of the figure."""
    if ci95 is None:
        return ONE_RUN
    factor, _ = formatting.scaled_unit(value, unit)
    half = formatting.number(ci95 / factor)
    return SAME if half == "0" else f"{formatting.PLUS_MINUS} {half}"


def needs_unit(metric: str) -> bool:
    """Whether each figure has its own unit, scaled to its size."""
    return METRICS[metric].unit in formatting.SCALED


def notes_of(results: RunResults, points: Sequence[Point], metrics: Iterable[str]) -> tuple[str, ...]:
    """The notes below these metrics of these points: how they were counted, and the meaning of each flag."""
    shown = [*metrics]
    notes = [_LOOP_NOTES[loop] for loop in ("closed", "open") if loop in {point.loop for point in points}]
    if any(fewest_observations(metric) for metric in shown):
        notes.append(_OBSERVATIONS_NOTE)
    measures = (
        results.measure(one.name, point, metric) for one in results.systems for point in points for metric in shown
    )
    known = [measure for measure in measures if measure is not None]
    single = (_SINGLE_NOTE,) if any(map(_is_single, known)) else ()
    unserved = (_UNSERVED_NOTE,) if any(measure.bound_by == UNSERVED for measure in known) else ()
    return (*(notes if any(map(is_duration, shown)) else ()), *single, *unserved, *flag_notes(results, points))


def flag_notes(results: RunResults, points: Iterable[Point]) -> tuple[str, ...]:
    """How the messages of these points travelled, and the explanation of each flag that one of them has."""
    shown = list(points)
    flags = "".join(results.flags(system.name, point) for point in shown for system in results.systems)
    return (*travel_notes(results, shown), *(note for flag, note in _FLAG_NOTES.items() if flag in flags))


def travel_notes(results: RunResults, points: Iterable[Point]) -> Iterator[str]:
    """How the messages of these points travelled, where that was recorded. Systems are named where they differ."""
    ways = ways_of_travel(results, product((system.name for system in results.systems), points))
    if len(ways) == 1:
        yield f"Messages travelled {next(iter(ways))}."
    elif ways:
        yield f"Messages travelled {described(ways)}."


def bound_mark(metric: str, bound_by: str | None) -> str:
    return f"{formatting.LOWER_BOUND} " if is_lower_bound(metric, bound_by) else ""


_LOOP_NOTES: Final = {
    "closed": f"{formatting.capital(formatting.LOOPS['closed'])}. A duration begins with the call that hands a message "
    "to the client, so the time in the client's own buffer counts; while the system stands still, no call is made.",
    "open": f"{formatting.capital(formatting.LOOPS['open'])}: a duration begins at the planned time of a message, so "
    "that a stall counts for every message that it delays.",
}
_OBSERVATIONS_NOTE: Final = (
    "n: independent observations, at most. Messages that were sent together or received together share one delay and "
    f"are one observation. A percentile with fewer than {FEWEST_BEYOND} of them beyond it is {formatting.NOT_KNOWN}."
)
_SINGLE_NOTE: Final = f"{_SINGLE}: the interval is that of a run by the noise of the system's other points."
_UNSERVED_NOTE: Final = (
    f"{formatting.LOWER_BOUND} In a run of this point the system never served again: the time without service lasted "
    "until the end of the drain phase or longer, and decides nothing in favour of the system."
)
_FLAG_NOTES: Final = {
    formatting.FLAG: f"{formatting.FLAG} In these runs an agent used more of its core than the study allows its "
    "clients: the figure may say more of the clients than of the system.",
    formatting.FLAGGED: f"{formatting.FLAGGED} All runs of this point are flagged: other work on the machine disturbed "
    "them, or they were not steady (Noise and steadiness has the reason of each). The figure decides no verdict.",
}
