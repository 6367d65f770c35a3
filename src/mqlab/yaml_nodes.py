"""Composing YAML without anchors: with anchors, a few lines can expand to gigabytes."""

import re
from typing import Final

import yaml

from mqlab.errors import MqlabError

# Quotations of the file in messages of PyYAML, single characters excepted: a value may be a password.
_QUOTED: Final = re.compile(r"'[^']{2,}'")


class YamlError(MqlabError):
    """The text cannot be composed; `line` is None if PyYAML does not know it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs of PyYAML leave it out
        if getattr(event, "anchor", None) is not None:
            raise YamlError("anchors are not accepted", event.start_mark.line + 1)
        return super().compose_node(parent, index)


def compose(text: str, anchor_advice: str) -> yaml.Node:
    """Return the root node. Raises YamlError; its message quotes no value of the text."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except YamlError as error:
        raise YamlError(f"{error}; {anchor_advice}", error.line) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise YamlError(f"is not YAML: {_QUOTED.sub('...', error.problem or error.context or '')}", line) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlError(f"is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(node, yaml.Node):
        raise YamlError("is empty")
    return node
