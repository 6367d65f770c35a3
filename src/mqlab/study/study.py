"""A study as a value: what the other packages see once the files are read and checked."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlab.study.error import StudyError
from mqlab.study.exhibit import Claim, Exhibit
from mqlab.study.expand import expand, merge
from mqlab.study.point import Point
from mqlab.study.published import PublishedValue

# By group, as in the study file; see expand.py for how layers of them are laid over each other.
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Where a published study comes from. `conditions` are its machines, network, disk and software, in words."""

    title: str
    authors: tuple[str, ...]
    where: str
    conditions: dict[str, str]


@dataclass(frozen=True)
class Setting:
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


@dataclass(frozen=True)
class Study:
    id: str
    title: str
    source: Source | None
    systems_published: tuple[str, ...]
    settings: dict[str, tuple[Setting, ...]]  # of each published system
    scenarios: dict[str, Scenario]
    scales: dict[str, Parameters]
    exhibits: tuple[Exhibit, ...]
    claims: tuple[Claim, ...]
    published: tuple[PublishedValue, ...]
    folder: Path
    files: tuple[Path, ...]  # what was read, the study file first

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
            for point in expand(scenario.name, merge(scenario.parameters, self.scales[scale]))
        ]

    def published_measures(self) -> dict[tuple[str, str, str], float]:
        """(system, scenario, metric) -> value, of what was printed for one system and counts what a metric counts.

        Where a study printed several values for these three (a sweep), none of them stands for the scenario.
        """
        found: dict[tuple[str, str, str], set[float]] = {}
        for value in self.published:
            if value.measure is None or value.value is None:
                continue
            if value.system in self.systems_published and value.scenario in self.scenarios:
                found.setdefault((value.system, value.scenario, value.measure), set()).add(value.value)
        return {key: values.pop() for key, values in found.items() if len(values) == 1}

    def copy(self, folder: Path) -> None:
        """Puts the declaration into `folder`, where `load_study(folder)` finds it again."""
        study_file, *others = self.files
        shutil.copyfile(study_file, folder / "study.yaml")
        for file in others:
            shutil.copyfile(file, folder / file.name)
