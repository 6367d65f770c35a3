"""The values of a claim's check: measured here, or published by the study."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from mqlab.errors import MqlabError
from mqlab.pipeline.schema import UNSERVED, ImpactRow, MeasureRow
from mqlab.report.claims.changes import change_without_lab
from mqlab.report.claims.headroom import Headroom, RatioWithoutLab
from mqlab.report.claims.interval import Errors, Interval, Uncertainty
from mqlab.report.data.pairing import is_product, stand_in
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.report.data.travel import ways_of_travel
from mqlab.report.render.formatting import listed, quantity
from mqlab.study import Point
from mqlab.study.language.expression import Expression
from mqlab.study.language.reference import ANY, PointIndex, Reference
from mqlab.study.statistics import t975

Basis = Literal["measured", "published"]
# From the end of one run to the start of the next: drain, records, a new system or agents.
_BETWEEN_RUNS_SECONDS = 1.0
_NO_SLACK = (1.0, 1.0)
# The least change, in percent.
_LEAST_CHANGE = -100.0


class MissingValueError(MqlabError):
    """A value that the check needs is missing; the message tells the reader of the report why."""


@dataclass(frozen=True)
class ClaimValues(ABC):
    """Gives `evaluate` the values of one subject: a system, or all systems."""

    results: RunResults
    subject: str = ""
    basis: ClassVar[Basis]

    def for_subject(self, subject: str) -> Self:
        return type(self)(self.results, subject)

    @abstractmethod
    def systems(self) -> list[str]: ...

    def compared(self) -> list[str]:
        """The systems that a claim over all systems compares."""
        return self.systems()

    @abstractmethod
    def resolve_system(self, name: str) -> str | None:
        """The system that a claim means by a name; None where there is none."""

    def representatives(self, expression: Expression) -> list[str]:  # noqa: ARG002 - a published system stands for itself
        """Which system stands for which one that the check names or compares, and which have none; as sentences."""
        return []

    def names_products(self, expression: Expression) -> bool:  # noqa: ARG002 - a published system is the product
        """Whether the check names systems, and all of them are the products themselves or their successors."""
        return True

    @abstractmethod
    def all_points(self) -> PointIndex: ...

    @abstractmethod
    def value_of(self, system: str, reference: Reference, within: bool = False) -> Interval:
        """Raises MissingValueError with the reason."""

    @abstractmethod
    def change(self, system: str, reference: Reference) -> Interval:
        """Against the base point, in percent. Raises MissingValueError with the reason."""

    @abstractmethod
    def uncertainty(self, system: str, point: Point, metric: str) -> str:
        """Why the interval of a value is open or wide; "" when it is not."""

    def peak(self, reference: Reference) -> Interval | None:  # noqa: ARG002 - only published values have peaks
        """The peak over all points of an open reference, where it was published."""
        return None

    def value(self, reference: Reference, within: bool) -> Interval:
        """The value of the system that is judged; raises MissingValueError.

        `within`: the comparison stays inside one point, so it is about what happened in its runs. A comparison of
        several points is about what the system can do in each.
        """
        return self.value_of(self.system_of(reference), reference, within)

    def impact(self, reference: Reference) -> Interval:
        return self.change(self.system_of(reference), reference)

    def values_by_system(self, reference: Reference) -> Mapping[str, Interval]:
        """The values of all compared systems by name; raises MissingValueError when there are fewer than two."""
        names = self.compared()
        if len(names) < 2:
            available = f"only {names[0]} was" if names else "no system was"
            raise MissingValueError(f"it compares systems, and {available} {self.basis}")
        return {name: self.value_of(name, reference) for name in names}

    def points(self, reference: Reference) -> list[Point]:
        """All points that match an open reference; raises MissingValueError when there are none."""
        points = self.all_points().find(reference)
        if not points:
            raise MissingValueError(self._not_at_scale(reference))
        return points

    def _not_at_scale(self, reference: Reference) -> str:
        """The reason that the point is missing, with the scale that has it."""
        study, scale = self.results.study, self.results.scale
        others = (name for name in study.scales if name != scale and PointIndex(study.points(name)).find(reference))
        asked = next((f": it is asked at the scale {name}" for name in others), "")
        return f"the study has no point {reference.place} at the scale {scale}{asked}"

    def given_settings(self, expression: Expression, names: Iterable[str]) -> list[str]:  # noqa: ARG002 - a published system has none
        """Those of these settings and parameters that the systems and points of a check were given, in words."""
        return []

    def run_seconds(self, references: Iterable[Reference]) -> dict[PointKey, float]:  # noqa: ARG002 - nothing of a study is run
        """How long the runs of each of these points took, and those of the base points of a change."""
        return {}

    def is_bounded(self, references: Iterable[Reference]) -> bool:  # noqa: ARG002 - nothing of a study is run
        """Whether the lab bounds one of these values, so that more runs do not decide what it is."""
        return False

    def uncertainties(self, references: Iterable[Reference]) -> list[str]:
        """Why the check stays undecided, each reason once."""
        used = self.measured_at(references)
        reasons = dict.fromkeys(self.uncertainty(system, point, metric) for system, point, metric in used)
        return [reason for reason in reasons if reason]

    def ways_of_travel(self, references: Iterable[Reference]) -> dict[str, list[str]]:  # noqa: ARG002 - not published
        """How the messages of a check's points travelled, each way with its places."""
        return {}

    def measured_at(self, references: Iterable[Reference]) -> Iterator[tuple[str, Point, str]]:
        """The systems, points and metrics that a check is about."""
        for reference in references:
            for system in self.systems_of(reference):
                for point in self.points(reference):
                    yield system, point, reference.metric

    def systems_of(self, reference: Reference) -> list[str]:
        one_system = reference.system or self.subject in self.systems()
        return [self.system_of(reference)] if one_system else self.compared()

    def system_of(self, reference: Reference) -> str:
        if not reference.system:
            return self.subject
        name = self.resolve_system(reference.system)
        if name is None:
            raise MissingValueError(f"it names {reference.system}, which was not {self.basis}")
        return name

    def point(self, reference: Reference) -> Point:
        points = self.points(reference)
        if len(points) > 1:
            raise MissingValueError(f"{reference.place} stands for {len(points)} points, and not for one")
        return points[0]


