"""Charts over the time of a run: messages sent and received, messages in the system, and the onset of flow control."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts.drawing import FAINT, Sheet, amounts, by_system, draw, layered, legend, side_by_side

_WIDTH: Final = 640
_ONSET: Final = "#b4232c"


@dataclass(frozen=True)
class TimeSeries:
    """One run of a system: (seconds, sent/s, received/s), and (seconds, messages in the system)."""

    system: str
    run: str
    paces: Sequence[tuple[float, float, float]]
    depths: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Onset:
    system: str
    seconds: float
    label: str


def time_series_chart(runs: Sequence[TimeSeries], onsets: Sequence[Onset], systems: Sequence[str]) -> str:
    """Rates above and depth below, with the same time axis; a vertical line marks the onset of flow control."""
    end = max((row[0] for run in runs for row in (*run.paces, *run.depths)), default=1.0)
    x = alt.X(
        "x:Q",
        title="seconds since the start of the load",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=8, grid=False),
    )
    sheet = Sheet()
    above = (*_rates(sheet, runs, systems, x), *_marks(sheet, onsets, x, named=True))
    panels = [layered(above, width=_WIDTH, height=200)]
    if any(run.depths for run in runs):
        below = (_depths(sheet, runs, systems, x), *_marks(sheet, onsets, x, named=False))
        panels.append(layered(below, width=_WIDTH, height=90))
    return draw(side_by_side(panels, 1, 14, ("color",)), sheet)


def _rates(sheet: Sheet, runs: Sequence[TimeSeries], systems: Sequence[str], x: alt.X) -> list[alt.Chart]:
    rows = [
        {"system": run.system, "run": f"{run.run} {side}", "side": side, "x": seconds, "y": rate}
        for run in runs
        for seconds, sent, received in run.paces
        for side, rate in (("sent", sent), ("received", received))
    ]
    dashes = alt.Scale(domain=["received", "sent"], range=[[1, 0], [4, 3]])
    line = sheet.chart(rows).mark_line(interpolate="step-after", strokeWidth=1.8, opacity=0.9)
    return [
        line.encode(
            x=x,
            y=alt.Y("y:Q", title="messages/s", scale=alt.Scale(zero=True, nice=True), axis=amounts()),
            detail=alt.Detail("run:N"),
            color=by_system(systems, [run.system for run in runs]),
            strokeDash=alt.StrokeDash("side:N", title=None, legend=legend("top", ["received", "sent"]), scale=dashes),
        )
    ]


def _depths(sheet: Sheet, runs: Sequence[TimeSeries], systems: Sequence[str], x: alt.X) -> alt.Chart:
    rows = [
        {"system": run.system, "run": run.run, "x": seconds, "y": depth}
        for run in runs
        for seconds, depth in run.depths
    ]
    line = sheet.chart(rows).mark_line(strokeWidth=1.6)
    return line.encode(
        x=x,
        y=alt.Y("y:Q", title="messages waiting", scale=alt.Scale(zero=True, nice=True), axis=amounts()),
        detail=alt.Detail("run:N"),
        color=by_system(systems, [run.system for run in runs]),
    )


def _marks(sheet: Sheet, onsets: Sequence[Onset], x: alt.X, named: bool) -> list[alt.Chart]:
    rows = [
        {"x": onset.seconds, "label": onset.label, "row": 14 * number} for number, onset in enumerate(onsets, start=1)
    ]
    base = sheet.chart(rows).encode(x=x)
    rule = base.mark_rule(color=_ONSET, strokeWidth=1.4, strokeDash=[2, 2])
    rule = rule.encode(description=alt.Description("label:N"))
    if not named:
        return [rule]
    words = base.mark_text(align="left", dx=5, fontSize=11, color=FAINT).encode(
        text=alt.Text("label:N"), y=alt.Y("row:Q", scale=None, axis=None)
    )
    return [rule, words]
