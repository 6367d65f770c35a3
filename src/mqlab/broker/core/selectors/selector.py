"""A selector: its text, what it reads, and which messages of a batch it selects."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from mqlab.broker.core.selectors import syntax as s
from mqlab.broker.core.selectors.compiler import condition
from mqlab.broker.core.selectors.errors import BadSelectorError, bad
from mqlab.broker.core.selectors.parser import parse
from mqlab.broker.core.selectors.texts import CONVERTING, converted, numbers_in
from mqlab.broker.core.selectors.values import Batch, Bools
from mqlab.broker.limits import SELECTOR

# Fields that an index can find messages by.
_INDEXED: Final = ("JMSMessageID", "JMSCorrelationID")
# A requester may ask with the same text again and again. The largest selectors take a third of a megabyte each.
_CACHED: Final = 256


class Selector:
    """Made by `compile_selector`; never changed, so it can be shared.

    `identifiers` are the header fields and properties it reads. `lookup` is a field and the value it must have for
    any message to be selected, if the text says so in a top-level AND term: an index can find the candidates.
    """

    __slots__ = ("_condition", "_numbers", "identifiers", "lookup", "text")

    def __init__(self, text: str, tree: s.Node) -> None:
        self.text = text
        self.identifiers = frozenset(_names(tree))
        self.lookup = _lookup(tree)
        self._condition = condition(tree)
        # Properties whose texts are taken for numbers.
        self._numbers = numbers_in(tree) if text.startswith(CONVERTING) else frozenset()

    def mask(self, rows: int, columns: Mapping[str, pa.Array]) -> Bools:
        """Where it is TRUE. A column has `rows` values; an identifier without a column is null in every message."""
        if not rows:
            return np.zeros(0, np.bool_)
        if self._numbers:
            columns = converted(columns, self._numbers)
        # Java calculates on with what overflowed or is not a number, and says nothing.
        with np.errstate(all="ignore"):
            return self._condition.true(Batch(rows, columns))

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


@lru_cache(_CACHED)
def compile_selector(text: str) -> Selector:
    """The selector that a text stands for. Raises BadSelectorError."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise bad(error.start, "half of a surrogate pair is not a character") from None
    if size > SELECTOR:
        raise BadSelectorError(f"a selector has at most {SELECTOR} bytes, this one {size}")
    said = text.removeprefix(CONVERTING)
    if not said.strip(" \t\f\r\n"):
        raise BadSelectorError("a selector must not be empty; omit it to receive every message")
    return Selector(text, parse(said))


def _names(tree: s.Node) -> Iterator[str]:
    nodes = [tree]
    while nodes:
        match nodes.pop():
            case s.Identifier(name) | s.In(name) | s.Like(name) | s.IsNull(name):
                yield name
            case s.Signed(operand) | s.Not(operand):
                nodes.append(operand)
            case s.Arithmetic(first, rest):
                nodes += [first, *(part for _, part in rest)]
            case s.Comparison(_, left, right):
                nodes += [left, right]
            case s.And(parts) | s.Or(parts):
                nodes += parts


def _lookup(tree: s.Node) -> tuple[str, str] | None:
    for part in tree.parts if isinstance(tree, s.And) else (tree,):
        match part:
            case s.Comparison("=", s.Identifier(name), s.Literal(str() as value)) | s.Comparison(
                "=", s.Literal(str() as value), s.Identifier(name)
            ) if name in _INDEXED:
                return name, value
    return None
