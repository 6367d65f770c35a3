"""Checks that exhibits name existing scenarios and parameters."""

from mqlab.study.exhibit import Exhibit
from mqlab.study.language.model import StudyForm
from mqlab.study.language.value_types import suggest
from mqlab.study.language.yaml_file import Place, YamlFile
from mqlab.study.point import Point

SCENARIO = "scenario"


def check_exhibits(file: YamlFile, form: StudyForm, points: dict[str, list[Point]]) -> None:
    """Raise StudyError for a wrong exhibit. `points` are those of each scenario at full scale."""
    for number, each in enumerate(form.exhibits or ()):
        _check(file, ("exhibits", number), each.exhibit(), points)


def _check(file: YamlFile, place: Place, exhibit: Exhibit, points: dict[str, list[Point]]) -> None:
    for scenario in exhibit.of:
        if scenario not in points:
            raise file.error(f"there is no scenario '{scenario}'; {suggest(scenario, list(points))}", (*place, "of"))
    candidates = [point for name, each in points.items() if not exhibit.of or name in exhibit.of for point in each]
    over = (word for view in exhibit.views for word in view.over)
    for word in (*exhibit.by, *over, *([exhibit.x] if exhibit.x else [])):
        if word != SCENARIO:
            _check_parameter(file, place, word, candidates)
    for word in {word for view in exhibit.views for word in view.over} & exhibit.accepted_values().keys():
        raise file.error(
            f"a peak is over all values of {word}; take it out of over or of where", (*place, "where", word)
        )
    for word, value in exhibit.where:
        values = _check_parameter(file, place, word, candidates)
        if value not in values:
            raise file.error(f"no point has {word}={value}; {suggest(value, values)}", (*place, "where", word))
    if not exhibit.select_points(candidates):
        raise file.error("no point has all parameters of where", (*place, "where"))


def _check_parameter(file: YamlFile, place: Place, word: str, candidates: list[Point]) -> list[str]:
    values = list(dict.fromkeys(point.parameters[word] for point in candidates if word in point.parameters))
    if not values:
        known = list(dict.fromkeys(key for point in candidates for key in point.parameters))
        raise file.error(f"there is no parameter '{word}'; {suggest(word, known)}", place)
    return values
