"""The table of a comparison, for every format."""

from typing import Final

from mqlab.report.claims.gates import figure_text, interval_text
from mqlab.report.claims.interval import Interval
from mqlab.report.comparison.comparison import BETTER, SAME, WORSE, SystemComparison
from mqlab.report.render import formatting
from mqlab.report.render.content import Cell, Table, number, row
from mqlab.study import METRICS

# The style of each word.
TONES: Final = {BETTER: "holds", SAME: "holds", WORSE: "refuted", formatting.NOT_KNOWN: "inconclusive"}


def comparison_table(comparison: SystemComparison) -> Table:
    base, new = (comparison.name(name) for name in (comparison.base, comparison.new))
    rows = []
    for one in comparison.rows:
        unit = METRICS[one.metric].unit
        travel = f"{one.travel[0]} against {one.travel[1]}" if one.travel else ""
        rows.append(
            row(
                Cell(one.point.label, travel),
                Cell(formatting.metric(one.metric)),
                _value(one.base, unit),
                _value(one.new, unit),
                number(ratio_text(one.ratio)),
                Cell(one.outcome, one.reason, TONES[one.outcome]),
            )
        )
    head = ("Point", "Metric", f"Base: {base}", f"New: {new}", "New / base (95 %)", "Outcome")
    return Table("Every point and metric", head, tuple(rows), (rule(comparison),))


def rule(comparison: SystemComparison) -> str:
    """How the outcomes are decided."""
    percent = formatting.number(100 * comparison.tolerance)
    paired = "Each round, in which the two took turns, gives one ratio."
    unpaired = "The two were not run in turns: the errors of their runs are independent."
    return (
        f"{paired if comparison.is_paired else unpaired} Same: the 95 % interval lies within "
        f"{formatting.PLUS_MINUS} {percent} %. Better and worse: an interval that is wide enough for all "
        f"{len(comparison.rows)} comparisons together lies on one side of 1."
    )


def ratio_text(ratio: Interval | None) -> str:
    if ratio is None:
        return formatting.NOT_AVAILABLE
    return f"{formatting.number(ratio.value)}{interval_text(ratio)}"


def _value(value: Interval | None, unit: str) -> Cell:
    return number(formatting.NOT_AVAILABLE if value is None else figure_text(value, unit))
