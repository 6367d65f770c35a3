"""Charts of one figure a system: bars for one point, dots for all points at a glance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from mqlab.report.charts.drawing import (
    FAINT,
    PALETTE,
    PUBLISHED_COLOUR,
    Sheet,
    amounts,
    by_origin,
    draw,
    extent,
    layered,
    legend,
    names_axis,
    needs_log,
    powers,
)
from mqlab.report.render.content import MEASURED, PUBLISHED

_WIDTH: Final = 560  # of a bar chart with its names: the same for short names and long ones

_SHAPES: Final = ("diamond", "square", "triangle-up")


@dataclass(frozen=True)
class Bar:
    """`value` None leaves its place empty but for `label`. A line break in `system` is kept."""

    system: str
    value: float | None
    ci95: float | None
    origin: str
    label: str

    @property
    def name(self) -> str:
        """Of the system, in one line."""
        return " ".join(self.system.split())

    @property
    def words(self) -> str:
        return f"{self.name}, {self.origin}: {self.label}"


def bars(given: Sequence[Bar], unit: str) -> str:
    """One bar a system, in the order given, with a whisker for its 95 % interval and its figure at the end."""
    log = needs_log([bar.value for bar in given if bar.value is not None])
    start, end = _domain(given, log)
    scale = alt.Scale(type="log" if log else "linear", domain=[start, end], nice=False)
    title = f"{unit}, log scale: each line is ten times the one before" if log else unit
    x = alt.X("value:Q", scale=scale, axis=powers(start, end) if log else amounts(), title=title)
    names = [bar.system for bar in given]
    rows = [_row(bar, start, end) for bar in given]
    sheet = Sheet()
    base = sheet.chart(rows).encode(y=alt.Y("system:N", sort=names, title=None, axis=names_axis(names)))
    present = base.transform_filter("datum.value !== null")
    known = base.transform_filter("datum.low !== null")
    end_marks = {"size": 9, "thickness": 1.5, "color": FAINT}
    layers = [
        present.mark_bar(size=18, cornerRadiusEnd=2).encode(
            x=x,
            x2=alt.X2Datum(start),
            color=by_origin(bar.origin for bar in given),
            description=alt.Description("says:N"),
        ),
        known.mark_rule(strokeWidth=1.5, color=FAINT).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q")),
        known.mark_tick(**end_marks).encode(x=alt.X("low:Q", scale=scale)),
        known.mark_tick(**end_marks).encode(x=alt.X("high:Q", scale=scale)),
        base.mark_text(align="left", dx=6, fontSize=11).encode(x=alt.X("at:Q", scale=scale), text=alt.Text("label:N")),
    ]
    lines = max((name.count("\n") + 1 for name in names), default=1)
    return draw(layered(layers, width=_WIDTH - extent(names), height={"step": 14 + 14 * lines}), sheet)


def dots(given: Sequence[tuple[str, Bar]], unit: str) -> str:
    """All points at a glance: a row a point, a dot a system. At least one bar has a value above zero."""
    shown = [(row, bar, bar.value) for row, bar in given if bar.value]
    values = [value for _, _, value in shown]
    log = needs_log(values)
    start, end = (min(values) / 1.6, max(values) * 1.6) if log else (0.0, max(values) * 1.05)
    # Of several systems that were measured here each has a colour of its own.
    measured = list(dict.fromkeys(bar.name for _, bar in given if bar.origin == MEASURED))
    whose = {PUBLISHED: PUBLISHED_COLOUR}
    whose |= {name: PALETTE[n % len(PALETTE)] for n, name in enumerate(measured if len(measured) > 1 else [MEASURED])}
    rows: list[dict[str, Any]] = [
        {
            "row": row,
            "value": value,
            "whose": bar.name if bar.origin == MEASURED and len(measured) > 1 else bar.origin,
            "says": f"{row}: {bar.words}",
        }
        for row, bar, value in shown
    ]
    names = list(dict.fromkeys(row for row, _ in given))
    sheet = Sheet()
    chart = sheet.chart(rows).mark_point(filled=True, opacity=0.95, size=90)
    chart = chart.encode(
        x=alt.X(
            "value:Q",
            title=f"{unit}, log scale" if log else unit,
            scale=alt.Scale(type="log" if log else "linear", domain=[start, end], nice=False),
            axis=powers(start, end) if log else amounts(),
        ),
        y=alt.Y("row:N", title=None, scale=alt.Scale(domain=names), axis=names_axis(names, grid=True)),
        color=alt.Color(
            "whose:N",
            title=None,
            scale=alt.Scale(domain=[*whose], range=[*whose.values()]),
            legend=legend("top", (row["whose"] for row in rows), columns=4),
        ),
        # Told apart without colour too.
        shape=alt.Shape("whose:N", scale=alt.Scale(domain=[*whose], range=["circle", *_diamonds(len(whose) - 1)])),
        description=alt.Description("says:N"),
    )
    return draw(layered([chart], width=720, height={"step": 26}), sheet)


def _diamonds(systems: int) -> list[str]:
    """A shape for each: diamonds, and others where the colours begin again."""
    return [_SHAPES[n // len(PALETTE) % len(_SHAPES)] for n in range(systems)]


def _row(bar: Bar, start: float, end: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "system": bar.system,
        "origin": bar.origin,
        "label": bar.label,
        "value": bar.value,
        "low": None,
        "high": None,
        "at": start,
        "says": bar.words,
    }
    if bar.value is not None:
        row["at"] = max(bar.value, start)
        if bar.ci95:
            row["low"], row["high"] = max(bar.value - bar.ci95, start), min(bar.value + bar.ci95, end)
            row["at"] = row["high"]
    return row


def _domain(given: Sequence[Bar], log: bool) -> tuple[float, float]:
    """From below the least to beyond the greatest end, with room for the figures written there."""
    ends = [bar.value + (bar.ci95 or 0.0) for bar in given if bar.value is not None]
    top = max(ends, default=0.0) or 1.0
    if not log:
        return 0.0, top * 1.45
    low = min(bar.value for bar in given if bar.value is not None and bar.value > 0)
    start = 10.0 ** math.floor(math.log10(low) - 0.1)
    return start, top * (top / start) ** 0.35
