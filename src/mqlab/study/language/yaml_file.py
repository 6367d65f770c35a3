"""YAML with positions: plain data, and for every part of it the line where it stands.

Scalars stay the text that was written, so `no`, `1.10` and `12:30` mean what the key that holds them says, not what
YAML guesses; errors can quote them. Anchors are refused: what scenarios share is written once, under `defaults`.
"""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from mqlab.study.errors import StudyError
from mqlab.study.language.text_file import read_text

# What PyYAML quotes of a file, beside single characters.
_QUOTED: Final = re.compile(r"'[^']{2,}'")

# The way to a part of the data: keys, and positions in lists.
Place = tuple[str | int, ...]


class YamlFile:
    """`data` (dicts, lists and text) and `line(path)`, where each part of it stands.

    `must_have`: a mapping without this key is another kind of file, and no error quotes anything of it.
    """

    def __init__(self, path: Path, must_have: str = "") -> None:
        self.path = path
        self._lines: dict[Place, int] = {}
        node = self._compose()
        keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else [must_have]
        if must_have and must_have not in keys:
            raise StudyError(f"{must_have} is missing", path, node.start_mark.line + 1)
        self.data = self._plain(node, ())

    def line(self, where: Place) -> int:
        """The line of that part, or of the suggest part around it."""
        while where and where not in self._lines:
            where = where[:-1]
        return self._lines.get(where, 1)

    def error(self, message: str, where: Place = ()) -> StudyError:
        name = ".".join(str(key) if isinstance(key, str) else str(key + 1) for key in where)
        return StudyError(f"{name}: {message}" if name else message, self.path, self.line(where))

    def _compose(self) -> yaml.Node:
        try:
            node = yaml.compose(read_text(self.path), Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            what = "" if isinstance(error, _AnchorError) else "is not YAML: "
            problem = _QUOTED.sub("...", error.problem or error.context or "")
            raise StudyError(f"{what}{problem}", self.path, line) from None
        except (yaml.YAMLError, RecursionError) as error:
            raise StudyError(f"is not YAML: {' '.join(str(error).split())}", self.path) from None
        if not isinstance(node, yaml.Node):
            raise StudyError("is empty", self.path)
        return node

    def _plain(self, node: yaml.Node, where: Place) -> Any:
        self._lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*where, number)) for number, item in enumerate(node.value)]
        return node.value

    def _mapping(self, node: yaml.MappingNode, where: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise StudyError("a key must be a word", self.path, line)
            here = (*where, key.value)
            if key.value in found:
                raise self.error(f"stands here and again in line {line}; write it once", here)
            self._lines[here] = line
            found[key.value] = self._plain(value, here)
        return found


class _AnchorError(yaml.MarkedYAMLError):
    """Good YAML, but not accepted here."""


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs of PyYAML leave it out
        if getattr(event, "anchor", None) is not None:
            message = "anchors are not accepted; put what scenarios share under defaults"
            raise _AnchorError(None, None, message, event.start_mark)
        return super().compose_node(parent, index)
