"""The study that other packages use, after its files are read and checked."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mqlab.study.capacity.goal import LatencyGoal
from mqlab.study.capacity.points import check_searchable
from mqlab.study.errors import StudyError
from mqlab.study.exhibit import Exhibit
from mqlab.study.expansion import expand, merge
from mqlab.study.language.gate import Gate
from mqlab.study.language.model import Claim, PublishedProse, PublishedSetting, StudySource
from mqlab.study.language.value_types import Parameters
from mqlab.study.point import Point
from mqlab.study.published import PublishedMatcher, PublishedValue


@dataclass(frozen=True)
class Scenario:
    """`parameters` merge the defaults of the lab, the study and the scenario; a tuple is a sweep."""

    name: str
    title: str
    parameters: Parameters  # by group, as in the study file
    base: dict[str, str]  # swept values of the base point; {}: points are not compared
    published: tuple[str, ...]  # the names of the scenario in published.csv
    find: LatencyGoal | None = None  # the runner searches for the highest rate within this goal

    def points(self, scale: Parameters) -> list[Point]:
        """Return the points at that scale. Raises ValueError if the parameters are inconsistent."""
        common = {key: value for key, value in scale.items() if key not in ("scenarios", "budget")}
        own = scale.get("scenarios", {}).get(self.name, {})
        points = expand(self.name, merge(self.parameters, common, own), self.base)
        if self.find is not None:
            if any(point.switch for point in points):
                raise ValueError("switch does not go with find; leave one of them out")
            check_searchable(points, self.find)
        return points


@dataclass(frozen=True)
class Study:
    id: str
    title: str
    source: StudySource | None
    systems_published: tuple[str, ...]
    stand_ins: dict[str, str]  # published system -> the system to run instead, unless the user names one
    successors: dict[str, tuple[str, ...]]  # published system -> its later versions, the nearest first
    settings: dict[str, tuple[PublishedSetting, ...]]  # by published system
    scenarios: dict[str, Scenario]
    scales: dict[str, Parameters]
    exhibits: tuple[Exhibit, ...]
    claims: tuple[Claim, ...]
    goals: tuple[Gate, ...]
    published: tuple[PublishedValue, ...]
    prose: tuple[PublishedProse, ...]
    folder: Path
    files: tuple[Path, ...]  # the study file first
    own: bool = False  # the user wrote the settings: they may name any path
    # The line of each (setting, value), and of each ("stand_ins", published system).
    setting_lines: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def points(self, scale: str, only: Sequence[str] = ()) -> list[Point]:
        """Return the points at that scale, in the order of the file; `only` names scenarios, () means all."""
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

    def budget(self, scale: str) -> float | None:
        """Return the seconds for all runs at that scale; None: as many as the repetition rules need."""
        seconds = self.scales[scale].get("budget")
        return None if seconds is None else float(seconds)

    def error(self, message: str, key: str, value: str) -> StudyError:
        """Return an error with the line of a setting and its value, or of ("stand_ins", published system)."""
        return StudyError(message, self.files[0], self.setting_lines.get((key, value)))

    @cached_property
    def _matcher(self) -> PublishedMatcher:
        names = {scenario.name: scenario.published for scenario in self.scenarios.values()}
        return PublishedMatcher(self.published, self.systems_published, names)

    def find_published(
        self, system: str, point: Point, metric: str, over: Sequence[str] = (), table: str = ""
    ) -> PublishedValue | None:
        """Return the published value of that system at that point, in the lab's units, or None.

        `metric` is one of METRICS, or `impact` (percent against the base), `ratio` and `faster` (percent; `system` is
        then "FIRST / SECOND"), or `at` (the place of a peak). With `over`: the peak over these parameters. If several
        values match, the result is the one of the published table `table`, otherwise the first.
        """
        return self._matcher.find(system, point, metric, over, table)

    def published_value(
        self, system: str, point: Point, metric: str, over: Sequence[str] = (), table: str = ""
    ) -> float | None:
        """Return the number of `find_published`."""
        published = self.find_published(system, point, metric, over, table)
        return None if published is None else published.value

    def copy(self, folder: Path) -> None:
        """Copy the files of the study to `folder`, so that `load_study(folder)` reads it again."""
        for file, copy in self.copies(folder):
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)

    def copies(self, folder: Path) -> list[tuple[Path, Path]]:
        """Each file of the study, and the place of its copy in `folder`."""
        study_file, *others = self.files
        named = [(file, folder / file.relative_to(study_file.parent)) for file in others]
        return [(study_file, folder / "study.yaml"), *named]
