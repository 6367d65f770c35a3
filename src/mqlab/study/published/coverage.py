"""Coverage of published values: the scenario and exhibits, or the claim, that reproduce each of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from mqlab.study.language.parameters import FULL
from mqlab.study.point import Point
from mqlab.study.published.values import PublishedEntry, PublishedValue, reproduces, subject_of
from mqlab.study.study import Study


@dataclass(frozen=True)
class Coverage:
    """A metric of a scenario with the exhibits that show it under the published title; or a claim; or a reason."""

    value: PublishedValue
    scenario: str = ""
    metric: str = ""
    exhibits: tuple[str, ...] = ()
    claim: str = ""
    reason: str = ""


def coverage_of(study: Study) -> Iterator[Coverage | PublishedValue]:
    """Yield the coverage of every published value in the order of the file, or the value itself if it has none."""
    points = {name: study.points(FULL, [name]) for name in study.scenarios}
    for value in study.published:
        yield _measured_coverage(study, value, points) or _prose_coverage(study, value) or value


def _measured_coverage(study: Study, value: PublishedValue, points: dict[str, list[Point]]) -> Coverage | None:
    meaning = value.meaning
    if meaning is None or not subject_of(value, study.systems_published):
        return None
    entry = PublishedEntry(value)
    for scenario in study.scenarios.values():
        candidates = points[scenario.name] if value.scenario in scenario.published else []
        if any(entry.matches(point, meaning[0], value.over) for point in candidates):
            shown = tuple(each.title for each in study.exhibits if reproduces(each.title, value.table))
            return Coverage(value, scenario.name, meaning[0], shown)
    return None


def _prose_coverage(study: Study, value: PublishedValue) -> Coverage | None:
    prose = next((prose for prose in study.prose if prose.covers(value)), None)
    return None if prose is None else Coverage(value, claim=prose.claim, reason=prose.reason)
