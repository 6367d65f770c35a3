"""Checks that claims and exhibits name existing scenarios, points, parameters and systems."""

from collections.abc import Sequence

from mqlab.study.exhibit import Exhibit
from mqlab.study.language.expression import Expression, ExpressionError, parse
from mqlab.study.language.gate import EVERYWHERE, Gate, parse_goal
from mqlab.study.language.model import Claim, StudyForm
from mqlab.study.language.reference import ANY, Reference, in_scenario
from mqlab.study.language.value_types import suggest
from mqlab.study.language.yaml_file import Place, YamlFile
from mqlab.study.point import Point


def check_claims(
    file: YamlFile, place: Place, claims: Sequence[Claim], points: dict[str, list[Point]], systems: list[str]
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


def check_goals(file: YamlFile, form: StudyForm, points: dict[str, list[Point]], *, was_run: bool) -> tuple[Gate, ...]:
    """Return the goals. Raises StudyError for a wrong one. `points` are those of each scenario at full scale.

    `was_run`: of a study that was run, a goal that no point can meet or miss is accepted, and not known.
    """
    goals = []
    for number, text in enumerate(form.goals):
        try:
            goals.append(parse_goal(text))
            check_gate(goals[-1], points)
            if not was_run:
                check_measurable(goals[-1], points)
        except ExpressionError as error:
            raise file.error(str(error), ("goals", number)) from None
    return tuple(goals)


def check_gate(gate: Gate, points: dict[str, list[Point]]) -> None:
    """Raise ExpressionError unless the gate is about at least one of the points of each scenario."""
    named = gate.reference
    if named.where or named.point:
        _matching(named, points)
    elif named.scenario != EVERYWHERE:
        _candidates(named, points)


def check_measurable(gate: Gate, points: dict[str, list[Point]]) -> None:
    """Raise ExpressionError unless one of the points that the gate is about can have its metric."""
    reasons = {point.why_without(gate.metric) for each in points.values() for point in each if gate.matches(point)}
    if reasons and all(reasons):
        raise ExpressionError(f"'{gate.text}': no point has {gate.metric}: {' or '.join(sorted(reasons))}")


def _check_names(expression: Expression, points: dict[str, list[Point]], systems: list[str]) -> None:
    for reference in expression.references():
        _check_reference(reference, points)
    for system in sorted(expression.systems()):
        if system not in systems:
            raise ExpressionError(f"'{system}' is not among the study's systems; {suggest(system, systems)}")


def _check_reference(reference: Reference, points: dict[str, list[Point]]) -> None:
    _check_unambiguous(reference, _matching(reference, points))


def _candidates(reference: Reference, points: dict[str, list[Point]]) -> list[Point]:
    candidates = [point for name in points if in_scenario(reference.scenario, name) for point in points[name]]
    if not candidates:
        raise ExpressionError(f"there is no scenario '{reference.scenario}'; accepted: {', '.join(points)}")
    return candidates


def _matching(reference: Reference, points: dict[str, list[Point]]) -> list[Point]:
    candidates = _candidates(reference, points)
    if reference.point and not any(map(reference.matches, candidates)):
        accepted = suggest(reference.point, [point.name for point in candidates if point.name])
        raise ExpressionError(f"scenario {reference.scenario} has no point '{reference.point}'; {accepted}")
    for key, value in reference.where:
        values = _values(key, candidates)
        if not values:
            accepted = suggest(key, list(candidates[0].parameters))
            raise ExpressionError(f"scenario {reference.scenario} has no parameter '{key}'; {accepted}")
        if value not in (ANY, *values):
            accepted = suggest(value, values)
            raise ExpressionError(f"scenario {reference.scenario} has no point with {key}={value}; {accepted}")
    matching = [point for point in candidates if reference.matches(point)]
    if not matching and not reference.where:
        raise ExpressionError(
            f"scenario {reference.scenario} has {len(candidates)} points;"
            f' name one, like {reference.metric}[{reference.scenario}, "{candidates[0].name}"]'
        )
    if not matching:
        raise ExpressionError(f"no point of {reference.scenario} has all of these: {reference.place}")
    return matching


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


def check_exhibits(file: YamlFile, form: StudyForm, points: dict[str, list[Point]]) -> None:
    """Raise StudyError for a wrong exhibit. `points` are those of each scenario at full scale."""
    for number, each in enumerate(form.exhibits or ()):
        _check_exhibit(file, ("exhibits", number), each.exhibit(), points)


def _check_exhibit(file: YamlFile, place: Place, exhibit: Exhibit, points: dict[str, list[Point]]) -> None:
    for scenario in exhibit.of:
        if scenario not in points:
            raise file.error(f"there is no scenario '{scenario}'; {suggest(scenario, list(points))}", (*place, "of"))
    candidates = [point for name, each in points.items() if not exhibit.of or name in exhibit.of for point in each]
    over = (word for view in exhibit.views for word in view.over)
    for word in (*exhibit.by, *over, *([exhibit.x] if exhibit.x else [])):
        if word != "scenario":
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
    values = _values(word, candidates)
    if not values:
        known = list(dict.fromkeys(key for point in candidates for key in point.parameters))
        raise file.error(f"there is no parameter '{word}'; {suggest(word, known)}", place)
    return values


def _values(name: str, candidates: list[Point]) -> list[str]:
    return list(dict.fromkeys(point.parameters[name] for point in candidates if name in point.parameters))
