"""Where each published value of a study is reproduced: at which point and in which exhibit, or by which claim."""

from collections.abc import Iterator
from dataclasses import dataclass

from mqlab.study.language.parameters import FULL
from mqlab.study.point import Point
from mqlab.study.published.match import PublishedEntry, reproduces, subject_of
from mqlab.study.published.values import PublishedValue
from mqlab.study.study import Study


@dataclass(frozen=True)
class Coverage:
    """Either a metric of a scenario (and the exhibits that show it under the printed title), a claim, or a reason."""

    value: PublishedValue
    scenario: str = ""
    metric: str = ""
    exhibits: tuple[str, ...] = ()
    claim: str = ""
    reason: str = ""


def coverage_of(study: Study) -> Iterator[Coverage | PublishedValue]:
    """Of every published value, in the order of the file; the value itself where it is tied to nothing."""
    points = {name: study.points(FULL, [name]) for name in study.scenarios}
    for value in study.published:
        yield _measured(study, value, points) or _in_prose(study, value) or value


def _measured(study: Study, value: PublishedValue, points: dict[str, list[Point]]) -> Coverage | None:
    meaning = value.meaning
    if meaning is None or not subject_of(value, study.systems_published):
        return None
    entry = PublishedEntry(value)
    for scenario in study.scenarios.values():
        inside = points[scenario.name] if value.scenario in scenario.published else []
        if any(entry.matches(point, meaning[0], value.over) for point in inside):
            shown = tuple(each.title for each in study.exhibits if reproduces(each.title, value.table))
            return Coverage(value, scenario.name, meaning[0], shown)
    return None


def _in_prose(study: Study, value: PublishedValue) -> Coverage | None:
    found = next((prose for prose in study.prose if prose.covers(value)), None)
    return None if found is None else Coverage(value, claim=found.claim, reason=found.reason)
