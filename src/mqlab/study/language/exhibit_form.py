"""The forms of exhibits in a study file, one class for each form."""

from typing import Annotated, Final, Literal, Self, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from mqlab.study.exhibit import Exhibit, Form, MetricView, ViewKind
from mqlab.study.language import value_types as types

KINDS: Final[tuple[ViewKind, ...]] = get_args(ViewKind)
FORMS: Final[tuple[Form, ...]] = (
    "matrix", "bars", "table", "lines", "series", "diagram", "summary", "settings", "setup",
)  # fmt: skip


def _scenario_title(value: object) -> object:
    if isinstance(value, str) and "{scenario}" not in value:
        raise types.value_error(f"'{value}' names an exhibit for each scenario; put {{scenario}} into it")
    return value


EachTitle = Annotated[types.Text, BeforeValidator(_scenario_title)]


def _one_of(*words: str) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in words:
            raise types.value_error(f"{value!r} is not accepted; write {' or '.join(words)}")
        return value

    return BeforeValidator(check)


Axis = Annotated[Literal["system", "scenario"], _one_of("system", "scenario")]
Each = Annotated[Literal["scenario"], _one_of("scenario")]
OfSystem = Annotated[Literal["system"], _one_of("system")]


class MatrixForm(types.StrictModel):
    matrix: types.Text
    rows: Axis
    columns: Axis
    value: types.MetricName

    @model_validator(mode="after")
    def _two_axes(self) -> Self:
        if self.rows == self.columns:
            raise types.value_error("rows and columns are the same; write system for one and scenario for the other")
        return self

    def exhibit(self) -> Exhibit:
        return Exhibit("matrix", self.matrix, rows=self.rows, columns=self.columns, value=self.value)


class BarsForm(types.StrictModel):
    """A chart for each scenario."""

    bars: EachTitle
    each: Each
    of: OfSystem
    value: types.MetricName

    def exhibit(self) -> Exhibit:
        return Exhibit("bars", self.bars, each=self.each, bars=self.of, value=self.value)


class PointSelection(types.StrictModel):
    """The keys that select points, shared by several forms. Without `of`: all scenarios."""

    of: tuple[types.Name, ...] = ()
    where: dict[types.Identifier, types.Sweep[types.ParameterText]] = Field(default_factory=dict)

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return (name, value) pairs of `where`; a list of values gives several pairs."""
        listed = {key: values if isinstance(values, tuple) else (values,) for key, values in self.where.items()}
        return tuple((key, value) for key, values in listed.items() for value in values)


class GroupedBarsForm(PointSelection):
    """One chart with a group of bars for each combination of `by` and a bar for each system."""

    bars: types.Text
    by: tuple[types.Identifier, ...]
    value: types.MetricName

    def exhibit(self) -> Exhibit:
        return Exhibit("bars", self.bars, value=self.value, of=self.of, where=self.pairs(), by=self.by)


class MetricViewForm(types.StrictModel):
    value: types.MetricName = ""
    ratio: types.MetricName = ""
    faster: types.MetricName = ""
    impact: types.MetricName = ""
    peak: types.MetricName = ""
    head: types.Text = Field(default="", alias="as")
    over: tuple[types.Identifier, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [kind for kind in KINDS if kind in self.model_fields_set]
        if len(kinds) != 1:
            raise types.value_error(f"write one of {', '.join(KINDS)} with its metric")
        if kinds[0] == "peak" and not self.over:
            raise types.value_error("a peak is the maximum over swept parameters; name them, like over: [threads]")
        if self.over and kinds[0] in ("value", "impact"):
            raise types.value_error("over belongs to peak, ratio and faster", key="over")
        return self

    def view(self) -> MetricView:
        kind = next(kind for kind in KINDS if getattr(self, kind))
        return MetricView(kind, getattr(self, kind), self.head, self.over)


class TableForm(PointSelection):
    table: types.Text
    by: tuple[types.Identifier, ...]
    columns: tuple[MetricViewForm, ...]

    def exhibit(self) -> Exhibit:
        views = tuple(column.view() for column in self.columns)
        return Exhibit("table", self.table, of=self.of, where=self.pairs(), by=self.by, views=views)


def _as_view(value: object) -> object:
    return {"value": value} if isinstance(value, str) else value


class LinesForm(PointSelection):
    lines: types.Text
    x: types.Identifier
    by: tuple[types.Identifier, ...] = ()
    values: tuple[Annotated[MetricViewForm, BeforeValidator(_as_view)], ...]

    @model_validator(mode="after")
    def _two_axes(self) -> Self:
        if not 1 <= len(self.values) <= 2:
            raise types.value_error("a chart has one or two values: the second gets an axis of its own", key="values")
        return self

    def exhibit(self) -> Exhibit:
        views = tuple(value.view() for value in self.values)
        return Exhibit("lines", self.lines, of=self.of, where=self.pairs(), by=self.by, x=self.x, views=views)


class SeriesForm(PointSelection):
    series: types.Text

    def exhibit(self) -> Exhibit:
        return Exhibit("series", self.series, of=self.of, where=self.pairs())


class DiagramForm(types.StrictModel):
    diagram: EachTitle
    each: Each

    def exhibit(self) -> Exhibit:
        return Exhibit("diagram", self.diagram, each=self.each)


class SummaryForm(types.StrictModel):
    summary: types.Text

    def exhibit(self) -> Exhibit:
        return Exhibit("summary", self.summary)


class SettingsForm(types.StrictModel):
    settings: types.Text

    def exhibit(self) -> Exhibit:
        return Exhibit("settings", self.settings)


class SetupForm(types.StrictModel):
    setup: types.Text

    def exhibit(self) -> Exhibit:
        return Exhibit("setup", self.setup)


# Bars have two forms: a chart for each scenario, and one chart with groups.
TAGS: Final = (*(f"<{form}>" for form in FORMS), "<grouped>")


def _form(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    if "bars" in value and "by" in value:
        return "<grouped>"
    return next((f"<{form}>" for form in FORMS if form in value), None)


AnyForm = Annotated[
    Annotated[MatrixForm, Tag("<matrix>")]
    | Annotated[BarsForm, Tag("<bars>")]
    | Annotated[GroupedBarsForm, Tag("<grouped>")]
    | Annotated[TableForm, Tag("<table>")]
    | Annotated[LinesForm, Tag("<lines>")]
    | Annotated[SeriesForm, Tag("<series>")]
    | Annotated[DiagramForm, Tag("<diagram>")]
    | Annotated[SummaryForm, Tag("<summary>")]
    | Annotated[SettingsForm, Tag("<settings>")]
    | Annotated[SetupForm, Tag("<setup>")],
    Discriminator(
        _form,
        custom_error_type="study_value",
        custom_error_message=f"is not an exhibit; write one of {', '.join(FORMS)} with its title",
    ),
]
