"""YAML with line numbers: plain data, and the line of every part of it.

Scalars stay text, so that the type of the key decides the meaning of `no`, `1.10` and `12:30`, and errors can quote
them. Anchors are not accepted: `defaults` holds the parameters that scenarios share.
"""

from pathlib import Path

import yaml

from mqlab.study.errors import StudyError
from mqlab.study.language.text_file import read_text
from mqlab.yaml_nodes import YamlError, compose

PlainData = str | list["PlainData"] | dict[str, "PlainData"]
# The path to a part of the data: keys, and positions in lists.
Place = tuple[str | int, ...]


class YamlFile:
    """The `data` of a file (dicts, lists and text) and the line of each part of it.

    `required_key`: a mapping without this key is another kind of file, and no error quotes it.
    """

    def __init__(self, path: Path, required_key: str = "") -> None:
        self.path = path
        self._lines: dict[Place, int] = {}
        node = self._compose()
        keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else [required_key]
        if required_key and required_key not in keys:
            raise StudyError(f"{required_key} is missing", path, node.start_mark.line + 1)
        self.data = self._plain(node, ())

    def line(self, place: Place) -> int:
        """Return the line of that part, or of the nearest part around it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def error(self, message: str, place: Place = ()) -> StudyError:
        name = ".".join(str(key) if isinstance(key, str) else str(key + 1) for key in place)
        return StudyError(f"{name}: {message}" if name else message, self.path, self.line(place))

    def _compose(self) -> yaml.Node:
        try:
            return compose(read_text(self.path), "put shared parameters under defaults")
        except YamlError as error:
            raise StudyError(str(error), self.path, error.line) from None

    def _plain(self, node: yaml.Node, place: Place) -> PlainData:
        self._lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*place, number)) for number, item in enumerate(node.value)]
        return str(node.value)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, PlainData]:
        mapping: dict[str, PlainData] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise StudyError("a key must be a word", self.path, line)
            here = (*place, key.value)
            if key.value in mapping:
                raise self.error(f"occurs again in line {line}; write it once", here)
            self._lines[here] = line
            mapping[key.value] = self._plain(value, here)
        return mapping
