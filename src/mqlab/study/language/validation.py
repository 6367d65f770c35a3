"""Pydantic's findings as one sentence about the file: the first of them by line, in the words of written.py."""

from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from mqlab.study.language.exhibit_form import TAGS
from mqlab.study.language.value_types import LIST, SINGLE
from mqlab.study.language.yaml_file import Place, YamlFile

# What pydantic puts into the place of an error for its own use.
_TAGS: Final = {SINGLE, LIST, "[key]", *TAGS}
# Containers are pydantic's own types, so only their errors come in its words.
_CONTAINERS: Final = {
    "dict_type": "write names, and what belongs to each",
    "list_type": "write a list",
    "tuple_type": "write a list",
}

T = TypeVar("T")


def validated(file: YamlFile, adapter: TypeAdapter[T]) -> T:
    """The file's data as what the adapter describes. Raises StudyError."""
    try:
        return adapter.validate_python(file.data)
    except ValidationError as error:
        findings = [_finding(found) for found in error.errors(include_url=False, include_input=False)]
    where, message = min(findings, key=lambda finding: file.line(finding[0]))
    raise file.error(message, where)


def _finding(found: Any) -> tuple[Place, str]:
    where = tuple(key for key in found["loc"] if key not in _TAGS)
    context = found.get("ctx", {})
    if found["type"] == "missing":
        return where[:-1], f"{where[-1]} is missing"
    if "key" in context:
        key = context["key"]
        where = (*where, *key) if isinstance(key, tuple) else (*where, key)
    return where, context.get("message") or _CONTAINERS.get(found["type"], found["msg"])
