"""Charts of intervals: measured values against the limits of claims; and a rate against a latency."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts import drawing

# Colour and shape of each verdict: a reader needs only one of them.
_LOOKS: Final = {
    "holds": ("#009e73", "circle"),
    "refuted": ("#d55e00", "cross"),
    "inconclusive": ("#a17400", "diamond"),
}
_SPREAD: Final = (0.01, 100.0)


@dataclass(frozen=True)
class LimitedValue:
    """A value of a claim over its limit, with the ends of its interval; None: an end that is not known."""

    name: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str
    description: str


def limits_chart(given: Sequence[LimitedValue]) -> drawing.DrawnChart:
    """One row for each claim: its value with the 95 % interval, as a multiple of the limit that it must pass."""
    rows: list[drawing.Row] = [
        {
            "name": one.name, "ratio": _inside(one.ratio), "low": _inside(one.low or 0.0),
            "high": _inside(_SPREAD[1] if one.high is None else one.high), "verdict": one.verdict,
            "description": one.description,
        }
        for one in given
    ]  # fmt: skip
    ends = [float(str(row[key])) for row in rows for key in ("low", "high")]
    start, end = min(0.8, min(ends) / 1.1), max(1.25, max(ends) * 1.1)
    scale = alt.Scale(type="log", domain=[start, end], nice=False)
    x = alt.X("ratio:Q", scale=scale, title="measured / needed, log scale", axis=alt.Axis(tickCount=6, format="~g"))
    names = [one.name for one in given]
    shown = [word for word in _LOOKS if any(one.verdict == word for one in given)]
    colour = alt.Color(
        "verdict:N", title=None, legend=drawing.legend("top", shown),
        scale=alt.Scale(domain=[*_LOOKS], range=[colour for colour, _ in _LOOKS.values()]),
    )  # fmt: skip
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=[*_LOOKS], range=[shape for _, shape in _LOOKS.values()]))
    sheet = drawing.Sheet()
    base = sheet.chart(rows).encode(y=alt.Y("name:N", sort=names, title=None, axis=drawing.names_axis(names)))
    limit = sheet.chart([{"at": 1.0}]).mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=drawing.FAINT)
    layers = [
        base.mark_point(filled=True, size=80, opacity=1).encode(
            x=x, color=colour, shape=shape, description=alt.Description("description:N")
        ),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), color=colour),
        limit.encode(x=alt.X("at:Q", scale=scale)),
    ]
    chart = drawing.layered(
        layers, width=_width(names), height={"step": 32 if any("\n" in name for name in names) else 20}
    )
    columns = {"name": "Claim", "verdict": "Verdict", "ratio": "measured / needed", "low": "95 % from", "high": "to"}
    return drawing.draw(chart, sheet, columns, series="verdict", value_axis="x")


def _inside(value: float) -> float:
    return min(max(value, _SPREAD[0]), _SPREAD[1])


def _width(names: Sequence[str]) -> float:
    return 860 - drawing.extent(names)


@dataclass(frozen=True)
class RatedPoint:
    """A point of a system: its rate, its latency in seconds, and both in words."""

    system: str
    name: str
    rate: float
    latency: float
    description: str


def scatter(given: Sequence[RatedPoint], colours: Mapping[str, str], titles: tuple[str, str]) -> drawing.DrawnChart:
    """A mark for each point and system. `titles` are those of the axes: of the rate and of the latency."""
    rates, delays = [one.rate for one in given], [one.latency for one in given]
    x_scale, x_axis = _scale(rates)
    y_scale, _ = _scale(delays)
    rows: list[drawing.Row] = [
        {"series": one.system, "name": one.name, "rate": one.rate, "latency": one.latency, "text": one.description}
        for one in given
    ]
    sheet = drawing.Sheet()
    chart = sheet.chart(rows).mark_point(filled=True, size=60, opacity=0.85)
    chart = chart.encode(
        x=alt.X("rate:Q", scale=x_scale, axis=x_axis, title=_titled(titles[0], rates)),
        y=alt.Y(
            "latency:Q",
            scale=y_scale,
            title=_titled(titles[1], delays),
            axis=alt.Axis(labelExpr=drawing.TIME_LABELS, tickCount=5),
        ),
        color=drawing.by_series(colours, [one.system for one in given]),
        shape=alt.Shape("series:N", scale=alt.Scale(domain=[*colours])),
        description=alt.Description("text:N"),
    )
    columns = {"series": "System", "name": "Point", "rate": titles[0], "latency": f"{titles[1]}, s"}
    made = drawing.layered([chart], width=720, height=300)
    return drawing.draw(made, sheet, columns, series="series", value_axis="y")


def _scale(values: Sequence[float]) -> tuple[alt.Scale, alt.Axis]:
    if drawing.needs_log(values):
        start, end = min(values) / 1.3, max(values) * 1.3
        return alt.Scale(type="log", domain=[start, end], nice=False), drawing.powers(start, end)
    return alt.Scale(domain=[0, max(values) * 1.06], nice=False), drawing.amounts()


def _titled(title: str, values: Sequence[float]) -> str:
    return f"{title}, log scale" if drawing.needs_log(values) else title
