"""From the syntax tree to conditions over columns. An expression without properties is evaluated here, once."""

import numpy as np
import pyarrow as pa

from mqlab.broker.core.selectors import conditions as c
from mqlab.broker.core.selectors import predicates as p
from mqlab.broker.core.selectors import syntax as s
from mqlab.broker.core.selectors.like import matcher
from mqlab.broker.core.selectors.operands import Chain, Field, Fixed, Operand, Sign
from mqlab.broker.core.selectors.values import Batch, Values

# Literals alone need no message.
_NO_COLUMNS = Batch(1, {})


def condition(node: s.Node) -> c.Condition:
    match node:
        case s.And(parts):
            return c.Conjunction([condition(part) for part in parts])
        case s.Or(parts):
            return c.Negation(c.Conjunction([c.Negation(condition(part)) for part in parts]))
        case s.Not(operand):
            return c.Negation(condition(operand))
        case s.Comparison(operator, left, right):
            return _comparison(operator, operand_of(left), operand_of(right))
        case s.In(name, values, negated):
            return p.InTest(name, values, negated=negated)
        case s.Like(name, pattern, negated):
            return p.LikeTest(name, matcher(pattern), negated=negated)
        case s.IsNull(name):
            return p.NullTest(name)
        case s.Identifier(name):
            return p.BooleanTest(name)
        case s.Literal(bool() as value):
            return c.Constant(value)
        case _:
            raise AssertionError(f"the parser lets {node} stand as a condition")


def operand_of(node: s.Node) -> Operand:
    match node:
        case s.Identifier(name):
            return Field(name)
        case s.Literal(value):
            return Fixed(_literal(value))
        case s.Signed(operand, negative):
            return _folded(Sign(inner := operand_of(operand), negative), [inner])
        case s.Arithmetic(first, rest):
            return _chain(operand_of(first), [(operator, operand_of(part)) for operator, part in rest])
        case _:
            return p.Truth(condition(node))


def _literal(value: bool | int | float | str) -> Values:
    if isinstance(value, str):
        return Values(s.ValueType.STRING, pa.scalar(value))
    return Values(s.ValueType.BOOLEAN if isinstance(value, bool) else s.ValueType.NUMBER, value)


def _chain(first: Operand, rest: list[tuple[str, Operand]]) -> Operand:
    """Literals at the beginning come together: `60 * 60 * hours` multiplies once for each message."""
    count = 0
    while isinstance(first, Fixed) and count < len(rest) and isinstance(rest[count][1], Fixed):
        step = rest[count]
        first = _folded(Chain(first, [step]), [first, step[1]])
        count += 1
    return Chain(first, rest[count:]) if count < len(rest) else first


def _folded(operand: Operand, parts: list[Operand]) -> Operand:
    """The operand, or its value if it is made of literals."""
    if not all(isinstance(part, Fixed) for part in parts):
        return operand
    with np.errstate(all="ignore"):
        found = operand.values(_NO_COLUMNS)
    if found is None or (found.valid is not None and not found.valid[0]):
        return Fixed(None)
    return Fixed(Values(found.kind, np.asarray(found.data).item(0)))


def _comparison(operator: str, left: Operand, right: Operand) -> c.Condition:
    comparison = p.ComparisonTest(operator, left, right)
    if not (isinstance(left, Fixed) and isinstance(right, Fixed)):
        return comparison
    found = comparison.outcome(_NO_COLUMNS)
    return c.Constant(None if found is None else bool(np.all(found[0])))
