"""Checks that claims name existing scenarios, points, parameters and systems."""

from collections.abc import Sequence

from mqlab.study.language.expression import Expression, ExpressionError, parse
from mqlab.study.language.model import ClaimForm
from mqlab.study.language.reference import ANY, Reference, in_scenario
from mqlab.study.language.value_types import suggest
from mqlab.study.language.yaml_file import Place, YamlFile
from mqlab.study.point import Point


def check_claims(
    file: YamlFile, place: Place, claims: Sequence[ClaimForm], points: dict[str, list[Point]], systems: list[str]
) -> None:
    """Raise StudyError for a wrong claim. `points` are those of each scenario at full scale.

    `place` is the location of the list of claims in the file.
    """
    for number, claim in enumerate(claims):
        location: Place = (*place, number)
        if claim.id in (earlier.id for earlier in claims[:number]):
            raise file.error(f"the id '{claim.id}' is used twice", (*location, "id"))
        if claim.check is None:
            continue
        try:
            _check_names(parse(claim.check), points, systems)
        except ExpressionError as error:
            raise file.error(str(error), (*location, "check")) from None


def _check_names(expression: Expression, points: dict[str, list[Point]], systems: list[str]) -> None:
    for reference in expression.references():
        _check_reference(reference, points)
    for system in sorted(expression.systems()):
        if system not in systems:
            raise ExpressionError(f"'{system}' is not among the study's systems; {suggest(system, systems)}")


def _check_reference(reference: Reference, points: dict[str, list[Point]]) -> None:
    candidates = [point for name in points if in_scenario(reference.scenario, name) for point in points[name]]
    if not candidates:
        raise ExpressionError(f"there is no scenario '{reference.scenario}'; accepted: {', '.join(points)}")
    if reference.point and not any(map(reference.matches, candidates)):
        accepted = suggest(reference.point, [point.name for point in candidates if point.name])
        raise ExpressionError(f"scenario {reference.scenario} has no point '{reference.point}'; {accepted}")
    for key, value in reference.where:
        _check_parameter(reference.scenario, key, value, candidates)
    matching = [point for point in candidates if reference.matches(point)]
    if not matching and not reference.where:
        _fail_ambiguous(reference, candidates)
    if not matching:
        raise ExpressionError(f"no point of {reference.scenario} has all of these: {reference.place}")
    _check_unambiguous(reference, matching)


def _check_parameter(scenario: str, key: str, value: str, candidates: list[Point]) -> None:
    values = list(dict.fromkeys(point.parameters[key] for point in candidates if key in point.parameters))
    if not values:
        accepted = suggest(key, list(candidates[0].parameters))
        raise ExpressionError(f"scenario {scenario} has no parameter '{key}'; {accepted}")
    if value not in (ANY, *values):
        raise ExpressionError(f"scenario {scenario} has no point with {key}={value}; {suggest(value, values)}")


def _fail_ambiguous(reference: Reference, candidates: list[Point]) -> None:
    raise ExpressionError(
        f"scenario {reference.scenario} has {len(candidates)} points;"
        f' name one, like {reference.metric}[{reference.scenario}, "{candidates[0].name}"]'
    )


def _check_unambiguous(reference: Reference, matching: list[Point]) -> None:
    """Check that a closed reference names one point, and an open one names one point for each combination."""
    groups: dict[Reference, list[Point]] = {}
    for point in matching:
        groups.setdefault(reference.bound(point), []).append(point)
    for each, group in groups.items():
        if len(group) > 1:
            keys = group[0].parameters
            differing = sorted(key for key in keys if len({point.parameters.get(key) for point in group}) > 1)
            raise ExpressionError(
                f"{each.place} matches {len(group)} points, which differ in {', '.join(differing)}; name that too"
            )
