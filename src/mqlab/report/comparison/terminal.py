"""A comparison on the terminal, in lines of at most 80 columns."""

from textwrap import fill
from typing import Final

from rich.console import Console

from mqlab.report.claims.interval import Interval
from mqlab.report.comparison.comparison import MetricComparison, SystemComparison
from mqlab.report.comparison.sentence import answer
from mqlab.report.comparison.tables import TONES, ratio_text, rule
from mqlab.report.exhibits.headline import warnings
from mqlab.report.render import formatting
from mqlab.report.render.terminal import STYLES, print_gates, styled_text
from mqlab.study import METRICS

_WIDTH: Final = 80
# A metric with a longer label is shown by its name.
_LABEL: Final = 21
_COLUMNS: Final = "  {:<21} {:>9} {:>9} {:>26} {}"


def print_comparison(comparison: SystemComparison, console: Console) -> None:
    say = styled_text(console)

    def put(text: str, style: str = "") -> None:
        console.print(say(text, style), soft_wrap=True)

    put(answer(comparison), "bold")
    for warning in (*comparison.notes, *warnings(comparison.results)):
        put(f"! {warning}", "yellow")
    put(f"base: {comparison.name(comparison.base)}")
    put(f"new:  {comparison.name(comparison.new)}")
    for point in comparison.points:
        rows = [row for row in comparison.rows if row.point == point]
        put(point.label, "bold")
        put(_COLUMNS.format("", "base", "new", "new / base (95 %)", "").rstrip())
        for row in rows:
            put(_line(row), STYLES[TONES[row.outcome]])
        reasons = dict.fromkeys(row.reason for row in rows if row.reason)
        for text in (*reasons, *({f"{row.travel[0]} against {row.travel[1]}" for row in rows if row.travel})):
            put(fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))
    put(rule(comparison))
    print_gates(comparison.gates, console)


def _line(row: MetricComparison) -> str:
    unit = METRICS[row.metric].unit
    label = formatting.metric(row.metric)
    label = label if len(label) <= _LABEL else row.metric
    return _COLUMNS.format(label, _short(row.base, unit), _short(row.new, unit), ratio_text(row.ratio), row.outcome)


def _short(value: Interval | None, unit: str) -> str:
    """In nine columns: `45.2 k/s`."""
    if value is None:
        return formatting.NOT_AVAILABLE
    if unit in formatting.SCALED:
        return formatting.quantity(value.value, unit)
    ending = "/s" if unit.endswith("/s") else f" {unit}" if unit == "%" else ""
    return f"{formatting.short(value.value)}{ending}"