def clock_slack(results: RunResults, metric: str, value: float) -> tuple[float, float]:
    """How many times lower and higher a value may be by the error of the agents' clocks."""
    error = results.clock_error_s(metric)
    if not error or value <= 0:
        return _NO_SLACK
    return value / (value - error) if value > error else math.inf, (value + error) / value


class MeasuredValues(ClaimValues):
    basis = "measured"

    def systems(self) -> list[str]:
        return [system.name for system in self.results.systems]

    def compared(self) -> list[str]:
        """The systems that stand for published ones: a claim is about these. Of a run without any, all systems."""
        standing = [self.resolve_system(name) for name in self.results.study.systems_published]
        return list(dict.fromkeys(name for name in standing if name is not None)) or self.systems()

    def resolve_system(self, name: str) -> str | None:
        return stand_in(self.results, name)

    def representatives(self, expression: Expression) -> list[str]:
        named = self.results.study.systems_published if expression.over_systems else sorted(expression.systems())
        versions = {system.name: system.version for system in self.results.systems}
        standing = {name: self.resolve_system(name) for name in named}
        said = [
            f"{system} {versions[system]} stands for {name}"
            for name, system in standing.items()
            if system not in (None, name)
        ]
        absent = [name for name, system in standing.items() if system is None]
        if said and absent:
            said.append(f"{listed(absent)} {'was' if len(absent) == 1 else 'were'} not {self.basis}")
        return said

    def names_products(self, expression: Expression) -> bool:
        named = expression.systems()
        return bool(named) and all(is_product(self.results, name) for name in named)

    def all_points(self) -> PointIndex:
        return self.results.point_index

    def value_of(self, system: str, reference: Reference, within: bool = False) -> Interval:
        point = self.point(reference)
        measure = self._measure(system, point, reference.metric)
        # No metric is negative. One run among few points has no error that is known. Flagged runs say nothing.
        if measure.quiet is False or measure.is_thin or measure.ci95 is None:
            return Interval(measure.value, 0.0, math.inf)
        headroom = self._headroom(system, point, reference.metric, within=within)
        lower, higher = self._slack(measure, headroom)
        low = min(measure.value, max(0.0, measure.value - measure.ci95)) / lower
        source = self.results.rounds.find(system, reference.metric, (point.scenario, point.name))
        errors = _errors(
            source or (system, point.scenario, point.name, reference.metric),
            measure.ci95, measure.degrees_of_freedom, measure.value,
        )  # fmt: skip
        high = math.inf if math.isinf(higher) else (measure.value + measure.ci95) * higher
        return Interval(measure.value, low, high, errors, slack=(lower, higher), headroom=headroom)

    def change(self, system: str, reference: Reference) -> Interval:
        point = self.point(reference)
        impact = self.results.impact(system, point, reference.metric)
        if impact is None:
            why = "it is a base itself" if point.base is None else self.results.absence(system, point)
            raise MissingValueError(f"no impact on {reference.metric} of {point.label}: {why}")
        base = next((p for p in self.results.points_of(point.scenario) if p.name == impact.base), point)
        are_quiet = self._are_quiet(system, (point, base), reference.metric)
        if impact.low is None or impact.high is None or impact.ci95 is None or not are_quiet:
            return Interval(impact.value, min(_LEAST_CHANGE, impact.value), math.inf)
        errors = self._errors_of_change(system, point, impact)
        of_base, of_point = (self._headroom(system, one, reference.metric) for one in (base, point))
        if of_base.is_like(of_point):
            bound = RatioWithoutLab(of_base, of_point)
            return change_without_lab(bound, impact.value, impact.low, impact.high, errors)
        measures = [self.results.measure(system, one, reference.metric) for one in (base, point)]
        (base_lower, base_higher), (lower, higher) = (
            self._slack(measure, headroom) if measure else _NO_SLACK
            for measure, headroom in zip(measures, (of_base, of_point), strict=True)
        )
        low = 100 * ((1 + impact.low / 100) / (base_higher * lower) - 1)
        high = 100 * ((1 + impact.high / 100) * (higher * base_lower) - 1)
        is_bound = max(base_lower, base_higher, lower, higher) > 1
        return Interval(impact.value, min(low, impact.value), max(high, impact.value), None if is_bound else errors)

    def _errors_of_change(self, system: str, point: Point, impact: ImpactRow) -> Errors:
        """Those of the point and of its base: a common base cancels in the difference of two changes."""
        source = ("impact", system, point.scenario, point.name, impact.metric)
        errors = _errors(source, impact.ci95 or 0.0, impact.degrees_of_freedom, impact.value)
        names = (point.name, impact.base)
        runs = self.results.rounds.find_pair(system, impact.metric, *((point.scenario, name) for name in names))
        if not errors or runs is None:
            return errors
        percent = 100 + impact.value
        return {one: errors[source]._replace(weight=sign * percent) for one, sign in zip(runs, (1, -1), strict=True)}

    def uncertainty(self, system: str, point: Point, metric: str) -> str:
        measure = self._measure(system, point, metric)
        place = f"{point.scenario} {point.name}".strip()
        if measure.quiet is False:
            return f"all runs of {place} are flagged, the first: {self.results.why_flagged(system, point)}"
        if measure.is_thin:
            return f"{metric} of {place} has too few independent observations beyond it"
        if measure.ci95 is None:
            return f"{place} has one valid run and so no interval"
        if measure.bound_by == UNSERVED:
            return f"{place} has a run in which the system never served again: its {metric} is a lower bound"
        if measure.lower_bound:
            return f"{place} was bound by the lab and is a lower bound"
        if error := self.results.clock_error_s(metric):
            return f"{metric} of {place} is known to {quantity(error, measure.unit)} by the clocks of its agents"
        return f"{place} has one valid run, and the error of the other points" if measure.runs == 1 else ""

    def _are_quiet(self, system: str, points: Iterable[Point], metric: str) -> bool:
        measures = [self.results.measure(system, point, metric) for point in points]
        return not any(measure is not None and (measure.quiet is False or measure.is_thin) for measure in measures)

    def _slack(self, measure: MeasureRow, headroom: Headroom) -> tuple[float, float]:
        """How many times lower and higher a figure may be, beyond its random error."""
        lower, higher = clock_slack(self.results, measure.metric, measure.value)
        return lower, headroom.most * higher

    def _headroom(self, system: str, point: Point, metric: str, *, within: bool = False) -> Headroom:
        """`within`: about what happened in the runs, as in `value`. An outage that had no end there has none."""
        measure = self.results.measure(system, point, metric)
        if measure is None or (within and measure.bound_by != UNSERVED):
            return Headroom()
        return Headroom.of(point, measure, self.results.measure(system, point, "cpu.lab"))

    def _measure(self, system: str, point: Point, metric: str) -> MeasureRow:
        measure = self.results.measure(system, point, metric)
        if measure is None:
            why = self.results.absence(system, point, metric=metric)
            raise MissingValueError(f"no {metric} of {point.label}: {why}")
        return measure

    def given_settings(self, expression: Expression, names: Iterable[str]) -> list[str]:
        named = [self.resolve_system(name) for name in expression.systems()]
        systems = [name for name in self.systems() if name in (*named, self.subject)]
        # The label of a system has the settings that were chosen for it: embedded:retrieval=scan.
        chosen = {name: name.partition(":")[2].split(",") for name in systems}
        settings = [
            f"{name} with {setting}"
            for name, settings in chosen.items()
            for setting in settings
            if setting.partition("=")[0] in names
        ]
        points = [point for reference in expression.references() for point in self.points(reference)]
        told = [
            f"{point.scenario} with {name}={point.parameters[name]}"
            for point in points
            for name in names
            if name in point.parameters and getattr(point, name, None)
        ]
        return list(dict.fromkeys(settings + told))

    def ways_of_travel(self, references: Iterable[Reference]) -> dict[str, list[str]]:
        return ways_of_travel(self.results, ((system, point) for system, point, _ in self._with_bases(references)))

    def _with_bases(self, references: Iterable[Reference]) -> list[tuple[str, Point, str]]:
        """Those that a check is about, each once, and their base points."""
        measured = {(system, point.scenario, point.name, metric): (system, point, metric)
                    for system, point, metric in self.measured_at(references)}  # fmt: skip
        for system, point, metric in [*measured.values()]:
            bases = (one for one in self.results.points_of(point.scenario) if one.name == point.base)
            measured |= {(system, one.scenario, one.name, metric): (system, one, metric) for one in bases}
        return [*measured.values()]

    def run_seconds(self, references: Iterable[Reference]) -> dict[PointKey, float]:
        found = {}
        for system, point, metric in self._with_bases(references):
            measure = self.results.measure(system, point, metric)
            if measure is not None:
                found[system, point.scenario, point.name] = measure.runs * self._seconds_of_run(system, point)
        return found

    def _seconds_of_run(self, system: str, point: Point) -> float:
        work = self.results.measure(system, point, point.work)
        if point.messages is None or work is None or not work.value:
            return point.phases.warmup + point.phases.measure + _BETWEEN_RUNS_SECONDS
        copies = point.copies if point.work == "rate.received" else 1
        return point.messages * copies / work.value + _BETWEEN_RUNS_SECONDS

    def is_bounded(self, references: Iterable[Reference]) -> bool:
        measures = (self.results.measure(*place) for place in self._with_bases(references))
        return any(measure is not None and measure.lower_bound for measure in measures)


