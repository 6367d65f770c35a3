"""Reading a study by its name or from its files, with all checks. Errors name the file and the line."""

from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from mqlab.study.errors import StudyError
from mqlab.study.exhibit import Exhibit
from mqlab.study.expansion import merge
from mqlab.study.language.exhibit_form import TAGS
from mqlab.study.language.model import Claim, ScaleLayer, ScalesForm, ScenarioLayer, StudyForm
from mqlab.study.language.name_checks import check_claims, check_exhibits, check_goals
from mqlab.study.language.parameters import FULL, LAB_DEFAULTS, LAB_SCALES
from mqlab.study.language.setting_values import check_settings
from mqlab.study.language.value_types import LIST, SINGLE, Parameters, suggest
from mqlab.study.language.yaml_file import Place, YamlFile
from mqlab.study.load.study_files import StudyFiles
from mqlab.study.point import Point
from mqlab.study.published import read_published
from mqlab.study.study import Scenario, Study

STUDY_FILE: Final = "study.yaml"
# The exhibits of a study that declares none.
DEFAULT_EXHIBITS: Final = (
    Exhibit("matrix", "Received rate", rows="system", columns="scenario", value="rate.received"),
    Exhibit("bars", "Scenario {scenario}", each="scenario", bars="system", value="rate.received"),
    Exhibit("summary", "Scenario summary"),
)
_STUDY: Final = TypeAdapter(StudyForm)
_CLAIMS: Final = TypeAdapter(tuple[Claim, ...])
# Keys of a scenario that are not parameters of its points.
_NOT_PARAMETERS: Final = ("title", "base", "published", "find")
# Parts of an error location that pydantic adds itself.
_TAGS: Final = {SINGLE, LIST, "[key]", *TAGS}
# Messages for pydantic's own container types; all other types have messages of their own.
_CONTAINERS: Final = {
    "dict_type": "write names, and what belongs to each",
    "list_type": "write a list",
    "tuple_type": "write a list",
}

T = TypeVar("T")


def built_in_studies() -> list[str]:
    folder = _built_in_folder()
    return sorted(path.name for path in folder.iterdir() if (path / STUDY_FILE).is_file())


def published_studies() -> list[str]:
    """The built-in studies that repeat a published one."""
    return [name for name in built_in_studies() if (_built_in_folder() / name / "published.csv").is_file()]


def load_study(path_or_name: str | Path, *, own: bool = False) -> Study:
    """Return the checked study of that name, file or folder. Raises StudyError.

    `own`: the user wrote the settings, or the study is not run; the settings may name any path.
    """
    if isinstance(path_or_name, str) and path_or_name in built_in_studies():
        return read_study(_built_in_folder() / path_or_name / STUDY_FILE)
    path = Path(path_or_name)
    if path.is_dir():
        if not (path / STUDY_FILE).is_file():
            raise StudyError(f"is a folder without {STUDY_FILE}", path)
        return read_study(path / STUDY_FILE, own=own)
    if not path.exists():
        raise StudyError(f"no such file and no built-in study; {suggest(str(path_or_name), built_in_studies())}", path)
    return read_study(path, own=own)


def read_study(path: Path, *, own: bool = False) -> Study:
    """Return the checked study. `own`: as in `load_study`. Raises StudyError."""
    file = YamlFile(path, required_key="study")
    named = StudyFiles(path.parent)
    form = validated(file, _STUDY, named)
    lines = {} if own else check_settings(file, form)
    scenarios = _scenarios(file, form)
    scales = _scales(file, form)
    points = _points(file, scenarios, scales)
    _check_stand_ins(file, form)
    check_exhibits(file, form, points)
    claims_file, claims = _claims(file, form)
    check_claims(claims_file, () if claims_file is not file else ("claims",), claims, points, list(form.systems))
    _check_prose(file, form, [claim.id for claim in claims])
    published = _file_in_folder(file, form.published, "published") if form.published else None
    return Study(
        id=form.study,
        title=form.title,
        source=form.source,
        systems_published=tuple(form.systems),
        stand_ins=form.stand_ins,
        successors=form.successors,
        settings=form.systems,
        scenarios=scenarios,
        scales=scales,
        exhibits=tuple(each.exhibit() for each in form.exhibits) if form.exhibits else DEFAULT_EXHIBITS,
        claims=claims,
        goals=check_goals(file, form, points, was_run=own),
        published=tuple(read_published(published, form.study)) if published else (),
        prose=form.prose,
        folder=path.parent,
        own=own,
        setting_lines=lines,
        files=(
            path,
            *([published] if published else []),
            *([claims_file.path] if claims_file is not file else []),
            *named.used,
        ),
    )


