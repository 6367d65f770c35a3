"""Texts that stand for numbers: some clients can give a property no other type, and yet want to compare it.

A selector that begins with `convert_string_expressions:` (as ActiveMQ and Artemis have it) takes the text of a property
for the number it spells wherever the selector uses that property as a number, and nowhere else. A text that spells
none is UNKNOWN.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mqlab.broker.core.selectors import syntax as s

CONVERTING: Final = "convert_string_expressions:"
_WHOLE: Final = r"^-?[0-9]{1,18}$"
_NUMBER: Final = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$"


def numbers_in(tree: s.Node) -> frozenset[str]:
    """Properties that it uses as numbers only."""
    found = [*_uses(tree)]
    texts = {name for name, as_number in found if not as_number}
    return frozenset(name for name, as_number in found if as_number) - texts


def converted(columns: Mapping[str, pa.Array], names: frozenset[str]) -> Mapping[str, pa.Array]:
    """The same, with the numbers that texts stand for under these names."""
    texts = {name: columns[name] for name in names if name in columns and columns[name].type == pa.string()}
    return {**columns, **{name: _numbers(column) for name, column in texts.items()}} if texts else columns


def _numbers(column: pa.Array) -> pa.Array:
    if pc.all(pc.match_substring_regex(column, _WHOLE)).as_py() is not False:
        return pc.cast(column, pa.int64())
    spelled = pc.match_substring_regex(column, _NUMBER)
    return pc.cast(pc.if_else(spelled, column, pa.scalar(None, pa.string())), pa.float64())


def _uses(node: s.Node) -> Iterator[tuple[str, bool]]:
    """Each use of a property in a condition, and whether it is as a number."""
    match node:
        case s.And(parts) | s.Or(parts):
            for part in parts:
                yield from _uses(part)
        case s.Not(operand):
            yield from _uses(operand)
        case s.Comparison(_, left, right):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, s.Identifier):
                    yield one.name, _is_number(other)
                else:
                    yield from _uses(one)
        case s.Arithmetic() | s.Signed():
            yield from ((name, True) for name in _operands(node))
        case s.In(name) | s.Like(name) | s.Identifier(name):
            yield name, False


def _is_number(node: s.Node) -> bool:
    if isinstance(node, s.Literal):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return isinstance(node, s.Arithmetic | s.Signed)


def _operands(node: s.Node) -> Iterator[str]:
    match node:
        case s.Identifier(name):
            yield name
        case s.Signed(operand):
            yield from _operands(operand)
        case s.Arithmetic(first, rest):
            for part in (first, *(part for _, part in rest)):
                yield from _operands(part)
