"""The language of a claim's check: which expressions are accepted, and which measures they name.

Python's own grammar, cut down: `rate.received[H] / rate.received[G] > 1.2`. Here it is only parsed and checked;
its values come from the measures, in report/. Nothing is ever given to eval().

`metric[scenario]`            the measure of the system under judgement; `["a b"]` where a name is no plain word
`metric[scenario, "point"]`   the same in a scenario that has several points
`spread(metric[...])`         over the systems: the best value / the worst
`lead(metric[...])`           over the systems: the best value / the second best
`first(metric[...])`          over the systems: the name of the best; to be compared with == or != and a "name"
`abs(x)` `min(x, y...)` `max(x, y...)` `+ - * /` `< <= > >=` (also chained) `and or not`
"""

import ast
import re
from dataclasses import dataclass
from typing import Final

from mqlab.study.metric import METRICS

OVER_SYSTEMS: Final = ("spread", "lead", "first")
FUNCTIONS: Final = ("abs", "min", "max", *OVER_SYSTEMS)

# `latency.p99.9` would end as the number .9 for Python: the point between digits is hidden from its parser.
_FRACTION: Final = re.compile(r"(\.p\d+)\.(\d+)")
_ORDER: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# A claim is a sentence, not a program. The depth bounds the recursion here and of whoever walks the tree.
_LONGEST: Final = 1000
_DEEPEST: Final = 50


class ExpressionError(ValueError):
    """The text is no expression of this language; the message says what is accepted instead."""


@dataclass(frozen=True)
class Reference:
    """A measure named in an expression. `point` is "" in a scenario that sweeps nothing."""

    metric: str
    scenario: str
    point: str = ""


@dataclass(frozen=True)
class Expression:
    text: str
    tree: ast.Expression

    def references(self) -> tuple[Reference, ...]:
        return tuple(reference(node) for node in ast.walk(self.tree) if isinstance(node, ast.Subscript))

    def metrics(self) -> frozenset[str]:
        return frozenset(found.metric for found in self.references())

    def systems(self) -> frozenset[str]:
        """The systems it names: it cannot be judged where one of them is missing."""
        return frozenset(
            side.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
            if isinstance(side, ast.Constant) and isinstance(side.value, str)
        )


def parse(text: str) -> Expression:
    """Raises ExpressionError, with a sentence for the person who wrote the claim."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression has at most {_LONGEST} characters, this one {len(text)}")
    try:
        tree = ast.parse(_FRACTION.sub(r"\1_\2", text.strip()), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is no expression like rate.received[H] / rate.received[G] > 1.2") from None
    if _depth(tree) > _DEEPEST:
        raise ExpressionError(f"'{text}' is nested more than {_DEEPEST} times")
    _truth(tree.body)
    return Expression(text, tree)


def reference(node: ast.Subscript) -> Reference:
    """What `metric[scenario]` or `metric[scenario, "point"]` names."""
    metric = _metric(node.value)
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    names = [_name(item) for item in index]
    if len(names) > 2 or None in names or (len(names) == 2 and isinstance(index[1], ast.Name)):
        raise ExpressionError(f'{_text(node)}: write {metric}[scenario] or {metric}[scenario, "point"]')
    return Reference(metric, *(name for name in names if name is not None))


def called(node: ast.Call) -> str:
    """The function a call names."""
    name = node.func.id if isinstance(node.func, ast.Name) else _text(node.func)
    if name not in FUNCTIONS:
        raise ExpressionError(f"there is no function {name}; accepted: {', '.join(FUNCTIONS)}")
    return name


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level, depth = [part for node in level for part in ast.iter_child_nodes(node)], depth + 1
    return depth


def _metric(node: ast.expr) -> str:
    name = re.sub(r"(\.p\d+)_(\d+)$", r"\1.\2", _text(node))
    if name not in METRICS:
        raise ExpressionError(f"there is no metric {name}; accepted: {', '.join(METRICS)}")
    return name


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value)
    return None


def _text(node: ast.expr) -> str:
    return ast.unparse(node)


def _truth(node: ast.expr) -> None:
    """Checks a part that is true or false."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _truth(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _truth(part)
        case ast.Compare():
            _comparison(node)
        case _:
            raise ExpressionError(f"{_text(node)} is neither true nor false; compare it, for instance with > 1.2")


def _comparison(node: ast.Compare) -> None:
    sides = (node.left, *node.comparators)
    if all(isinstance(operator, _ORDER) for operator in node.ops):
        for side in sides:
            _number(side)
        return
    if len(sides) == 2 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        first, second = sides
        if _is_first(first) and isinstance(second, ast.Constant) and isinstance(second.value, str):
            return
    raise ExpressionError(
        f'{_text(node)}: compare values with <, <=, > or >=, and first(...) with == or != and a "system"'
    )


def _is_first(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and called(node) == "first"):
        return False
    _over_systems(node)
    return True


def _over_systems(node: ast.Call) -> None:
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Subscript):
        raise ExpressionError(f"{_text(node)}: {called(node)}() takes one measure, like rate.received[A]")
    reference(node.args[0])


def _number(node: ast.expr) -> None:
    """Checks a part that is a number."""
    match node:
        case ast.Constant(value=bool() | str()):
            raise ExpressionError(f"{_text(node)} is not a number")
        case ast.Constant(value=int() | float()):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=part):
            _number(part)
        case ast.BinOp(op=operator) if isinstance(operator, _ARITHMETIC):
            _number(node.left)
            _number(node.right)
        case ast.Subscript():
            reference(node)
        case ast.Call():
            _call(node)
        case _:
            raise ExpressionError(f"{_text(node)} is not accepted; name a measure like rate.received[A] or a number")


def _call(node: ast.Call) -> None:
    name = called(node)
    if name == "first":
        raise ExpressionError(f"{_text(node)} is a name; compare it with == or != and a system in quotes")
    if name in OVER_SYSTEMS:
        _over_systems(node)
        return
    count = len(node.args)
    if node.keywords or (count != 1 if name == "abs" else count < 2):
        raise ExpressionError(f"{_text(node)}: {name}() takes {'one value' if name == 'abs' else 'two values or more'}")
    for argument in node.args:
        _number(argument)
