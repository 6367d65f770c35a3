"""Charts of one or two metrics against a swept parameter: a line for each setting, in panels."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import altair as alt

from mqlab.report.charts import drawing

_WIDE: Final = 620
_NARROW: Final = 330
_HEIGHT: Final = 240
_DASHES: Final = [5, 4]
# A legend with longer names has one column.
_LONG: Final = 34


@dataclass(frozen=True)
class Mark:
    """One value of a line; `x` is the swept number, or the position of a name."""

    x: float
    y: float
    ci95: float | None
    description: str


@dataclass(frozen=True)
class Line:
    """`key` decides its colour and is its entry in the legend; `second` lines use the axis on the right."""

    key: str
    marks: Sequence[Mark]
    second: bool = False


@dataclass(frozen=True)
class Panel:
    """`joined`: a line connects the marks. All panels of a `family` share their axes."""

    title: str
    family: str
    lines: Sequence[Line]
    joined: bool = True


@dataclass(frozen=True)
class Axes:
    """The titles and units of the axes. `labels` are the values of x as the study writes them.

    With `named` the values of x are names: the axis has a position for each, in their order.
    """

    x: str
    y: str
    unit: str
    second: str = ""
    second_unit: str = ""
    labels: Mapping[float, str] = field(default_factory=dict)
    named: bool = False


def sweep(panels: Sequence[Panel], axes: Axes, colours: Mapping[str, str]) -> drawing.DrawnChart:
    """Draw the panels. `colours` has the keys of all lines in the order of the legend, the same in all panels."""
    width = _WIDE if len(panels) == 1 else _NARROW
    sheet = drawing.Sheet()
    size = {"width": width, "height": _HEIGHT}
    drawn = [{**_panel(sheet, panel, panels, axes, colours), **size} for panel in panels]
    value = f"{axes.y}, {axes.unit}" + (f", or {axes.second}, {axes.second_unit}" if axes.second else "")
    columns = {"panel": "Panel", "line": "Line", "at": axes.x, "y": value, "low": "95 % from", "high": "to"}
    chart = drawing.side_by_side(drawn, 2, 34, ("color", "strokeDash"))
    return drawing.draw(chart, sheet, columns, series="line", value_axis="" if axes.second else "y")


def _panel(
    sheet: drawing.Sheet, panel: Panel, panels: Sequence[Panel], axes: Axes, colours: Mapping[str, str]
) -> drawing.Spec:
    family = [other for other in panels if other.family == panel.family]
    sides = [_side(sheet, panel, panels, axes, colours, second=False)]
    if any(line.second for other in family for line in other.lines):
        sides.append(_side(sheet, panel, panels, axes, colours, second=True))
    title = {"text": panel.title, "fontSize": 12, "anchor": "start"}
    return {"layer": sides, "title": title, "resolve": {"scale": {"y": "independent"}}}


def _side(
    sheet: drawing.Sheet, panel: Panel, panels: Sequence[Panel], axes: Axes, colours: Mapping[str, str], second: bool
) -> drawing.Spec:
    family = [other for other in panels if other.family == panel.family]
    lines = [line for line in panel.lines if line.second == second]
    every = [mark for other in family for line in other.lines if line.second == second for mark in line.marks]
    named = axes.second if second else axes.y
    rows = [
        {"panel": panel.title, "at": axes.labels.get(mark.x, ""), **_row(line, mark, named if axes.second else "")}
        for line in lines
        for mark in line.marks
    ]
    vertical = _y(every, axes, second)
    encoded = {"x": _x(panels, axes), "color": _colour(colours, axes), "detail": alt.Detail("line:N")}
    base = sheet.chart(rows)
    layers = []
    if panel.joined:
        line = base.mark_line(strokeWidth=1.4 if second else 2)
        dashed = {"order": alt.Order("x:Q"), "strokeDash": _dash([*colours], axes)}
        layers.append(line.encode(y=vertical("y:Q"), **dashed, **encoded))
    shape = "square" if second else "circle"
    points = base.mark_point(shape=shape, filled=not second, size=26 if second else 38, opacity=1, strokeWidth=1.4)
    layers.append(points.encode(y=vertical("y:Q"), description=alt.Description("description:N"), **encoded))
    whisker = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1, opacity=0.6)
    layers.append(whisker.encode(y=vertical("low:Q"), y2=alt.Y2("high:Q"), **encoded))
    return drawing.layered(layers)


def _row(line: Line, mark: Mark, named: str) -> drawing.Row:
    return {
        "line": entry(line.key, named), "x": mark.x, "y": mark.y,
        "low": None if mark.ci95 is None else max(0.0, mark.y - mark.ci95),
        "high": None if mark.ci95 is None else mark.y + mark.ci95,
        "description": mark.description,
    }  # fmt: skip


def entry(key: str, named: str) -> str:
    """The name of a line in the legend, with its metric where the chart has two."""
    return ": ".join(part for part in (key, named) if part)


def _x(panels: Sequence[Panel], axes: Axes) -> alt.X:
    """The same in all panels, so that their shapes can be compared."""
    texts = f"({json.dumps({f'{place:g}': text for place, text in axes.labels.items()})})[format(datum.value, '.6~g')]"
    if axes.named:
        places = list(axes.labels)
        scale = alt.Scale(domain=[-0.4, max(places) + 0.4], nice=False)
        return alt.X("x:Q", title=axes.x, scale=scale, axis=alt.Axis(values=places, labelExpr=texts, grid=False))
    values = sorted({mark.x for panel in panels for line in panel.lines for mark in line.marks})
    log = values[0] > 0 and drawing.needs_log(values)
    scale = alt.Scale(type="log", nice=False, padding=8) if log else alt.Scale(zero=True, nice=False, padding=8)
    axis = alt.Axis(values=_spread(values, log), labelExpr=texts, grid=False, labelOverlap=True)
    return alt.X("x:Q", title=f"{axes.x}, log scale" if log else axes.x, scale=scale, axis=axis)


def _spread(values: Sequence[float], log: bool) -> list[float]:
    """The swept values that get a label, so that labels do not overlap."""
    room = 0.06 * (values[-1] - values[0])
    labelled: list[float] = []
    for value in values:
        if not labelled or (value > 1.5 * labelled[-1] if log else value - labelled[-1] >= room):
            labelled.append(value)
    return labelled


def _y(every: Sequence[Mark], axes: Axes, second: bool) -> Callable[[str], alt.Y]:
    """The vertical axis, from zero; the same for all panels of a family."""
    top = max((mark.y + (mark.ci95 or 0.0) for mark in every), default=0.0) or 1.0
    unit = axes.second_unit if second else axes.unit
    labels = drawing.quantity_labels(unit)
    axis = drawing.amounts() if labels is None else alt.Axis(labelExpr=labels, tickCount=5)
    if second:
        axis = alt.Axis(orient="right", grid=False, tickCount=5)
    title = axes.second if second else axes.y
    scale = alt.Scale(domain=[0, top * 1.06], nice=False)
    return partial(alt.Y, title=title if labels else f"{title}, {unit}", scale=scale, axis=axis)


def _entries(keys: Sequence[str], axes: Axes) -> list[str]:
    return [entry(key, named) for key in keys for named in ((axes.y, axes.second) if axes.second else ("",))]


def _legend(keys: Sequence[str], axes: Axes) -> alt.Legend:
    longest = max(map(len, _entries(keys, axes)))
    columns = 2 if axes.second else 1 if longest > _LONG else 4
    return alt.Legend(
        orient="top",
        columns=columns,
        # A reader's font may be wider than the one that Vega measures with.
        columnPadding=12 + 1.4 * longest,
        labelLimit=420,
        symbolType="stroke",
        symbolStrokeWidth=2,
        symbolSize=260,
    )


def _colour(colours: Mapping[str, str], axes: Axes) -> alt.Color:
    each = 2 if axes.second else 1
    entries = _entries([*colours], axes)
    scale = alt.Scale(domain=entries, range=[colour for colour in colours.values() for _ in range(each)])
    return alt.Color("line:N", title=None, scale=scale, legend=_legend([*colours], axes))


def _dash(keys: Sequence[str], axes: Axes) -> alt.StrokeDash:
    dashes = [dash for _ in keys for dash in (([1, 0], _DASHES) if axes.second else ([1, 0],))]
    scale = alt.Scale(domain=_entries(keys, axes), range=dashes)
    return alt.StrokeDash("line:N", title=None, scale=scale, legend=_legend(keys, axes))
