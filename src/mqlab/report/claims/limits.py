"""The measured values of claims against the limits that the claims need, as one chart."""

from collections.abc import Iterator, Sequence

from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.interval_charts import LimitedValue, limits_chart
from mqlab.report.claims.verdicts import ALL_SYSTEMS, TESTABLE, Verdict
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.content import MEASURED, Figure


def limits_figure(results: RunResults, verdicts: Sequence[Verdict]) -> Figure | None:
    """None if no claim was measured as one positive value against one positive limit."""
    given = list(_values(results, verdicts))
    if not given:
        return None
    title = f"Claims: what was measured against what they need, {MEASURED}"
    description = f"{title}. " + "; ".join(one.description for one in given) + "."
    note = (
        "The dashed line is the limit of each claim. A claim is decided if its whole interval lies on one side; an "
        "interval that reaches the edge is open. Ranks and differences from zero have no place here."
    )
    return chart_figure("claims", title, limits_chart(given), description, (note,), wide=True)


def _values(results: RunResults, verdicts: Sequence[Verdict]) -> Iterator[LimitedValue]:
    several = len(results.systems) > 1
    for verdict in verdicts:
        value, limits = verdict.measured, [limit for limit in verdict.limits if limit > 0]
        if verdict.basis != "measured" or verdict.kind != TESTABLE or not value or value < 0 or not limits:
            continue
        # Of two limits the one that decides is the nearer.
        limit = min(limits, key=lambda one: max(one / value, value / one))
        subject = f"\n{verdict.subject}" if several and verdict.subject != ALL_SYSTEMS else ""
        low, high = (None if end is None else end / limit for end in (verdict.low, verdict.high))
        words = f"{verdict.claim}{subject.replace(chr(10), ', ')}: {verdict.verdict}, {verdict.words}"
        yield LimitedValue(f"{verdict.claim}{subject}", value / limit, low, high, verdict.verdict, words)
