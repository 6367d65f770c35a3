"""The keys of a study file and of a claims file. docs/studies.md says what each is for.

A `Layer` is what the lab, the study, a scenario and a scale each say about the parameters; a key that is not written
stays unset, so that layers can be laid over each other.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from mqlab.study.exhibit import Claim, Exhibit, Form
from mqlab.study.written import (
    MANY,
    ONE,
    Acknowledge,
    Batch,
    Connections,
    Count,
    FileName,
    Id,
    MeasureTime,
    MetricName,
    Name,
    OneOrMany,
    Rate,
    Runs,
    Send,
    Size,
    Strict,
    Sweep,
    Text,
    Time,
    Transaction,
    Until,
    YesNo,
    wrong,
)

# Says that a key was not written. It is never read: only keys that were written leave a layer.
UNSET: Final[Any] = None


class MessageLayer(Strict):
    size: Sweep[Size] = UNSET
    persistent: Sweep[YesNo] = UNSET


class SessionLayer(Strict):
    acknowledge: Sweep[Acknowledge] = UNSET
    transaction: Sweep[Transaction] = UNSET


class PhasesLayer(Strict):
    warmup: Sweep[Time] = UNSET
    measure: Sweep[MeasureTime] = UNSET
    drain: Sweep[Time] = UNSET


class RepeatLayer(Strict):
    """Not part of a sweep: it says how well each point must be known, not what the point is."""

    until: Until = UNSET
    least: Runs = UNSET
    most: Runs = UNSET


class Layer(Strict):
    topics: Sweep[Count] = UNSET
    queues: Sweep[Count] = UNSET
    producers: Sweep[Count] = UNSET
    consumers: Sweep[Count] = UNSET
    message: MessageLayer = UNSET
    session: SessionLayer = UNSET
    send: Sweep[Send] = UNSET
    batch: Sweep[Batch] = UNSET
    rate: Sweep[Rate] = UNSET
    connections: Sweep[Connections] = UNSET
    phases: PhasesLayer = UNSET
    repeat: RepeatLayer = UNSET

    @model_validator(mode="after")
    def _one_domain(self) -> Self:
        if {"topics", "queues"} <= self.model_fields_set:
            raise wrong("has topics and queues; write one of them")
        return self


class ScenarioLayer(Layer):
    title: Text = ""


class ScalesForm(Strict):
    quick: Layer = UNSET
    standard: Layer = UNSET

    @model_validator(mode="before")
    @classmethod
    def _full_is_the_study(cls, data: object) -> object:
        if isinstance(data, dict) and "full" in data:
            raise wrong("full is the study's own length; write it under defaults", key="full")
        return data


class SettingForm(Strict):
    setting: Text
    value: Text
    effect: Text = "none stated"


class SourceForm(Strict):
    title: Text
    authors: tuple[Text, ...] = ()
    where: Text
    conditions: dict[Name, Text] = Field(default_factory=dict)


def _scenario_title(value: object) -> object:
    if isinstance(value, str) and "{scenario}" not in value:
        raise wrong(f"'{value}' names one exhibit for every scenario; put {{scenario}} into it")
    return value


EachTitle = Annotated[Text, BeforeValidator(_scenario_title)]


def _one_of(*words: str) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in words:
            raise wrong(f"{value!r} is not accepted; write {' or '.join(words)}")
        return value

    return BeforeValidator(check)


Axis = Annotated[Literal["system", "scenario"], _one_of("system", "scenario")]
Each = Annotated[Literal["scenario"], _one_of("scenario")]
Of = Annotated[Literal["system"], _one_of("system")]


class MatrixForm(Strict):
    matrix: Text
    rows: Axis
    columns: Axis
    value: MetricName

    @model_validator(mode="after")
    def _two_axes(self) -> Self:
        if self.rows == self.columns:
            raise wrong("rows and columns are the same; write system for one and scenario for the other")
        return self

    def exhibit(self) -> Exhibit:
        return Exhibit("matrix", self.matrix, rows=self.rows, columns=self.columns, value=self.value)


class BarsForm(Strict):
    bars: EachTitle
    each: Each
    of: Of
    value: MetricName

    def exhibit(self) -> Exhibit:
        return Exhibit("bars", self.bars, each=self.each, bars=self.of, value=self.value)


class DiagramForm(Strict):
    diagram: EachTitle
    each: Each

    def exhibit(self) -> Exhibit:
        return Exhibit("diagram", self.diagram, each=self.each)


class SummaryForm(Strict):
    summary: Text

    def exhibit(self) -> Exhibit:
        return Exhibit("summary", self.summary)


class SettingsForm(Strict):
    settings: Text

    def exhibit(self) -> Exhibit:
        return Exhibit("settings", self.settings)


class SetupForm(Strict):
    setup: Text

    def exhibit(self) -> Exhibit:
        return Exhibit("setup", self.setup)


FORMS: Final[tuple[Form, ...]] = ("matrix", "bars", "diagram", "summary", "settings", "setup")


def _form(value: object) -> str | None:
    return next((f"<{form}>" for form in FORMS if isinstance(value, dict) and form in value), None)


AnyForm = Annotated[
    Annotated[MatrixForm, Tag("<matrix>")]
    | Annotated[BarsForm, Tag("<bars>")]
    | Annotated[DiagramForm, Tag("<diagram>")]
    | Annotated[SummaryForm, Tag("<summary>")]
    | Annotated[SettingsForm, Tag("<settings>")]
    | Annotated[SetupForm, Tag("<setup>")],
    Discriminator(
        _form,
        custom_error_type="wrong",
        custom_error_message=f"is not an exhibit; write one of {', '.join(FORMS)} with its title",
    ),
]


class ClaimForm(Strict):
    id: Id
    says: Text
    source: Text
    check: Text | None = None
    not_testable: Text | None = None
    note: Text | None = None

    @model_validator(mode="after")
    def _check_or_reason(self) -> Self:
        if (self.check is None) == (self.not_testable is None):
            raise wrong("write either check (an expression) or not_testable (the reason)")
        return self

    def claim(self) -> Claim:
        return Claim(self.id, self.says, self.source, self.check, self.not_testable, self.note)


class StudyForm(Strict):
    study: Id
    title: Text
    source: SourceForm | None = None
    systems: dict[Name, list[SettingForm]] = Field(default_factory=dict)
    published: FileName | None = None
    defaults: Layer = Layer()
    scenarios: dict[Name, ScenarioLayer]
    scales: ScalesForm = ScalesForm()
    exhibits: list[AnyForm] | None = None
    claims: Annotated[Annotated[FileName, Tag(ONE)] | Annotated[tuple[ClaimForm, ...], Tag(MANY)], OneOrMany] = ()