def _scenarios(file: YamlFile, form: StudyForm) -> dict[str, Scenario]:
    if not form.scenarios:
        raise file.error("is empty; write at least one scenario", ("scenarios",))
    defaults = form.defaults.declared()
    return {
        name: Scenario(
            name,
            layer.title,
            merge(LAB_DEFAULTS, defaults, _parameters(layer)),
            layer.base,
            _published(name, layer),
            layer.find,
        )
        for name, layer in form.scenarios.items()
    }


def _published(name: str, layer: ScenarioLayer) -> tuple[str, ...]:
    return (layer.published,) if isinstance(layer.published, str) else layer.published or (name,)


def _parameters(layer: ScenarioLayer) -> Parameters:
    return {name: value for name, value in layer.declared().items() if name not in _NOT_PARAMETERS}


def _scales(file: YamlFile, form: StudyForm) -> dict[str, Parameters]:
    """Return the scales. A scale of the study replaces the lab's scale of that name as a whole."""
    declared = {
        name: getattr(form.scales, name) for name in ScalesForm.model_fields if name in form.scales.model_fields_set
    }
    for name, scale in declared.items():
        for scenario in scale.scenarios:
            if scenario not in form.scenarios:
                accepted = suggest(scenario, list(form.scenarios))
                raise file.error(f"there is no such scenario; {accepted}", ("scales", name, "scenarios", scenario))
    return {**LAB_SCALES, **{name: _scale(scale) for name, scale in declared.items()}}


def _scale(layer: ScaleLayer) -> Parameters:
    scenarios = {name: own.declared() for name, own in layer.scenarios.items()}
    return {**layer.declared(), "scenarios": scenarios} if scenarios else layer.declared()


def _points(file: YamlFile, scenarios: dict[str, Scenario], scales: dict[str, Parameters]) -> dict[str, list[Point]]:
    """Return the points of each scenario at full scale. Expand all other scales too, to find their errors now."""
    points_by_scenario: dict[str, list[Point]] = {}
    for scenario in scenarios.values():
        for scale in (FULL, *scales):
            try:
                points = scenario.points(scales[scale])
            except ValueError as error:
                at = "" if scale == FULL else f"at scale {scale}: "
                raise file.error(f"{at}{error}", ("scenarios", scenario.name)) from None
            points_by_scenario.setdefault(scenario.name, points)
    return points_by_scenario


def _check_stand_ins(file: YamlFile, form: StudyForm) -> None:
    for key, systems in (("stand_ins", form.stand_ins), ("successors", form.successors)):
        for system in systems:
            if system not in form.systems:
                accepted = suggest(system, list(form.systems)) if form.systems else "the study names no systems"
                raise file.error(f"is not among the study's systems; {accepted}", (key, system))


def _check_prose(file: YamlFile, form: StudyForm, claims: list[str]) -> None:
    for number, prose in enumerate(form.prose):
        if prose.claim and prose.claim not in claims:
            accepted = suggest(prose.claim, claims)
            raise file.error(f"there is no claim '{prose.claim}'; {accepted}", ("prose", number, "claim"))


def _claims(file: YamlFile, form: StudyForm) -> tuple[YamlFile, tuple[Claim, ...]]:
    if isinstance(form.claims, tuple):
        return file, form.claims
    claims_file = YamlFile(_file_in_folder(file, form.claims, "claims"))
    return claims_file, validated(claims_file, _CLAIMS)


def _file_in_folder(file: YamlFile, name: str, key: str) -> Path:
    """Return the path of a file that the study names. A link may not lead out of the study's folder."""
    path = file.path.parent / name
    if not path.resolve().is_relative_to(file.path.parent.resolve()):
        raise file.error(f"{name} leads out of the study's folder; put the file itself beside the study", (key,))
    return path


def validated(file: YamlFile, adapter: TypeAdapter[T], named: StudyFiles | None = None) -> T:
    """Return the data of the file as an object of the adapter's type; its values may name files. Raises StudyError."""
    try:
        return adapter.validate_python(file.data, context=named)
    except ValidationError as error:
        findings = [_finding(detail) for detail in error.errors(include_url=False, include_input=False)]
    place, message = min(findings, key=lambda finding: file.line(finding[0]))
    raise file.error(message, place)


def _finding(detail: ErrorDetails) -> tuple[Place, str]:
    place = tuple(key for key in detail["loc"] if key not in _TAGS)
    context = detail.get("ctx", {})
    if detail["type"] == "missing":
        return place[:-1], f"{place[-1]} is missing"
    if "key" in context:
        key = context["key"]
        place = (*place, *key) if isinstance(key, tuple) else (*place, key)
    return place, context.get("message") or _CONTAINERS.get(detail["type"], detail["msg"])


def _built_in_folder() -> Path:
    return Path(str(files("mqlab"))) / "studies"
