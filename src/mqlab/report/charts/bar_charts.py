"""Charts of one figure for each system: bars for one point, dots for all points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts import drawing
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED

_WIDTH: Final = 560  # of a bar chart with its names: the same for short names and long ones

_SHAPES: Final = ("diamond", "square", "triangle-up")


@dataclass(frozen=True)
class Bar:
    """Without a `value` only the label is drawn. A line break in `system` is kept. `runs` has a value for each run."""

    system: str
    value: float | None
    ci95: float | None
    origin: str
    label: str
    runs: tuple[float, ...] = ()
    unit: str = ""

    @property
    def name(self) -> str:
        """The name of the system in one line."""
        return " ".join(self.system.split())

    @property
    def description(self) -> str:
        half = f" {formatting.PLUS_MINUS} {formatting.number(self.ci95)}" if self.ci95 and self.value else ""
        return f"{self.name}, {self.origin}: {self.label}{half} {self.unit}".rstrip()


def bars(given: Sequence[Bar], unit: str) -> drawing.DrawnChart:
    """One bar for each system, in the order given, with a whisker for its 95 % interval and its figure at the end."""
    log = drawing.needs_log([bar.value for bar in given if bar.value is not None])
    start, end = _domain(given, log)
    scale = alt.Scale(type="log" if log else "linear", domain=[start, end], nice=False)
    title = f"{unit}, log scale: each line is ten times the one before" if log else unit
    x = alt.X("value:Q", scale=scale, axis=drawing.powers(start, end) if log else drawing.amounts(), title=title)
    names = [bar.system for bar in given]
    measured = [bar.name for bar in given if bar.origin == MEASURED]
    rows = [{**_row(bar, start, end), "series": _series(bar, measured)} for bar in given]
    sheet = drawing.Sheet()
    base = sheet.chart(rows).encode(y=alt.Y("system:N", sort=names, title=None, axis=drawing.names_axis(names)))
    present = base.transform_filter("datum.value !== null")
    known = base.transform_filter("datum.low !== null")
    end_mark = known.mark_tick(size=9, thickness=1.5, color=drawing.FAINT)
    layers = [
        present.mark_bar(size=18, cornerRadiusEnd=2).encode(
            x=x,
            x2=alt.X2Datum(start),
            color=drawing.by_series(drawing.series_colours(measured), (str(row["series"]) for row in rows)),
            description=alt.Description("description:N"),
        ),
        known.mark_rule(strokeWidth=1.5, color=drawing.FAINT).encode(
            x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q")
        ),
        end_mark.encode(x=alt.X("low:Q", scale=scale)),
        end_mark.encode(x=alt.X("high:Q", scale=scale)),
        base.mark_text(align="left", dx=6, fontSize=11).encode(x=alt.X("at:Q", scale=scale), text=alt.Text("label:N")),
    ]
    lines = max((name.count("\n") + 1 for name in names), default=1)
    return drawing.draw(
        drawing.layered(layers, width=_WIDTH - drawing.extent(names), height={"step": 14 + 14 * lines}),
        sheet,
        {"system": "System", "origin": "Origin", "value": unit, "low": "95 % from", "high": "to"},
        series="series",
        value_axis="x",
    )


def _series(bar: Bar, measured: Sequence[str]) -> str:
    """The entry of a bar in the legend: each of several measured systems has its own, and so its own colour."""
    return bar.name if bar.origin == MEASURED and len(set(measured)) > 1 else bar.origin


def dots(given: Sequence[tuple[str, Bar]], unit: str) -> drawing.DrawnChart:
    """One row for each point; for each system its value, the 95 % interval, and a small dot for each of its runs.

    At least one bar must have a value above zero.
    """
    shown = [(row, bar, bar.value) for row, bar in given if bar.value]
    values = [value for _, bar, mean in shown for value in (mean, *bar.runs)]
    log = drawing.needs_log(values)
    start, end = (min(values) / 1.6, max(values) * 1.6) if log else (0.0, max(values) * 1.05)
    measured = [bar.name for _, bar in given if bar.origin == MEASURED]
    series = drawing.series_colours(measured)
    rows: list[drawing.Row] = []
    runs: list[drawing.Row] = []
    for row, bar, value in shown:
        place = {"row": row, "series": _series(bar, measured)}
        half = bar.ci95 or 0.0
        low, high = (max(value - half, start), min(value + half, end)) if half else (None, None)
        description = f"{row}: {bar.description}"
        rows.append({**place, "value": value, "low": low, "high": high, "description": description})
        runs += [
            {**place, "value": one, "description": f"{row}: {bar.name}, run {n}: {formatting.number(one)} {unit}"}
            for n, one in enumerate(bar.runs, start=1)
            if one > 0
        ]
    names = list(dict.fromkeys(row for row, _ in given))
    # Shapes distinguish the systems without colour too: diamonds, and other shapes where the colours repeat.
    shapes = [_SHAPES[n // len(drawing.PALETTE) % len(_SHAPES)] for n in range(len(series) - 1)]
    scale = alt.Scale(type="log" if log else "linear", domain=[start, end], nice=False)
    axis = drawing.powers(start, end) if log else drawing.amounts()
    x = alt.X("value:Q", title=f"{unit}, log scale" if log else unit, scale=scale, axis=axis)
    placed = {
        "y": alt.Y("row:N", title=None, scale=alt.Scale(domain=names), axis=drawing.names_axis(names, grid=True)),
        "color": drawing.by_series(series, (str(row["series"]) for row in rows)),
    }
    told = alt.Description("description:N")
    sheet = drawing.Sheet()
    base, each = sheet.chart(rows), sheet.chart(runs)
    known = base.transform_filter("datum.low !== null")
    layers = [
        base.mark_point(filled=True, opacity=0.95, size=90).encode(
            x=x, shape=alt.Shape("series:N", scale=alt.Scale(domain=[*series], range=["circle", *shapes])),
            description=told, **placed,
        ),
        known.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), **placed),
        each.mark_circle(size=14, opacity=0.55, yOffset=8).encode(x=x, description=told, **placed),
    ]  # fmt: skip
    columns = {"row": "Scenario", "series": "System", "value": unit, "low": "95 % from", "high": "to"}
    made = drawing.layered(layers, width=720, height={"step": 26})
    return drawing.draw(made, sheet, columns, series="series", value_axis="x")


def _row(bar: Bar, start: float, end: float) -> drawing.Row:
    row: dict[str, object] = {
        "system": bar.system, "origin": bar.origin, "label": bar.label, "value": bar.value,
        "low": None, "high": None, "at": start, "description": bar.description,
    }  # fmt: skip
    if bar.value is not None:
        row["at"] = max(bar.value, start)
        if bar.ci95:
            row["low"], row["high"] = max(bar.value - bar.ci95, start), min(bar.value + bar.ci95, end)
            row["at"] = row["high"]
    return row


def _domain(given: Sequence[Bar], log: bool) -> tuple[float, float]:
    """The ends of the axis, with room for the figures at the end of the bars."""
    ends = [bar.value + (bar.ci95 or 0.0) for bar in given if bar.value is not None]
    top = max(ends, default=0.0) or 1.0
    if not log:
        return 0.0, top * 1.45
    low = min(bar.value for bar in given if bar.value is not None and bar.value > 0)
    start = 10.0 ** math.floor(math.log10(low) - 0.1)
    return start, top * (top / start) ** 0.35
