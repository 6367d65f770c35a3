"""Whether claims name what is there: scenarios, points, parameters and systems."""

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
    """Raises StudyError. `points`: of each scenario, at full scale; `place`: of the list of claims in the file."""
    for number, claim in enumerate(claims):
        where: Place = (*place, number)
        if claim.id in (earlier.id for earlier in claims[:number]):
            raise file.error(f"the id '{claim.id}' was given before", (*where, "id"))
        if claim.check is None:
            continue
        try:
            _check_names(parse(claim.check), points, systems)
        except ExpressionError as error:
            raise file.error(str(error), (*where, "check")) from None


def _check_names(expression: Expression, points: dict[str, list[Point]], systems: list[str]) -> None:
    for named in expression.references():
        _check_reference(named, points)
    for system in sorted(expression.systems()):
        if system not in systems:
            raise ExpressionError(f"'{system}' is not among the study's systems; {suggest(system, systems)}")


def _check_reference(named: Reference, points: dict[str, list[Point]]) -> None:
    inside = [point for name in points if in_scenario(named.scenario, name) for point in points[name]]
    if not inside:
        raise ExpressionError(f"there is no scenario '{named.scenario}'; accepted: {', '.join(points)}")
    if named.point and not any(map(named.matches, inside)):
        accepted = suggest(named.point, [point.name for point in inside if point.name])
        raise ExpressionError(f"scenario {named.scenario} has no point '{named.point}'; {accepted}")
    for key, value in named.where:
        _check_parameter(named.scenario, key, value, inside)
    matching = [point for point in inside if named.matches(point)]
    if not matching and not named.where:
        _ask_for_a_point(named, inside)
    if not matching:
        raise ExpressionError(f"no point of {named.scenario} has all of these: {named.place}")
    _check_alone(named, matching)


def _check_parameter(scenario: str, key: str, value: str, inside: list[Point]) -> None:
    values = list(dict.fromkeys(point.parameters[key] for point in inside if key in point.parameters))
    if not values:
        accepted = suggest(key, list(inside[0].parameters))
        raise ExpressionError(f"scenario {scenario} has no parameter '{key}'; {accepted}")
    if value not in (ANY, *values):
        raise ExpressionError(f"scenario {scenario} has no point with {key}={value}; {suggest(value, values)}")


def _ask_for_a_point(named: Reference, inside: list[Point]) -> None:
    raise ExpressionError(
        f"scenario {named.scenario} has {len(inside)} points;"
        f' name one, like {named.metric}[{named.scenario}, "{inside[0].name}"]'
    )


def _check_alone(named: Reference, matching: list[Point]) -> None:
    """What is not open means one point; what is open means one point for every combination of the open values."""
    groups: dict[Reference, list[Point]] = {}
    for point in matching:
        groups.setdefault(named.bound(point), []).append(point)
    for each, found in groups.items():
        if len(found) > 1:
            keys = found[0].parameters
            differing = sorted(key for key in keys if len({point.parameters.get(key) for point in found}) > 1)
            raise ExpressionError(
                f"{each.place} are {len(found)} points, which differ in {', '.join(differing)}; name that too"
            )
