"""Charts of groups of bars: published and measured values, each on its own axis from zero."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts import drawing

_WIDTH: Final = 300
_BAR: Final = 15
# Room for the figure beside the longest bar.
_ROOM: Final = 1.42


@dataclass(frozen=True)
class GroupBar:
    """One bar: its group, the `key` that decides its colour, and the label at its end. The value may be missing."""

    group: str
    key: str
    value: float | None
    ci95: float | None
    label: str
    description: str


@dataclass(frozen=True)
class GroupPanel:
    title: str
    bars: Sequence[GroupBar]


def groups(panels: Sequence[GroupPanel], colours: Mapping[str, str], unit: str) -> drawing.DrawnChart:
    """Draw the groups from top to bottom; only the first panel has the names. `colours` has all keys, in order."""
    keys = list(colours)
    names = list(dict.fromkeys(bar.group for panel in panels for bar in panel.bars))
    drawn = []
    sheet = drawing.Sheet()
    for number, panel in enumerate(panels):
        here = [key for key in keys if any(bar.key == key for bar in panel.bars)]
        height = len(names) * (len(here) * _BAR + 9)
        made = _panel(sheet, panel, names, here, colours, unit, first=not number)
        drawn.append({**made, "width": _WIDTH, "height": height})
    columns = {"panel": "Origin", "group": "Group", "key": "System", "value": unit, "low": "95 % from", "high": "to"}
    chart = drawing.side_by_side(drawn, 2, 20, ("color",))
    return drawing.draw(chart, sheet, columns, series="key", value_axis="x")


def _panel(
    sheet: drawing.Sheet, panel: GroupPanel, names: Sequence[str], here: Sequence[str],
    colours: Mapping[str, str], unit: str, first: bool,
) -> drawing.Spec:  # fmt: skip
    ends = [bar.value + (bar.ci95 or 0.0) for bar in panel.bars if bar.value is not None]
    scale = alt.Scale(domain=[0, (max(ends, default=0.0) or 1.0) * _ROOM], nice=False)
    labels = drawing.quantity_labels(unit)
    axis = drawing.amounts() if labels is None else alt.Axis(labelExpr=labels, tickCount=4)
    beside = drawing.names_axis(names) if first else alt.Axis(labels=False, ticks=False, domain=False, title=None)
    base = sheet.chart([{"panel": panel.title, **_row(bar)} for bar in panel.bars]).encode(
        y=alt.Y("group:N", sort=list(names), title=None, axis=beside, scale=alt.Scale(paddingInner=0.2)),
        yOffset=alt.YOffset("key:N", sort=list(here), scale=alt.Scale(domain=list(here), paddingInner=0.12)),
    )
    known = base.transform_filter("datum.low !== null")
    bars = base.transform_filter("datum.value !== null").mark_bar(cornerRadiusEnd=2)
    layers = [
        bars.encode(
            x=alt.X("value:Q", scale=scale, axis=axis, title=unit),
            color=_colour(colours),
            description=alt.Description("description:N"),
        ),
        known.mark_rule(strokeWidth=1.5, color=drawing.FAINT).encode(
            x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q")
        ),
        base.mark_text(align="left", dx=5, fontSize=10).encode(x=alt.X("at:Q", scale=scale), text=alt.Text("label:N")),
    ]
    return drawing.layered(layers, title={"text": panel.title, "fontSize": 12, "anchor": "start", "offset": 6})


def _colour(colours: Mapping[str, str]) -> alt.Color:
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    legend = alt.Legend(orient="top", direction="vertical", labelLimit=500, symbolType="square", title=None)
    return alt.Color("key:N", title=None, scale=scale, legend=legend if len(colours) > 1 else None)


def _row(bar: GroupBar) -> drawing.Row:
    low = high = None
    if bar.value is not None and bar.ci95:
        low, high = max(0.0, bar.value - bar.ci95), bar.value + bar.ci95
    return {
        "group": bar.group, "key": bar.key, "value": bar.value, "low": low, "high": high,
        "at": high or bar.value or 0.0, "label": bar.label, "description": bar.description,
    }  # fmt: skip
