"""A measure named in an expression: which metric of which points, of which system."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from mqlab.study.point import Point

ANY: Final = "*"


@dataclass(frozen=True)
class Reference:
    """`rate.received[A, size=1KiB] of "Q 1"`.

    `point` is the name of a point, or "" (in a scenario that sweeps nothing, and where `where` selects). A value of
    `where` may be "*", and `scenario` a pattern ("Q*", "Q1|Q3"): the reference is then open, see `bound`.
    `system` is "" for the system under judgement.
    """

    metric: str
    scenario: str
    point: str = ""
    where: tuple[tuple[str, str], ...] = ()
    system: str = ""

    @property
    def open(self) -> bool:
        """Whether it stands for several points; only inside min, max or mean."""
        return _is_pattern(self.scenario) or any(value == ANY for _, value in self.where)

    @property
    def place(self) -> str:
        """Where it is, for a reader."""
        values = ", ".join(f"{key}={value}" for key, value in self.where)
        return " ".join(part for part in (self.scenario, self.point, values) if part)

    def matches(self, point: Point) -> bool:
        if not in_scenario(self.scenario, point.scenario):
            return False
        if not self.where:
            return point.name == self.point or (_is_pattern(self.scenario) and not self.point)
        return all(key in point.parameters and value in (ANY, point.parameters[key]) for key, value in self.where)

    def bound(self, point: Point) -> "Reference":
        """The same with the values of that point in place of every "*", and its scenario in place of a pattern."""
        where = tuple((key, point.parameters.get(key, value) if value == ANY else value) for key, value in self.where)
        scenario = point.scenario if _is_pattern(self.scenario) else self.scenario
        return replace(self, scenario=scenario, where=where)


def in_scenario(pattern: str, scenario: str) -> bool:
    return pattern == scenario or any(fnmatchcase(scenario, part.strip()) for part in pattern.split("|"))


def _is_pattern(scenario: str) -> bool:
    return any(sign in scenario for sign in "*?|[")
