"""Reads the YAML files of a broker strictly: every node knows its line, and scalars stay texts.

So the key decides what `no` and `0755` mean. Errors quote no value: it may be a password.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import yaml

from mqlab.broker import limits
from mqlab.broker.settings import SettingError
from mqlab.regular_file import read_regular
from mqlab.yaml_nodes import YamlError, compose


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A text, a list or a mapping; `name` is its path in the file: users.ann.password."""

    value: "str | list[YamlNode] | dict[str, YamlNode]"
    path: Path
    line: int
    name: str

    def error(self, message: str) -> SettingError:
        return _error(f"{self.name}: {message}" if self.name else message, self.path, self.line)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error("must be a single value")
        if not self.value.isprintable():
            raise self.error("has a character that cannot be printed")
        return self.value

    def items(self) -> "list[YamlNode]":
        if not isinstance(self.value, list):
            raise self.error("must be a list: [one, two]")
        return self.value

    def mapping(self, accepted: Collection[str] | None = None) -> "dict[str, YamlNode]":
        """The mapping. Raises SettingError for keys other than the accepted ones."""
        if not isinstance(self.value, dict):
            raise self.error(f"must have keys{': ' + ', '.join(accepted) if accepted else ' with values'}")
        for key, part in self.value.items():
            if accepted is not None and key not in accepted:
                known = f"there is no {key[:80]!r}; there are: {', '.join(accepted)}"
                raise _error(f"{self.name}: {known}" if self.name else known, self.path, part.line)
        return self.value


def read_yaml(path: Path) -> YamlNode:
    """Read a file. Raises SettingError if it is not YAML in UTF-8, or has a key twice."""
    try:
        node = compose(_read_text(path), "write it out")
    except YamlError as error:
        raise _error(str(error), path, error.line) from None
    return _yaml_node(node, path, node.start_mark.line + 1, "")


def _read_text(path: Path) -> str:
    try:
        return read_regular(path, limits.WRITTEN_FILE).decode("utf-8")
    except OSError as error:
        raise _error(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise _error("is not text in UTF-8", path) from None


def _yaml_node(node: yaml.Node, path: Path, line: int, name: str) -> YamlNode:
    if isinstance(node, yaml.SequenceNode):
        return YamlNode(
            [_yaml_node(item, path, item.start_mark.line + 1, name) for item in node.value], path, line, name
        )
    if not isinstance(node, yaml.MappingNode):
        return YamlNode(str(node.value), path, line, name)
    mapping: dict[str, YamlNode] = {}
    for key, value in node.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _error("a key must be a word", path, key_line)
        if key.value in mapping:
            raise mapping[key.value].error(f"appears here and again in line {key_line}; write it once")
        short = key.value[:80]
        mapping[key.value] = _yaml_node(value, path, key_line, f"{name}.{short}" if name else short)
    return YamlNode(mapping, path, line, name)


def _error(message: str, path: Path, line: int | None = None) -> SettingError:
    """One printable line: names in the file may contain control characters."""
    text = f"{path}: {message}" if line is None else f"{path}:{line}: {message}"
    return SettingError("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))
