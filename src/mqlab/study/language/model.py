"""The keys of a study file and of a claims file. docs/studies.md explains them.

The lab, the study, a scenario and a scale each have a `Layer` of parameters. A key that a file leaves out stays unset,
so that layers can be merged.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Self

from pydantic import Field, Tag, model_validator

from mqlab.study.exhibit import Claim
from mqlab.study.language.exhibit_form import AnyForm
from mqlab.study.language.value_types import (
    LIST,
    SINGLE,
    Acknowledge,
    Batch,
    ClientCpu,
    Connections,
    Count,
    CountOrZero,
    FileName,
    Id,
    Identifier,
    Load,
    MeasureTime,
    Messages,
    Name,
    ParameterText,
    Pattern,
    Prefetch,
    Preload,
    Rate,
    Runs,
    Selector,
    Send,
    SingleOrList,
    Size,
    StrictModel,
    Sweep,
    Text,
    Time,
    Topology,
    Transaction,
    Until,
    YesNo,
    value_error,
)

# The value of a key that the file leaves out. It is never read: `declared` returns only the other keys.
UNSET: Final[Any] = None


class MessageLayer(StrictModel):
    size: Sweep[Size] = UNSET
    persistent: Sweep[YesNo] = UNSET


class SessionLayer(StrictModel):
    acknowledge: Sweep[Acknowledge] = UNSET
    transaction: Sweep[Transaction] = UNSET


class PhasesLayer(StrictModel):
    warmup: Sweep[Time] = UNSET
    measure: Sweep[MeasureTime] = UNSET
    drain: Sweep[Time] = UNSET


class RepeatLayer(StrictModel):
    """Not part of a sweep: it sets the number of runs of a point, not the point."""

    until: Until = UNSET
    least: Runs = UNSET
    most: Runs = UNSET


class Layer(StrictModel):
    pattern: Sweep[Pattern] = UNSET
    topics: Sweep[Count] = UNSET
    queues: Sweep[Count] = UNSET
    producers: Sweep[Count] = UNSET
    consumers: Sweep[CountOrZero] = UNSET
    requesters: Sweep[Count] = UNSET
    responders: Sweep[Count] = UNSET
    clients: Sweep[Count] = UNSET
    threads: Sweep[Count] = UNSET
    message: MessageLayer = UNSET
    session: SessionLayer = UNSET
    selector: Sweep[Selector] = UNSET
    durable: Sweep[YesNo] = UNSET
    prefetch: Sweep[Prefetch] = UNSET
    load: Sweep[Load] = UNSET
    messages: Sweep[Messages] = UNSET
    preload: Sweep[Preload] = UNSET
    send: Sweep[Send] = UNSET
    batch: Sweep[Batch] = UNSET
    rate: Sweep[Rate] = UNSET
    consume_rate: Sweep[Rate] = UNSET
    connections: Sweep[Connections] = UNSET
    topology: Sweep[Topology] = UNSET
    settings: dict[Identifier, Sweep[ParameterText]] = UNSET
    client_cpu: Sweep[ClientCpu] = UNSET
    phases: PhasesLayer = UNSET
    repeat: RepeatLayer = UNSET
    together: tuple[tuple[Identifier, ...], ...] = UNSET

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if {"topics", "queues"} <= self.model_fields_set:
            raise value_error("has topics and queues; write only one of them")
        if "requesters" in self.model_fields_set and {"clients", "threads"} & self.model_fields_set:
            raise value_error("has requesters and clients or threads; clients x threads are the requesters")
        if "messages" in self.model_fields_set and self.phases is not UNSET:
            for key in sorted({"warmup", "measure"} & self.phases.model_fields_set):
                raise value_error(
                    f"a fixed amount of work (messages) has no {key} phase; leave one of them out", key=("phases", key)
                )
        for path, values in _lists(self.declared()):
            if len(set(values)) < len(values) and not any(path[-1] in words for words in self.together or ()):
                raise value_error("contains a value twice; two points would be the same", key=path)
        return self


def _lists(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _lists(value, (*path, key))
        elif isinstance(value, tuple) and key != "together":
            yield (*path, key), value


class ScenarioLayer(Layer):
    title: Text = ""
    base: dict[Identifier, ParameterText] = Field(default_factory=dict)
    published: Sweep[Name] = ()


class ScaleLayer(Layer):
    """Parameters that shorten every scenario, and further ones for single scenarios."""

    scenarios: dict[Name, Layer] = Field(default_factory=dict)


class ScalesForm(StrictModel):
    quick: ScaleLayer = UNSET
    standard: ScaleLayer = UNSET

    @model_validator(mode="before")
    @classmethod
    def _full_is_the_study(cls, data: object) -> object:
        if isinstance(data, dict) and "full" in data:
            raise value_error("full is the study's own length; write it under defaults", key="full")
        return data


class SettingForm(StrictModel):
    setting: Text
    value: Text
    effect: Text = "none stated"


class SourceForm(StrictModel):
    title: Text
    authors: tuple[Text, ...] = ()
    where: Text
    conditions: dict[Name, Text] = Field(default_factory=dict)


class ClaimForm(StrictModel):
    id: Id
    says: Text
    source: Text
    check: Text | None = None
    not_testable: Text | None = None
    note: Text | None = None

    @model_validator(mode="after")
    def _check_or_reason(self) -> Self:
        if (self.check is None) == (self.not_testable is None):
            raise value_error("write either check (an expression) or not_testable (the reason)")
        return self

    def claim(self) -> Claim:
        return Claim(self.id, self.says, self.source, self.check, self.not_testable, self.note)


class ProseForm(StrictModel):
    """Published values that no table of measures shows: the claim that judges them, or the reason why none does."""

    table: Text
    system: Text = ""
    metric: Text = ""
    claim: Id = ""
    reason: Text = ""

    @model_validator(mode="after")
    def _claim_or_reason(self) -> Self:
        if bool(self.claim) == bool(self.reason):
            raise value_error("write either claim (the id of a claim) or reason")
        return self


class StudyForm(StrictModel):
    study: Id
    title: Text
    source: SourceForm | None = None
    systems: dict[Name, list[SettingForm]] = Field(default_factory=dict)
    stand_ins: dict[Name, Text] = Field(default_factory=dict)
    published: FileName | None = None
    prose: tuple[ProseForm, ...] = ()
    defaults: Layer = Layer()
    scenarios: dict[Name, ScenarioLayer]
    scales: ScalesForm = ScalesForm()
    exhibits: list[AnyForm] | None = None
    claims: Annotated[Annotated[FileName, Tag(SINGLE)] | Annotated[tuple[ClaimForm, ...], Tag(LIST)], SingleOrList] = ()
