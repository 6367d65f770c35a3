"""Charts of latency distributions, and of messages in each second."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts.drawing import FAINT, TIME_LABELS, Sheet, amounts, by_system, draw, layered, legend

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


def latencies(curves: Sequence[Curve], systems: Sequence[str]) -> str:
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
        axis=alt.Axis(labelExpr=TIME_LABELS, values=ticks, labelOverlap=False),
    )
    colour = by_system(systems, [curve.system for curve in curves])
    drawn = [{"system": name, "x": across, "y": up, "n": n} for n, (name, across, up) in enumerate(lines)]
    dotted = [{"system": name, "x": across, "y": up, "text": f"{name}: {text}"} for name, across, up, text in marks]
    sheet = Sheet()
    line = sheet.chart(drawn).mark_line(strokeWidth=2)
    dots = sheet.chart(dotted).mark_circle(size=36, opacity=1)
    layers = [
        line.encode(x=x, y=y, color=colour, order=alt.Order("n:Q")),
        dots.encode(x=x, y=y, color=colour, description=alt.Description("text:N")),
    ]
    return draw(layered(layers, **_SIZE), sheet)


def series(lines: Sequence[Steps], bands: Sequence[Band], systems: Sequence[str]) -> str:
    """Messages in each second of every run; phases other than measure are shaded."""
    rows = [
        {"system": line.system, "run": f"{line.run} {line.side}", "side": line.side, "x": x, "y": y}
        for line in lines
        for x, y in _with_last_edge(line.seconds)
    ]
    shaded = [{"phase": phase.phase, "start": phase.start, "end": phase.end} for phase in bands]
    sheet = Sheet()
    band = sheet.chart(shaded)
    dashes = alt.Scale(domain=["received", "sent"], range=[[1, 0], [4, 3]])
    steps = sheet.chart(rows).mark_line(interpolate="step-after", strokeWidth=1.6, opacity=0.85)
    layers = [
        band.mark_rect(color=FAINT, opacity=0.16).encode(
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
            y=alt.Y("y:Q", title="messages in the second", scale=alt.Scale(zero=True, nice=True), axis=amounts()),
            detail=alt.Detail("run:N"),
            color=by_system(systems, [line.system for line in lines]),
            strokeDash=alt.StrokeDash(
                "side:N", title=None, legend=legend("bottom", [line.side for line in lines]), scale=dashes
            ),
        ),
    ]
    return draw(layered(layers, **_SIZE), sheet)


def stretched(share: float) -> float:
    """The position of a share on the axis: 90 %, 99 %, 99.9 % have equal distances."""
    return min(_FARTHEST, -math.log10(max(1.0 - share, 10.0**-_FARTHEST)))


def _with_last_edge(seconds: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Add the end of the last second: each second is a step."""
    return [*seconds, (seconds[-1][0] + 1, seconds[-1][1])]


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
