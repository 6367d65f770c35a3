"""Where the values of a claim's check come from: what was measured here, or what the study printed."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from mqlab.report.expression import MissingError
from mqlab.report.findings import Findings, Measure
from mqlab.report.interval import Interval
from mqlab.study import Point
from mqlab.study.expression import Reference

Basis = Literal["measured", "published"]


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
    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:
        """Raises MissingError with the reason."""

    @abstractmethod
    def doubt(self, system: str, wanted: Reference) -> str:
        """What leaves the interval of a value open; "" when nothing does."""

    def one(self, wanted: Reference, within: bool) -> Interval:
        return self.value(self.subject, wanted, within)

    def every(self, wanted: Reference) -> Mapping[str, Interval]:
        names = self.systems()
        if len(names) < 2:
            had = f"only {names[0]} was" if names else "no system was"
            raise MissingError(f"it compares systems, and {had} {self.basis}")
        return {name: self.value(name, wanted) for name in names}


class Measured(Source):
    basis = "measured"

    def systems(self) -> list[str]:
        return [system.name for system in self.findings.systems]

    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:
        measure = self._measure(system, wanted)
        # No metric is ever negative. One run tells nothing of the spread, and a figure set by the agents
        # is only the least the system can do: both leave the interval open.
        low = 0.0 if measure.ci95 is None else max(0.0, measure.value - measure.ci95)
        unbounded = measure.ci95 is None or (measure.lower_bound and not within)
        high = math.inf if measure.ci95 is None or unbounded else measure.value + measure.ci95
        return Interval(measure.value, min(low, measure.value), high)

    def doubt(self, system: str, wanted: Reference) -> str:
        measure = self._measure(system, wanted)
        place = f"{wanted.scenario} {wanted.point}".strip()
        if measure.ci95 is None:
            return f"{place} has one valid run and so no interval"
        return f"{place} was bound by the agents and is a lower bound" if measure.lower_bound else ""

    def _measure(self, system: str, wanted: Reference) -> Measure:
        point = self._point(wanted)
        measure = self.findings.measure(system, point, wanted.metric)
        if measure is None:
            raise MissingError(f"no {wanted.metric} of {point.label}: {self.findings.absence(system, point)}")
        return measure

    def _point(self, wanted: Reference) -> Point:
        for point in self.findings.points_of(wanted.scenario):
            if point.name == wanted.point:
                return point
        place = f"{wanted.scenario} {wanted.point}".strip()
        raise MissingError(f"the study has no point {place} at the scale {self.findings.scale}")


class Published(Source):
    basis = "published"

    def systems(self) -> list[str]:
        return list(self.findings.study.systems_published)

    def value(self, system: str, wanted: Reference, within: bool = False) -> Interval:  # noqa: ARG002 - printed: exact
        value = None if wanted.point else self.findings.published.get((system, wanted.scenario, wanted.metric))
        if value is None:
            raise MissingError(f"no {wanted.metric} of {wanted.scenario} was published for {system}")
        return Interval.exactly(value)

    def doubt(self, system: str, wanted: Reference) -> str:  # noqa: ARG002 - a printed value has no interval to be open
        return ""
