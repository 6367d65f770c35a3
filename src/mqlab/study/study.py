"""A study as a value: what the other packages see once the files are read and checked."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mqlab.study.errors import StudyError
from mqlab.study.exhibit import Claim, Exhibit
from mqlab.study.expansion import expand, merge
from mqlab.study.point import Point
from mqlab.study.published.match import PublishedMatcher
from mqlab.study.published.values import PublishedValue

# By group, as in the study file; see expand.py for how layers of them are laid over each other.
Parameters = dict[str, Any]


@dataclass(frozen=True)
class StudySource:
    """Where a published study comes from. `conditions` are its machines, network, disk and software, in words."""

    title: str
    authors: tuple[str, ...]
    where: str
    conditions: dict[str, str]


@dataclass(frozen=True)
class PublishedSetting:
    """A setting a published system was given, and the effect the study states for it."""

    name: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class Scenario:
    """`parameters` are the lab's defaults, the study's and the scenario's own, merged; a tuple is a sweep."""

    name: str
    title: str
    parameters: Parameters
    base: dict[str, str]  # the swept values that the other points are compared with; {}: nothing is compared
    published: tuple[str, ...]  # its names among the published values

    def points(self, scale: Parameters) -> list[Point]:
        """Its points with a scale laid over it. Raises ValueError where the parameters do not fit together."""
        common = {key: value for key, value in scale.items() if key != "scenarios"}
        own = scale.get("scenarios", {}).get(self.name, {})
        return expand(self.name, merge(self.parameters, common, own), self.base)


@dataclass(frozen=True)
class PublishedProse:
    """Published values of a table, system or metric that a claim judges, or that nothing judges, with the reason."""

    table: str
    system: str  # "": all
    metric: str  # "": all
    claim: str
    reason: str

    def covers(self, value: PublishedValue) -> bool:
        return value.table == self.table and self.system in ("", value.system) and self.metric in ("", value.metric)


@dataclass(frozen=True)
class Study:
    id: str
    title: str
    source: StudySource | None
    systems_published: tuple[str, ...]
    stand_ins: dict[str, str]  # published system -> the system that runs in its place when the user names none
    settings: dict[str, tuple[PublishedSetting, ...]]  # of each published system
    scenarios: dict[str, Scenario]
    scales: dict[str, Parameters]
    exhibits: tuple[Exhibit, ...]
    claims: tuple[Claim, ...]
    published: tuple[PublishedValue, ...]
    prose: tuple[PublishedProse, ...]
    folder: Path
    files: tuple[Path, ...]  # what was read, the study file first
    own: bool = False  # its settings are the user's own words: they may name any path
    # The line of each (setting, value), and of each ("stand_ins", published system).
    setting_lines: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def points(self, scale: str, only: Sequence[str] = ()) -> list[Point]:
        """The points in the order of the file, at that scale; `only` names the scenarios that are wanted."""
        if scale not in self.scales:
            raise StudyError(f"{self.id} has no scale '{scale}'; accepted: {', '.join(self.scales)}")
        for name in only:
            if name not in self.scenarios:
                raise StudyError(f"{self.id} has no scenario '{name}'; accepted: {', '.join(self.scenarios)}")
        return [
            point
            for scenario in self.scenarios.values()
            if not only or scenario.name in only
            for point in scenario.points(self.scales[scale])
        ]

    def error(self, message: str, key: str, value: str) -> StudyError:
        """An error about a setting and its value, or about ("stand_ins", published system)."""
        return StudyError(message, self.files[0], self.setting_lines.get((key, value)))

    @cached_property
    def _matcher(self) -> PublishedMatcher:
        names = {scenario.name: scenario.published for scenario in self.scenarios.values()}
        return PublishedMatcher(self.published, self.systems_published, names)

    def find_published(
        self, system: str, point: Point, metric: str, over: Sequence[str] = (), table: str = ""
    ) -> PublishedValue | None:
        """What the study printed for that system at that point, in the lab's units; None where it printed nothing.

        `metric` is one of METRICS, or `impact` (percent against the base), `ratio` and `faster` (percent; `system` is
        then "FIRST / SECOND"), or `at` (where a peak is). With `over`: of the peak over these parameters. Of several
        values the one in the table that begins like `table`, otherwise the one printed first.
        """
        return self._matcher.find(system, point, metric, over, table)

    def published_value(
        self, system: str, point: Point, metric: str, over: Sequence[str] = (), table: str = ""
    ) -> float | None:
        """The number of `find_published`."""
        found = self.find_published(system, point, metric, over, table)
        return None if found is None else found.value

    def published_measures(self) -> dict[tuple[str, str, str], float]:
        """(system, scenario, metric) -> value, of what was printed for one system and counts what a metric counts.

        Where a study printed several values for these three (a sweep), none of them stands for the scenario.
        """
        found: dict[tuple[str, str, str], set[float]] = {}
        for value in self.published:
            number = value.in_lab_units().value
            if value.measure is None or number is None or value.over:
                continue
            if value.system in self.systems_published and value.scenario in self.scenarios:
                found.setdefault((value.system, value.scenario, value.measure), set()).add(number)
        return {key: values.pop() for key, values in found.items() if len(values) == 1}

    def copy(self, folder: Path) -> None:
        """Puts the declaration into `folder`, where `load_study(folder)` finds it again."""
        study_file, *others = self.files
        shutil.copyfile(study_file, folder / "study.yaml")
        for file in others:
            shutil.copyfile(file, folder / file.name)