def _errors(source: Hashable, ci95: float, degrees_of_freedom: int | None, value: float) -> Errors:
    """The random error of a measure, from the half width of its interval."""
    degrees = degrees_of_freedom or 1
    return {source: Uncertainty(ci95 / t975(degrees), degrees, value)} if ci95 else {}


class PublishedValues(ClaimValues):
    basis = "published"

    def systems(self) -> list[str]:
        return list(self.results.study.systems_published)

    def resolve_system(self, name: str) -> str | None:
        return name if name in self.systems() else None

    def all_points(self) -> PointIndex:
        return self.results.declared_index

    def value_of(self, system: str, reference: Reference, within: bool = False) -> Interval:  # noqa: ARG002 - published values are exact
        published = self.results.study.published_value(system, self.point(reference), reference.metric)
        if published is None:
            raise MissingValueError(f"no {reference.metric} of {reference.place} was published for {system}")
        return Interval.exactly(published)

    def change(self, system: str, reference: Reference) -> Interval:
        published = self.results.study.published_value(system, self.point(reference), "impact")
        if published is None:
            raise MissingValueError(f"no impact on {reference.metric} of {reference.place} was published for {system}")
        return Interval.exactly(published)

    def peak(self, reference: Reference) -> Interval | None:
        """A study publishes the peak of a sweep, not each of its points."""
        over = [name for name, value in reference.where if value == ANY]
        system = self.system_of(reference)
        published = self.results.study.published_value(system, self.points(reference)[0], reference.metric, over)
        return None if published is None else Interval.exactly(published)

    def uncertainty(self, system: str, point: Point, metric: str) -> str:  # noqa: ARG002 - published values are exact
        return ""
