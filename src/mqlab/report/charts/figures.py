"""A drawn chart as a figure of the report: its cleaned picture, and the specification for the reader's browser."""

from mqlab.report.charts import svg
from mqlab.report.charts.drawing import DrawnChart
from mqlab.report.render.content import Figure


def chart_figure(
    name: str, title: str, drawn: DrawnChart, description: str, notes: tuple[str, ...] = (), wide: bool = False
) -> Figure:
    return Figure(name, title, svg.clean(drawn.svg, name, description), description, notes, wide, drawn.spec)
