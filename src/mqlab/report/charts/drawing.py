"""Parts that all charts share: colours, axes, legends, and the conversion to SVG."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import altair as alt
import vl_convert

from mqlab.json_values import JsonObject
from mqlab.report.render.content import MEASURED, PUBLISHED

# The version that draws the pictures, and that a page has inside to draw them again.
VEGA_LITE: Final = "6.4"
# The style sheet of the page selects these two by value to change them on a dark background.
PUBLISHED_COLOUR: Final = "#9aa5b1"
MEASURED_COLOUR: Final = "#0072b2"
FAINT: Final = "#808a96"
# Colours of several systems: those of Okabe and Ito, which colour-blind readers tell apart, as far as they stand out
# from a white and from a dark background; then darker ones.
PALETTE: Final = (MEASURED_COLOUR, "#d55e00", "#009e73", "#cc79a7", "#a17400", "#7a6fd0", "#6d7780", "#3d9ad1")
# Above this ratio of values the axis is logarithmic: the shortest bar would be invisible.
LOG_FROM: Final = 50.0
# A name of so many letters has a line of the legend for itself.
_LONG_NAME: Final = 34
_PREFIXED: Final = "format(datum.value, '~s')"
TIME_LABELS: Final = (
    "datum.value == 0 ? '0' : datum.value >= 0.9995 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.0009995 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 9.995e-7 ? format(datum.value * 1e6, '~r') + ' \u00b5s' : format(datum.value * 1e9, '~r') + ' ns'"
)
_BYTE_LABELS: Final = "datum.value == 0 ? '0' : format(datum.value, '~s') + 'B'"


_LOOK: Final = {
    "background": "transparent",
    "padding": 4,
    "view": {"stroke": None},
    "axis": {
        "gridColor": FAINT,
        "gridOpacity": 0.25,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "legend": {"labelFontSize": 11},
}

Row = Mapping[str, object]
Spec = JsonObject


class Sheet:
    """The rows of a chart by name, kept outside it: Altair copies inline data with every step of building a chart."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}

    def chart(self, rows: Iterable[Row]) -> alt.Chart:
        """Return a chart of these rows, without marks."""
        name = f"rows{len(self.rows)}"
        self.rows[name] = list(rows)
        return alt.Chart(alt.NamedData(name))


@dataclass(frozen=True)
class DrawnChart:
    """A chart twice: as SVG (pass it to `svg.clean` before use in a page), and as its Vega-Lite specification."""

    svg: str
    spec: Spec


def draw(
    chart: Spec, sheet: Sheet, columns: Mapping[str, str], series: str = "", value_axis: Literal["x", "y", ""] = ""
) -> DrawnChart:
    """Draw a chart. The page offers its reader what the other arguments say.

    `columns` are the fields of its data table with their heads, `series` is the field whose values a reader can hide,
    and `value_axis` the axis that can be linear or logarithmic.
    """
    reading = {"columns": dict(columns), "series": series, "valueAxis": value_axis}
    specification = {**chart, "config": _LOOK, "datasets": sheet.rows, "usermeta": reading}
    # No base URL is allowed: a chart contains all its data.
    drawn: str = vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE, allowed_base_urls=[])
    return DrawnChart(drawn, specification)


def layered(charts: Iterable[alt.Chart], **of_all: object) -> Spec:
    """Return a Vega-Lite specification with the charts as layers and the properties `of_all`.

    This avoids Altair's own layers, which copy every chart many times. For the same reason charts encode with
    `alt.Text("label:N")` and not with "label:N", for which Altair searches all its classes.
    """
    return {"layer": [_spec(chart) for chart in charts], **of_all}


def _spec(chart: alt.Chart) -> Spec:
    specification: Spec = chart.to_dict(validate=False)
    return {key: value for key, value in specification.items() if key not in ("$schema", "config", "datasets")}


def side_by_side(panels: Sequence[Spec], columns: int, spacing: int, shared: Sequence[str]) -> Spec:
    """Return panels in rows of `columns`."""
    if len(panels) == 1:
        return panels[0]
    resolve = {"scale": dict.fromkeys(shared, "shared")}
    return {"concat": list(panels), "columns": columns, "spacing": spacing, "resolve": resolve}


def quantity_labels(unit: str) -> str | None:
    """The Vega expression that labels an axis of that unit; None for plain numbers."""
    return {"s": TIME_LABELS, "bytes/s": f"{_BYTE_LABELS} + '/s'", "bytes": _BYTE_LABELS}.get(unit)


def needs_log(values: Sequence[float]) -> bool:
    positive = [value for value in values if value > 0]
    return len(positive) > 1 and max(positive) / min(positive) > LOG_FROM


def amounts() -> alt.Axis:
    """A linear axis of rates. Each label has its own SI prefix, so that zero is 0 and not 0M."""
    return alt.Axis(labelExpr=_PREFIXED, tickCount=5)


def powers(start: float, end: float) -> alt.Axis:
    """A log axis of rates, with a line at every power of ten."""
    inside = range(math.ceil(math.log10(start) - 1e-9), math.floor(math.log10(end)) + 1)
    return alt.Axis(labelExpr=_PREFIXED, values=[10.0**power for power in inside], labelOverlap=False)


def names_axis(names: Sequence[str], grid: bool = False) -> alt.Axis:
    """An axis of names beside their rows; a line break before the stamps is kept."""
    return alt.Axis(
        labelLimit=300,
        ticks=False,
        domain=False,
        grid=grid,
        labelPadding=6,
        minExtent=extent(names),
        labelExpr="split(datum.label, '\\n')",
    )


def extent(names: Sequence[str]) -> float:
    """The room for the longest line of the names: a reader's font may be wider than the one that Vega measures with."""
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    return min(longest, 36) * 7.2


def series_colours(systems: Iterable[str]) -> dict[str, str]:
    """The colour of published values, and of each measured system; one system alone is called "measured here"."""
    names = list(dict.fromkeys(systems))
    measured = names if len(names) > 1 else [MEASURED]
    return {PUBLISHED: PUBLISHED_COLOUR} | {name: PALETTE[n % len(PALETTE)] for n, name in enumerate(measured)}


def by_series(colours: Mapping[str, str], shown: Iterable[str]) -> alt.Color:
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    return alt.Color("series:N", title=None, scale=scale, legend=legend("top", shown, columns=4))


def by_system(systems: Sequence[str], shown: Sequence[str]) -> alt.Color:
    """A system has the same colour in every chart; the legend names the systems of this chart."""
    scale = alt.Scale(domain=list(systems), range=[PALETTE[n % len(PALETTE)] for n in range(len(systems))])
    present = list(dict.fromkeys(shown))
    named = alt.Legend(orient="top", direction="vertical", labelLimit=400, symbolStrokeWidth=2, values=present)
    return alt.Color("system:N", title=None, scale=scale, legend=named)


def legend(side: Literal["top", "bottom"], shown: Iterable[str], columns: int = 0) -> alt.Legend:
    """A legend in one line, or in `columns`; long names are one below the other."""
    present = list(dict.fromkeys(shown))
    has_long_names = any(len(name) > _LONG_NAME for name in present)
    return alt.Legend(
        orient=side, direction="horizontal", symbolStrokeWidth=2, columnPadding=18, values=present,
        columns=1 if has_long_names else columns, labelLimit=700 if has_long_names else 400,
    )  # fmt: skip
