"""Heat maps of latency over the time of a run, with its phases, faults and the episodes of flow control."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from mqlab.report.charts import drawing
from mqlab.report.charts.line_charts import Band
from mqlab.report.render import formatting

# From few messages to many: lighter step by step, and readable on a white and on a dark background.
LEVELS: Final = ("#7b3fc0", "#9a48bf", "#b752ab", "#cf5d8c", "#e2706a", "#ee8a4b", "#f5a53c")
_FAULT: Final = "#b4232c"
_HELD: Final = "#0072b2"
# Above the slowest messages is room for the episodes of flow control.
_HEADROOM: Final = 1.5
_ONE: Final = {"width": 620, "height": 220}
_SEVERAL: Final = {"width": 400, "height": 190}


@dataclass(frozen=True)
class HeatCell:
    """`count` messages that were planned in [start, end) and took from `low` to `high`; all in seconds."""

    start: float
    end: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class HeatMap:
    """One run of a system. `held`: when flow control held producers back."""

    system: str
    run: int
    cells: Sequence[HeatCell]
    phases: Sequence[Band]
    faults: Sequence[Band]
    held: Sequence[Band]


def heat_maps(maps: Sequence[HeatMap], kind: str) -> drawing.DrawnChart:
    """A panel for each system, with the same axes and colours. `kind`: latency or response time."""
    cells = [cell for heat_map in maps for cell in heat_map.cells]
    bands = [band for heat_map in maps for band in (*heat_map.phases, *heat_map.faults, *heat_map.held)]
    ends = [cell.end for cell in cells] + [band.end for band in bands]
    x = alt.X(
        "start:Q", title="seconds since the start of the load",
        scale=alt.Scale(domain=[0, max(ends)], nice=False), axis=alt.Axis(tickCount=8, grid=False),
    )  # fmt: skip
    lowest, highest = min(cell.low for cell in cells), max(cell.high for cell in cells)
    y = alt.Y(
        "low:Q", title=f"{kind}, log scale",
        scale=alt.Scale(type="log", domain=[lowest, _HEADROOM * highest], nice=False),
        axis=alt.Axis(labelExpr=drawing.TIME_LABELS, values=_decades(cells), labelOverlap=True),
    )  # fmt: skip
    most = max(cell.count for cell in cells)
    sheet = drawing.Sheet()
    size = _ONE if len(maps) == 1 else _SEVERAL
    panels = [
        drawing.layered(
            _layers(sheet, heat_map, x, _rects(sheet, heat_map, x, y, most)),
            title={"text": heat_map.system, "anchor": "start", "fontSize": 12, "offset": 26}, **size,
        )
        for heat_map in maps
    ]  # fmt: skip
    columns = {
        "system": "System", "start": "From, s", "end": "To, s", "low": f"{kind} above, s", "high": "up to, s",
        "count": "Messages",
    }  # fmt: skip
    return drawing.draw(drawing.side_by_side(panels, 2, 24, ("color",)), sheet, columns, "system", value_axis="y")


def level(count: int, most: int) -> int:
    """The place of a count among LEVELS: equal ratios are equal steps."""
    share = math.log(count) / math.log(most) if most > 1 else 1.0
    return min(len(LEVELS) - 1, int(share * len(LEVELS)))


def _decades(cells: Sequence[HeatCell]) -> list[float]:
    low, high = math.log10(min(cell.low for cell in cells)), math.log10(max(cell.high for cell in cells))
    inside = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    return [10.0**power for power in inside] if len(inside) > 1 else [10**low, 10**high]


def _rects(sheet: drawing.Sheet, heat_map: HeatMap, x: alt.X, y: alt.Y, most: int) -> alt.Chart:
    rows = [
        {
            "system": heat_map.system, "start": cell.start, "end": cell.end, "low": cell.low, "high": cell.high,
            "count": cell.count, "level": str(level(cell.count, most)), "text": _text(cell),
        }
        # Cells of one colour follow each other: the picture has one path for them.
        for cell in sorted(heat_map.cells, key=lambda cell: level(cell.count, most))
    ]  # fmt: skip
    scale = alt.Scale(domain=[str(n) for n in range(len(LEVELS))], range=list(LEVELS))
    rects: alt.Chart = sheet.chart(rows).mark_rect(clip=True).encode(
        x=x, x2=alt.X2("end:Q"), y=y, y2=alt.Y2("high:Q"),
        color=alt.Color("level:N", scale=scale, legend=None), description=alt.Description("text:N"),
    )  # fmt: skip
    return rects


def _text(cell: HeatCell) -> str:
    low, high = (formatting.quantity(edge, "s") for edge in (cell.low, cell.high))
    return f"{cell.start:g} to {cell.end:g} s: {formatting.count(cell.count, 'message')} took {low} to {high}"


def _layers(sheet: drawing.Sheet, heat_map: HeatMap, x: alt.X, cells: alt.Chart) -> list[alt.Chart]:
    """Shaded faults behind the cells, lines where phases begin, and the episodes of flow control at the upper edge."""
    x2 = alt.X2("end:Q")
    phases, faults, held = (
        sheet.chart({"label": band.phase, "start": band.start, "end": band.end} for band in bands).encode(x=x)
        for bands in (heat_map.phases, heat_map.faults, heat_map.held)
    )
    label, description = alt.Text("label:N"), alt.Description("label:N")
    return [
        faults.mark_rect(clip=True, color=_FAULT, opacity=0.16).encode(x2=x2, description=description),
        cells,
        phases.mark_rule(clip=True, color=drawing.FAINT, strokeDash=[3, 3]).encode(description=description),
        phases.mark_text(align="left", dx=3, y=-4, fontSize=10, clip=False).encode(text=label),
        faults.mark_rule(clip=True, color=_FAULT, strokeWidth=1.6).encode(description=description),
        faults.mark_text(align="left", dx=3, y=-16, fontSize=10, color=_FAULT).encode(text=label),
        held.mark_rect(clip=True, color=_HELD, y=0, y2=5).encode(x2=x2, description=description),
    ]
