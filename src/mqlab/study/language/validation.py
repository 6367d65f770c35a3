"""Validation of a file: the first error of pydantic, by line, becomes one sentence about the file."""

from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from mqlab.study.language.exhibit_form import TAGS
from mqlab.study.language.value_types import LIST, SINGLE
from mqlab.study.language.yaml_file import Place, YamlFile

# Parts of an error location that pydantic adds itself.
_TAGS: Final = {SINGLE, LIST, "[key]", *TAGS}
# Messages for pydantic's own container types; all other types have messages of their own.
_CONTAINERS: Final = {
    "dict_type": "write names, and what belongs to each",
    "list_type": "write a list",
    "tuple_type": "write a list",
}

T = TypeVar("T")


def validated(file: YamlFile, adapter: TypeAdapter[T]) -> T:
    """Return the data of the file as an object of the adapter's type. Raises StudyError."""
    try:
        return adapter.validate_python(file.data)
    except ValidationError as error:
        findings = [_finding(detail) for detail in error.errors(include_url=False, include_input=False)]
    place, message = min(findings, key=lambda finding: file.line(finding[0]))
    raise file.error(message, place)


def _finding(detail: Any) -> tuple[Place, str]:
    place = tuple(key for key in detail["loc"] if key not in _TAGS)
    context = detail.get("ctx", {})
    if detail["type"] == "missing":
        return place[:-1], f"{place[-1]} is missing"
    if "key" in context:
        key = context["key"]
        place = (*place, *key) if isinstance(key, tuple) else (*place, key)
    return place, context.get("message") or _CONTAINERS.get(detail["type"], detail["msg"])
