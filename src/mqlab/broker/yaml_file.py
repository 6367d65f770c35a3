"""The YAML files of a broker, read strictly: every part knows its line, and scalars stay the text that was written.

So `no` and `0755` mean what the key that holds them says. An error quotes no value by itself: it may be a password.
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
    """Text, a list of parts or a mapping to parts; `name` says which: users.ann.password."""

    value: "str | list[YamlNode] | dict[str, YamlNode]"
    path: Path
    line: int
    name: str

    def error(self, message: str) -> SettingError:
        return _error(f"{self.name}: {message}" if self.name else message, self.path, self.line)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error("must be one value")
        if not self.value.isprintable():
            raise self.error("has a character that cannot be printed")
        return self.value

    def items(self) -> "list[YamlNode]":
        if not isinstance(self.value, list):
            raise self.error("must be a list: [one, two]")
        return self.value

    def mapping(self, accepted: Collection[str] | None = None) -> "dict[str, YamlNode]":
        """What it maps to; keys other than the accepted ones are errors."""
        if not isinstance(self.value, dict):
            raise self.error(f"must have keys{': ' + ', '.join(accepted) if accepted else ' with values'}")
        for key, part in self.value.items():
            if accepted is not None and key not in accepted:
                known = f"there is no {key[:80]!r}; there are: {', '.join(accepted)}"
                raise _error(f"{self.name}: {known}" if self.name else known, self.path, part.line)
        return self.value


def read_yaml(path: Path) -> YamlNode:
    """The whole file. Raises SettingError for what is no text, no YAML or says a thing twice."""
    try:
        node = compose(_read_text(path), "write it out")
    except YamlError as error:
        raise _error(str(error), path, error.line) from None
    return _part(node, path, node.start_mark.line + 1, "")


def _read_text(path: Path) -> str:
    try:
        return read_regular(path, limits.WRITTEN_FILE).decode("utf-8")
    except OSError as error:
        raise _error(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise _error("is not text in UTF-8", path) from None


def _part(node: yaml.Node, path: Path, line: int, name: str) -> YamlNode:
    if isinstance(node, yaml.SequenceNode):
        return YamlNode([_part(item, path, item.start_mark.line + 1, name) for item in node.value], path, line, name)
    if not isinstance(node, yaml.MappingNode):
        return YamlNode(str(node.value), path, line, name)
    found: dict[str, YamlNode] = {}
    for key, value in node.value:
        here = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _error("a key must be a word", path, here)
        if key.value in found:
            raise found[key.value].error(f"stands here and again in line {here}; write it once")
        short = key.value[:80]
        found[key.value] = _part(value, path, here, f"{name}.{short}" if name else short)
    return YamlNode(found, path, line, name)


def _error(message: str, path: Path, line: int | None = None) -> SettingError:
    """On one line, and with nothing that a terminal would obey: names come from the file."""
    text = f"{path}: {message}" if line is None else f"{path}:{line}: {message}"
    return SettingError("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))
