"""Where the values of a claim's check come from: what was measured here, or what the study printed."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from mqlab.pipeline.schema import MeasureRow
from mqlab.report.claims.evaluation import MissingError
from mqlab.report.claims.interval import Interval
from mqlab.report.data.findings import Findings
from mqlab.report.data.lookup import Lookup
from mqlab.report.data.pairing import in_place_of
from mqlab.study import Point
from mqlab.study.language.reference import ANY, Reference

Basis = Literal["measured", "published"]
# A change in percent: nothing can be more than wholly lost.
_ALL_LOST = -100.0


@dataclass(frozen=True)
class Source(ABC):
    """Answers `expression.evaluate` for one subject: a system, or all of them."""

    findings: Findings
    subject: str = ""
    basis: ClassVar[Basis]

    def about(self, subject: str) -> Self:
        return type(self)(self.findings, subject)

    @abstractmethod
    def systems(self) -> list[str]: ...

    @abstractmethod
    def known_as(self, name: str) -> str | None:
        """The system that a claim means by a name; None where there is none."""

    @abstractmethod
    def all_points(self) -> Lookup: ...

    @abstractmethod
    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:
        """Raises MissingError with the reason."""

    @abstractmethod
    def change(self, system: str, wanted: Reference) -> Interval:
        """Against the base point, in percent. Raises MissingError with the reason."""

    @abstractmethod
    def doubt(self, system: str, point: Point, metric: str) -> str:
        """What leaves the interval of a value open; "" when nothing does."""

    def greatest(self, wanted: Reference) -> Interval | None:  # noqa: ARG002 - only some sources know it at once
        """The greatest over all points of an open reference, where it is known as such."""
        return None

    def one(self, wanted: Reference, within: bool) -> Interval:
        return self.value(self.who(wanted), wanted, within)

    def impact(self, wanted: Reference) -> Interval:
        return self.change(self.who(wanted), wanted)

    def every(self, wanted: Reference) -> Mapping[str, Interval]:
        names = self.systems()
        if len(names) < 2:
            had = f"only {names[0]} was" if names else "no system was"
            raise MissingError(f"it compares systems, and {had} {self.basis}")
        return {name: self.value(name, wanted) for name in names}

    def points(self, wanted: Reference) -> list[Point]:
        """All that an open reference stands for; raises MissingError when there are none."""
        found = self.all_points().find(wanted)
        if not found:
            raise MissingError(f"the study has no point {wanted.place} at the scale {self.findings.scale}")
        return found

    def doubts(self, references: Iterable[Reference]) -> list[str]:
        """Why the check stays open, each reason once."""
        found: dict[str, None] = {}
        for wanted in references:
            named = [self.who(wanted)] if wanted.system or self.subject in self.systems() else self.systems()
            for point in self.points(wanted):
                found.update({said: None for name in named if (said := self.doubt(name, point, wanted.metric))})
        return list(found)

    def who(self, wanted: Reference) -> str:
        if not wanted.system:
            return self.subject
        name = self.known_as(wanted.system)
        if name is None:
            raise MissingError(f"it names {wanted.system}, which was not {self.basis}")
        return name

    def point(self, wanted: Reference) -> Point:
        found = self.points(wanted)
        if len(found) > 1:
            raise MissingError(f"{wanted.place} stands for {len(found)} points, and not for one")
        return found[0]


class Measured(Source):
    basis = "measured"

    def systems(self) -> list[str]:
        return [system.name for system in self.findings.systems]

    def known_as(self, name: str) -> str | None:
        return in_place_of(self.findings, name)

    def all_points(self) -> Lookup:
        return self.findings.lookup

    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:
        measure = self._measure(system, self.point(wanted), wanted.metric)
        # No metric is ever negative. One run tells nothing of the spread, and a figure set by the agents
        # is only the least the system can do: both leave the interval open.
        low = 0.0 if measure.ci95 is None else max(0.0, measure.value - measure.ci95)
        unbounded = measure.ci95 is None or (measure.lower_bound and not within)
        high = math.inf if measure.ci95 is None or unbounded else measure.value + measure.ci95
        return Interval(measure.value, min(low, measure.value), high)

    def change(self, system: str, wanted: Reference) -> Interval:
        point = self.point(wanted)
        found = self.findings.impact(system, point, wanted.metric)
        if found is None:
            why = "it is a base itself" if point.base is None else self.findings.absence(system, point)
            raise MissingError(f"no impact on {wanted.metric} of {point.label}: {why}")
        base = next((p for p in self.findings.points_of(point.scenario) if p.name == found.base), point)
        known = found.low is not None and found.high is not None
        low = found.low if found.low is not None and not self._least(system, base, wanted.metric) else _ALL_LOST
        high = found.high if found.high is not None and not self._least(system, point, wanted.metric) else math.inf
        if not known:
            low, high = _ALL_LOST, math.inf
        return Interval(found.value, min(low, found.value), max(high, found.value))

    def doubt(self, system: str, point: Point, metric: str) -> str:
        measure = self._measure(system, point, metric)
        place = f"{point.scenario} {point.name}".strip()
        if measure.ci95 is None:
            return f"{place} has one valid run and so no interval"
        return f"{place} was bound by the agents and is a lower bound" if measure.lower_bound else ""

    def _least(self, system: str, point: Point, metric: str) -> bool:
        measure = self.findings.measure(system, point, metric)
        return measure is not None and measure.lower_bound

    def _measure(self, system: str, point: Point, metric: str) -> MeasureRow:
        measure = self.findings.measure(system, point, metric)
        if measure is None:
            raise MissingError(f"no {metric} of {point.label}: {self.findings.absence(system, point)}")
        return measure


class Published(Source):
    basis = "published"

    def systems(self) -> list[str]:
        return list(self.findings.study.systems_published)

    def known_as(self, name: str) -> str | None:
        return name if name in self.systems() else None

    def all_points(self) -> Lookup:
        return self.findings.declared_lookup

    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:  # noqa: ARG002 - printed: exact
        found = self.findings.study.published_value(system, self.point(wanted), wanted.metric)
        if found is None:
            raise MissingError(f"no {wanted.metric} of {wanted.place} was published for {system}")
        return Interval.exactly(found)

    def change(self, system: str, wanted: Reference) -> Interval:
        found = self.findings.study.published_value(system, self.point(wanted), "impact")
        if found is None:
            raise MissingError(f"no impact on {wanted.metric} of {wanted.place} was published for {system}")
        return Interval.exactly(found)

    def greatest(self, wanted: Reference) -> Interval | None:
        """A study prints the peak of a sweep, not each of its points."""
        over = [name for name, value in wanted.where if value == ANY]
        system = self.who(wanted)
        found = self.findings.study.published_value(system, self.points(wanted)[0], wanted.metric, over)
        return None if found is None else Interval.exactly(found)

    def doubt(self, system: str, point: Point, metric: str) -> str:  # noqa: ARG002 - printed values are exact
        return ""
