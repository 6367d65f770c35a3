"""Charts of latency distributions, and of messages over the time of a run: rates, depth, the onset of flow control."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts import drawing
from mqlab.report.render import formatting

_WIDTH: Final = 640
_ONSET: Final = "#b4232c"
_DASHES: Final = alt.Scale(domain=["received", "sent"], range=[[1, 0], [4, 3]])
_SIZE: Final = {"width": 400, "height": 200}
# One message in 10^5: greater shares are drawn at the edge.
_FARTHEST: Final = 5
_SHARE_LABELS: Final = (
    "datum.value < 1 ? '50 %' : datum.value == 1 ? '90 %' : "
    "format(100 - pow(10, 2 - datum.value), '.' + max(0, datum.value - 2) + 'f') + ' %'"
)


@dataclass(frozen=True)
class Curve:
    """Points (share of messages, latency in seconds) of one system; `marks` are the reported percentiles."""

    system: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class Steps:
    """Messages in each second of one run, as sent or as received."""

    system: str
    run: str
    side: str
    seconds: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Band:
    phase: str
    start: float
    end: float


def latencies(curves: Sequence[Curve], systems: Sequence[str]) -> drawing.DrawnChart:
    """Latency against the share of messages that took no longer, on an axis that stretches the slowest messages.

    `systems` are all systems of the run.
    """
    lines = [(curve.system, stretched(share), latency) for curve in curves for share, latency in curve.points]
    marks = [
        (curve.system, stretched(share), latency, text) for curve in curves for share, latency, text in curve.marks
    ]
    far = max([x for _, x, _ in lines] + [x for _, x, _, _ in marks], default=1.0)
    ticks = _thirds([y for _, _, y in lines] + [y for _, _, y, _ in marks])
    x = alt.X(
        "x:Q",
        title="share of messages that took no longer",
        scale=alt.Scale(domain=[0, max(far, 1.0)], nice=False),
        axis=alt.Axis(
            values=[-math.log10(0.5), *(float(n) for n in range(1, _FARTHEST + 1) if n <= far)],
            labelExpr=_SHARE_LABELS,
            labelOverlap=False,
            labelFlush=False,
        ),
    )
    y = alt.Y(
        "y:Q",
        title="latency, log scale",
        scale=alt.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False),
        axis=alt.Axis(labelExpr=drawing.TIME_LABELS, values=ticks, labelOverlap=False),
    )
    colour = drawing.by_system(systems, [curve.system for curve in curves])
    drawn = [{"system": name, "x": across, "y": up, "n": n} for n, (name, across, up) in enumerate(lines)]
    dotted = [
        {"system": name, "x": across, "y": up, "share": text.partition(":")[0], "text": f"{name}: {text}"}
        for name, across, up, text in marks
    ]
    sheet = drawing.Sheet()
    line = sheet.chart(drawn).mark_line(strokeWidth=2)
    dots = sheet.chart(dotted).mark_circle(size=36, opacity=1)
    layers = [
        line.encode(x=x, y=y, color=colour, order=alt.Order("n:Q")),
        dots.encode(x=x, y=y, color=colour, description=alt.Description("text:N")),
    ]
    columns = {"system": "System", "share": "Percentile", "y": "s"}
    return drawing.draw(drawing.layered(layers, **_SIZE), sheet, columns, series="system", value_axis="y")


def series(lines: Sequence[Steps], bands: Sequence[Band], systems: Sequence[str]) -> drawing.DrawnChart:
    """Messages in each second of every run; phases other than measure are shaded."""
    rows = [
        {
            "system": line.system, "run": f"{line.run} {line.side}", "side": line.side, "x": x, "y": y,
            "text": f"{line.system}, run {line.run}, second {x}: {formatting.number(y)} messages/s {line.side}",
        }
        for line in lines
        # Each second is a step: the last one needs its end.
        for x, y in (*line.seconds, (line.seconds[-1][0] + 1, line.seconds[-1][1]))
    ]  # fmt: skip
    shaded = [{"phase": phase.phase, "start": phase.start, "end": phase.end} for phase in bands]
    sheet = drawing.Sheet()
    band = sheet.chart(shaded)
    steps = sheet.chart(rows).mark_line(interpolate="step-after", strokeWidth=1.6, opacity=0.85)
    layers = [
        band.mark_rect(color=drawing.FAINT, opacity=0.16).encode(
            x=alt.X("start:Q"), x2=alt.X2("end:Q"), description=alt.Description("phase:N")
        ),
        band.mark_text(align="left", dx=3, dy=8, y=0, fontSize=10).encode(x=alt.X("start:Q"), text=alt.Text("phase:N")),
        steps.encode(
            x=alt.X(
                "x:Q",
                title="seconds since the start of the warm-up",
                scale=alt.Scale(nice=False, zero=True),
                axis=alt.Axis(tickMinStep=1, tickCount=6),
            ),
            y=alt.Y(
                "y:Q", title="messages in the second", scale=alt.Scale(zero=True, nice=True), axis=drawing.amounts()
            ),
            detail=alt.Detail("run:N"),
            color=drawing.by_system(systems, [line.system for line in lines]),
            strokeDash=alt.StrokeDash(
                "side:N", title=None, legend=drawing.legend("bottom", [line.side for line in lines]), scale=_DASHES
            ),
        ),
    ]
    columns = {"system": "System", "run": "Run", "x": "Second", "y": "messages/s"}
    return drawing.draw(drawing.layered(layers, **_SIZE), sheet, columns, series="system", value_axis="y")


def stretched(share: float) -> float:
    """The position of a share on the axis: 90 %, 99 %, 99.9 % have equal distances."""
    return min(_FARTHEST, -math.log10(max(1.0 - share, 10.0**-_FARTHEST)))


def _thirds(values: Sequence[float]) -> list[float]:
    """The ticks 1, 3, 10, 30 ... around all values."""
    positive = [value for value in values if value > 0]
    low, high = min(positive, default=1e-3), max(positive, default=1.0)
    steps = [float(f"{digit}e{power}") for power in range(-10, 7) for digit in (1, 3)]
    below = max((step for step in steps if step <= low), default=steps[0])
    above = min((step for step in steps if step >= high and step > below), default=steps[-1])
    inside = [step for step in steps if below <= step <= above]
    # Over many decades only powers of ten; the ends stay, so that the axis covers every value.
    return inside if len(inside) <= 9 else [s for s in inside if f"{s:e}".startswith("1") or s in (below, above)]


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


def time_series_chart(
    runs: Sequence[TimeSeries], onsets: Sequence[Onset], systems: Sequence[str]
) -> drawing.DrawnChart:
    """Rates above and depth below, with the same time axis; a vertical line marks the onset of flow control."""
    end = max((row[0] for run in runs for row in (*run.paces, *run.depths)), default=1.0)
    x = alt.X(
        "x:Q",
        title="seconds since the start of the load",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=8, grid=False),
    )
    sheet = drawing.Sheet()
    above = (*_rates(sheet, runs, systems, x), *_marks(sheet, onsets, x, named=True))
    panels = [drawing.layered(above, width=_WIDTH, height=200)]
    if any(run.depths for run in runs):
        below = (_depths(sheet, runs, systems, x), *_marks(sheet, onsets, x, named=False))
        panels.append(drawing.layered(below, width=_WIDTH, height=90))
    columns = {"system": "System", "run": "Run", "x": "Seconds", "y": "messages/s"}
    return drawing.draw(drawing.side_by_side(panels, 1, 14, ("color",)), sheet, columns, series="system")


def _rates(sheet: drawing.Sheet, runs: Sequence[TimeSeries], systems: Sequence[str], x: alt.X) -> list[alt.Chart]:
    rows = [
        {
            "system": run.system, "run": f"{run.run} {side}", "side": side, "x": seconds, "y": rate,
            "text": f"{run.system}, {formatting.number(seconds)} s: {formatting.number(rate)} messages/s {side}",
        }
        for run in runs
        for seconds, sent, received in run.paces
        for side, rate in (("sent", sent), ("received", received))
    ]  # fmt: skip
    line = sheet.chart(rows).mark_line(interpolate="step-after", strokeWidth=1.8, opacity=0.9)
    return [
        line.encode(
            x=x,
            y=alt.Y("y:Q", title="messages/s", scale=alt.Scale(zero=True, nice=True), axis=drawing.amounts()),
            detail=alt.Detail("run:N"),
            color=drawing.by_system(systems, [run.system for run in runs]),
            strokeDash=alt.StrokeDash(
                "side:N", title=None, legend=drawing.legend("top", ["received", "sent"]), scale=_DASHES
            ),
        )
    ]


def _depths(sheet: drawing.Sheet, runs: Sequence[TimeSeries], systems: Sequence[str], x: alt.X) -> alt.Chart:
    rows = [
        {"system": run.system, "run": run.run, "x": seconds, "y": depth}
        for run in runs
        for seconds, depth in run.depths
    ]
    line = sheet.chart(rows).mark_line(strokeWidth=1.6)
    depths: alt.Chart = line.encode(
        x=x,
        y=alt.Y("y:Q", title="messages waiting", scale=alt.Scale(zero=True, nice=True), axis=drawing.amounts()),
        detail=alt.Detail("run:N"),
        color=drawing.by_system(systems, [run.system for run in runs]),
    )
    return depths


def _marks(sheet: drawing.Sheet, onsets: Sequence[Onset], x: alt.X, named: bool) -> list[alt.Chart]:
    rows = [
        {"x": onset.seconds, "label": onset.label, "row": 14 * number} for number, onset in enumerate(onsets, start=1)
    ]
    base = sheet.chart(rows).encode(x=x)
    rule = base.mark_rule(color=_ONSET, strokeWidth=1.4, strokeDash=[2, 2])
    rule = rule.encode(description=alt.Description("label:N"))
    if not named:
        return [rule]
    words = base.mark_text(align="left", dx=5, fontSize=11, color=drawing.FAINT).encode(
        text=alt.Text("label:N"), y=alt.Y("row:Q", scale=None, axis=None)
    )
    return [rule, words]
