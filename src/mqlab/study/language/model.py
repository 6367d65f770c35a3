"""The keys of a study file and of a claims file. docs/studies.md explains them.

The lab, the study, a scenario and a scale each have a `Layer` of parameters. A key that a file leaves out stays unset,
so that layers can be merged.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Self

from pydantic import Field, Tag, model_validator

from mqlab.study.language import value_types as types
from mqlab.study.language.exhibit_form import AnyForm
from mqlab.study.published import PublishedValue

# The value of a key that the file leaves out. It is never read: `declared` returns only the other keys. Any: pydantic
# takes the type of a key from its annotation, and this default must fit all of them.
UNSET: Final[Any] = None


class MessageLayer(types.StrictModel):
    size: types.Sweep[types.Size] = UNSET
    body: types.Sweep[types.Body] = UNSET
    properties: dict[types.Identifier, types.PropertyText] = UNSET
    priority: types.Sweep[types.Priority] = UNSET
    expires: types.Sweep[types.Expiry] = UNSET
    key: types.Sweep[types.Key] = UNSET
    seed: types.Sweep[types.Seed] = UNSET
    persistent: types.Sweep[types.YesNo] = UNSET


class SessionLayer(types.StrictModel):
    acknowledge: types.Sweep[types.Acknowledge] = UNSET
    transaction: types.Sweep[types.Transaction] = UNSET


class PhasesLayer(types.StrictModel):
    warmup: types.Sweep[types.Time] = UNSET
    measure: types.Sweep[types.MeasureTime] = UNSET
    drain: types.Sweep[types.Time] = UNSET


class RepeatLayer(types.StrictModel):
    """Not part of a sweep: it sets the number of runs of a point, not the point."""

    until: types.Until = UNSET
    least: types.Runs = UNSET
    most: types.Runs = UNSET


class Layer(types.StrictModel):
    pattern: types.Sweep[types.Pattern] = UNSET
    topics: types.Sweep[types.Count] = UNSET
    queues: types.Sweep[types.Count] = UNSET
    shares: types.Sweep[types.Shares] = UNSET
    producers: types.Sweep[types.Count] = UNSET
    consumers: types.Sweep[types.CountOrZero] = UNSET
    requesters: types.Sweep[types.Count] = UNSET
    responders: types.Sweep[types.Count] = UNSET
    clients: types.Sweep[types.Count] = UNSET
    threads: types.Sweep[types.Count] = UNSET
    message: MessageLayer = UNSET
    session: SessionLayer = UNSET
    selector: types.Sweep[types.Selector] = UNSET
    durable: types.Sweep[types.YesNo] = UNSET
    prefetch: types.Sweep[types.Prefetch] = UNSET
    load: types.Sweep[types.Load] = UNSET
    messages: types.Sweep[types.Messages] = UNSET
    preload: types.Sweep[types.Preload] = UNSET
    send: types.Sweep[types.Send] = UNSET
    batch: types.Sweep[types.Batch] = UNSET
    rate: types.Sweep[types.Rate] = UNSET
    think: types.Sweep[types.ThinkTime] = UNSET
    consume_rate: types.Sweep[types.ConsumeRate] = UNSET
    connections: types.Sweep[types.Connections] = UNSET
    topology: types.Sweep[types.Topology] = UNSET
    settings: dict[types.Identifier, types.Sweep[types.ParameterText]] = UNSET
    faults: types.Sweep[types.Faults] = UNSET
    client_cpu: types.Sweep[types.ClientCpu] = UNSET
    switch: types.SwitchTime = UNSET
    phases: PhasesLayer = UNSET
    repeat: RepeatLayer = UNSET
    together: tuple[tuple[types.Identifier, ...], ...] = UNSET

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if {"topics", "queues"} <= self.model_fields_set:
            raise types.value_error("has topics and queues; write only one of them")
        if "requesters" in self.model_fields_set and {"clients", "threads"} & self.model_fields_set:
            raise types.value_error("has requesters and clients or threads; clients x threads are the requesters")
        if "messages" in self.model_fields_set and self.messages is not None and self.phases is not UNSET:
            for key in sorted({"warmup", "measure"} & self.phases.model_fields_set):
                raise types.value_error(
                    f"a fixed amount of work (messages) has no {key} phase; leave one of them out", key=("phases", key)
                )
        for path, values in _lists(self.declared()):
            if len(set(values)) < len(values) and not any(path[-1] in words for words in self.together or ()):
                raise types.value_error("contains a value twice; two points would be the same", key=path)
        return self


def _lists(layer: types.Parameters, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], tuple[object, ...]]]:
    for key, value in layer.items():
        if isinstance(value, dict):
            yield from _lists(value, (*path, key))
        elif isinstance(value, tuple) and key != "together":
            yield (*path, key), value


class ScenarioLayer(Layer):
    title: types.Text = ""
    base: dict[types.Identifier, types.ParameterText] = Field(default_factory=dict)
    published: types.Sweep[types.Name] = ()
    find: types.Find | None = None


class ScaleLayer(Layer):
    """Parameters that shorten every scenario, and further ones for single scenarios.

    `budget`: the time for all runs, spent on the points that can still change a verdict.
    """

    budget: types.MeasureTime = UNSET
    scenarios: dict[types.Name, Layer] = Field(default_factory=dict)


class ScalesForm(types.StrictModel):
    quick: ScaleLayer = UNSET
    standard: ScaleLayer = UNSET

    @model_validator(mode="before")
    @classmethod
    def _full_is_the_study(cls, data: object) -> object:
        if isinstance(data, dict) and "full" in data:
            raise types.value_error("full is the study's own length; write it under defaults", key="full")
        return data


class PublishedSetting(types.StrictModel):
    """A setting of a published system, and the effect that the study states for it."""

    setting: types.Text
    value: types.Text
    effect: types.Text = "none stated"


class StudySource(types.StrictModel):
    """The publication. `conditions` describe its machines, network, disk and software."""

    title: types.Text
    authors: tuple[types.Text, ...] = ()
    where: types.Text
    conditions: dict[types.Name, types.Text] = Field(default_factory=dict)


class Claim(types.StrictModel):
    """A statement of a study, with either a `check` (see expression.py) or the reason why it is not testable.

    `imposed_by`: settings and parameters that bring about the effect. A stand-in that was given one of them proves
    nothing. `cause`: what brings it about in the study and has no counterpart in the lab: only the products that the
    check names, or their successors, can prove it.
    """

    id: types.Id
    says: types.Text
    source: types.Text
    check: types.Text | None = None
    not_testable: types.Text | None = None
    imposed_by: tuple[types.Text, ...] = ()
    cause: types.Text | None = None
    note: types.Text | None = None

    @model_validator(mode="after")
    def _check_or_reason(self) -> Self:
        if (self.check is None) == (self.not_testable is None):
            raise types.value_error("write either check (an expression) or not_testable (the reason)")
        return self


class PublishedProse(types.StrictModel):
    """Published values that no table of measures shows: the claim that judges them, or the reason why none does.

    Without `system` or `metric`: those of all systems or metrics of the published table.
    """

    table: types.Text
    system: types.Text = ""
    metric: types.Text = ""
    claim: types.Id = ""
    reason: types.Text = ""

    @model_validator(mode="after")
    def _claim_or_reason(self) -> Self:
        if bool(self.claim) == bool(self.reason):
            raise types.value_error("write either claim (the id of a claim) or reason")
        return self

    def covers(self, value: PublishedValue) -> bool:
        return value.table == self.table and self.system in ("", value.system) and self.metric in ("", value.metric)


class StudyForm(types.StrictModel):
    study: types.Id
    title: types.Text
    source: StudySource | None = None
    systems: dict[types.Name, tuple[PublishedSetting, ...]] = Field(default_factory=dict)
    stand_ins: dict[types.Name, types.Text] = Field(default_factory=dict)
    successors: dict[types.Name, tuple[types.Text, ...]] = Field(default_factory=dict)
    published: types.FileName | None = None
    prose: tuple[PublishedProse, ...] = ()
    defaults: Layer = Layer()
    scenarios: dict[types.Name, ScenarioLayer]
    scales: ScalesForm = ScalesForm()
    exhibits: list[AnyForm] | None = None
    claims: Annotated[
        Annotated[types.FileName, Tag(types.SINGLE)] | Annotated[tuple[Claim, ...], Tag(types.LIST)], types.SingleOrList
    ] = ()
    goals: tuple[types.Text, ...] = ()
