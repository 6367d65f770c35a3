"""From the files of a study to the study: everything that can be wrong is found here, with its file and line."""

from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from mqlab.study.check import validated
from mqlab.study.exhibit import Exhibit
from mqlab.study.expand import FULL, LAB_DEFAULTS, LAB_SCALES, expand, merge
from mqlab.study.expression import Expression, ExpressionError, parse
from mqlab.study.model import ClaimForm, ScenarioLayer, StudyForm
from mqlab.study.published import read_published
from mqlab.study.study import Parameters, Scenario, Setting, Source, Study
from mqlab.study.written import nearest
from mqlab.study.yaml_file import Place, YamlFile

# For a study that asks for no exhibits: the tables and charts that any study can have.
DEFAULT_EXHIBITS: Final = (
    Exhibit("matrix", "Received rate", rows="system", columns="scenario", value="rate.received"),
    Exhibit("bars", "Scenario {scenario}", each="scenario", bars="system", value="rate.received"),
    Exhibit("summary", "Scenario summary"),
)
_STUDY: Final = TypeAdapter(StudyForm)
_CLAIMS: Final = TypeAdapter(tuple[ClaimForm, ...])

# The names of the points of each scenario.
PointNames = dict[str, list[str]]


def read_study(path: Path) -> Study:
    file = YamlFile(path)
    form = validated(file, _STUDY)
    scenarios = _scenarios(file, form)
    scales = _scales(form)
    names = _point_names(file, scenarios, scales)
    claims_file, claims = _claims(file, form)
    for number, claim in enumerate(claims):
        where: Place = (number,) if claims_file is not file else ("claims", number)
        if claim.id in (earlier.id for earlier in claims[:number]):
            raise claims_file.error(f"the id '{claim.id}' was given before", (*where, "id"))
        if claim.check is not None:
            _check_expression(claims_file, claim.check, (*where, "check"), names, list(form.systems))
    published = path.parent / form.published if form.published else None
    return Study(
        id=form.study,
        title=form.title,
        source=_source(form),
        systems_published=tuple(form.systems),
        settings={
            system: tuple(Setting(each.setting, each.value, each.effect) for each in settings)
            for system, settings in form.systems.items()
        },
        scenarios=scenarios,
        scales=scales,
        exhibits=tuple(each.exhibit() for each in form.exhibits) if form.exhibits else DEFAULT_EXHIBITS,
        claims=tuple(each.claim() for each in claims),
        published=tuple(read_published(published, form.study)) if published else (),
        folder=path.parent,
        files=(path, *([published] if published else []), *([claims_file.path] if claims_file is not file else [])),
    )


def _source(form: StudyForm) -> Source | None:
    if form.source is None:
        return None
    return Source(form.source.title, form.source.authors, form.source.where, form.source.conditions)


def _scenarios(file: YamlFile, form: StudyForm) -> dict[str, Scenario]:
    if not form.scenarios:
        raise file.error("is empty; write at least one scenario", ("scenarios",))
    defaults = form.defaults.written()
    return {
        name: Scenario(name, layer.title, merge(LAB_DEFAULTS, defaults, _parameters(layer)))
        for name, layer in form.scenarios.items()
    }


def _parameters(layer: ScenarioLayer) -> Parameters:
    return {name: value for name, value in layer.written().items() if name != "title"}


def _scales(form: StudyForm) -> dict[str, Parameters]:
    """A scale that the study writes takes the place of the lab's, whole: half of each would surprise."""
    return {**LAB_SCALES, **form.scales.written()}


def _point_names(file: YamlFile, scenarios: dict[str, Scenario], scales: dict[str, Parameters]) -> PointNames:
    """The points at full scale; on the way, every scale of every scenario is tried, before anything runs."""
    names: PointNames = {}
    for scenario in scenarios.values():
        for scale in (FULL, *scales):
            try:
                points = expand(scenario.name, merge(scenario.parameters, scales[scale]))
            except ValueError as error:
                at = "" if scale == FULL else f"at scale {scale}: "
                raise file.error(f"{at}{error}", ("scenarios", scenario.name)) from None
            names.setdefault(scenario.name, [point.name for point in points])
    return names


def _claims(file: YamlFile, form: StudyForm) -> tuple[YamlFile, tuple[ClaimForm, ...]]:
    if isinstance(form.claims, tuple):
        return file, form.claims
    beside = YamlFile(file.path.parent / form.claims)
    return beside, validated(beside, _CLAIMS)


def _check_expression(file: YamlFile, text: str, where: Place, names: PointNames, systems: list[str]) -> None:
    try:
        expression = parse(text)
        _check_names(expression, names, systems)
    except ExpressionError as error:
        raise file.error(str(error), where) from None


def _check_names(expression: Expression, names: PointNames, systems: list[str]) -> None:
    for named in expression.references():
        if named.scenario not in names:
            raise ExpressionError(f"there is no scenario '{named.scenario}'; accepted: {', '.join(names)}")
        points = names[named.scenario]
        if named.point not in points:
            if not named.point:
                raise ExpressionError(
                    f"scenario {named.scenario} has {len(points)} points;"
                    f' name one, like {named.metric}[{named.scenario}, "{points[0]}"]'
                )
            accepted = nearest(named.point, [point for point in points if point])
            raise ExpressionError(f"scenario {named.scenario} has no point '{named.point}'; {accepted}")
    for system in expression.systems():
        if system not in systems:
            raise ExpressionError(f"'{system}' is not among the study's systems; {nearest(system, systems)}")
