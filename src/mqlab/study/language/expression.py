"""The expression language of claims: parsing, checking, and the measures that an expression names.

The grammar is a part of Python's: `rate.received[H] / rate.received[G] > 1.2`. This module only parses and checks;
report/ computes the values. Nothing is passed to eval().

`metric[scenario]`              the measure of the judged system; `["a b"]` for a name that is not an identifier
`metric[scenario, size=1KiB]`   the measure at the point with these parameters, in a scenario with several points
`metric[scenario, "point"]`     the measure at the point of that name
`metric[scenario] of "system"`  the measure of the system that replaces a published one
`min(x)` `max(x)` `mean(x)`     over all points that `size=*` or a scenario like "Q*" matches; the same in all of x
`impact(metric[...])`           the change against the base point, in percent
`spread(metric[...])`           over the systems: the best value / the worst
`lead(metric[...])`             over the systems: the best value / the second best
`first(metric[...])`            over the systems: the name of the best; compare it with == or != and a "name"
`about(x, 20)`                  whether x is the number or near it: within a factor of ABOUT_FACTOR
`abs(x)` `min(x, y...)` `max(x, y...)` `+ - * /` `< <= > >=` (also chained) `and or not`
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mqlab.errors import MqlabError
from mqlab.study.language.reference import Reference
from mqlab.study.metric import METRICS

OVER_SYSTEMS: Final = ("spread", "lead", "first")
OVER_POINTS: Final = ("min", "max", "mean")
FUNCTIONS: Final = ("about", "abs", *OVER_POINTS, "impact", *OVER_SYSTEMS)
# A value that a study calls "about 20" may be 20 / 1.5 to 20 x 1.5.
ABOUT_FACTOR: Final = 1.5

# Python would parse the end of `latency.p99.9` as the number .9, so the dot between digits is replaced before parsing.
_FRACTION: Final = re.compile(r"(\.p\d+)\.(\d+)")
# `[A, size=1KiB] of "Q 1"` is not Python. It is rewritten to `[A, "size":"1KiB", "":"Q 1"]` before parsing.
_BRACKETS: Final = re.compile(r"""\[((?:"[^"]*"|'[^']*'|[^\[\]"'])*)\](?:\s*of\s+("[^"]*"|'[^']*'))?""")
_PARAMETER: Final = re.compile(r"""\s*([a-z][a-z0-9_.]*)\s*=\s*("[^"]*"|'[^']*'|[^,"'\[\]=]*?)\s*""")
_ITEMS: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")
_ORDER: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# The depth bounds the recursion here and in the evaluation.
_MAX_CHARS: Final = 1000
_MAX_DEPTH: Final = 50
# A run looks at its claims again and again. More expressions, or parts of them, than the claims of a study have.
_CACHED: Final = 4096


class ExpressionError(MqlabError, ValueError):
    """The text is not an expression of this language; the message says what is accepted instead."""


@dataclass(frozen=True)
class Expression:
    text: str
    tree: ast.Expression

    def references(self) -> tuple[Reference, ...]:
        return references(self.tree)

    def systems(self) -> frozenset[str]:
        """Return the systems that it names. It cannot be judged if one of them is missing."""
        compared = frozenset(
            side.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
            if isinstance(side, ast.Constant) and isinstance(side.value, str)
        )
        return compared | {reference.system for reference in self.references() if reference.system}

    @property
    def over_systems(self) -> bool:
        """Whether it compares all systems."""
        return bool(self._over_systems())

    def _over_systems(self) -> list[ast.Call]:
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return [call for call in calls if function_name(call) in OVER_SYSTEMS]

    @property
    def about_each(self) -> bool:
        """Whether a part depends on the judged system; otherwise one verdict is valid for all systems."""
        inside = {id(argument) for call in self._over_systems() for argument in call.args}
        nodes = ast.walk(self.tree)
        named = [node for node in nodes if isinstance(node, ast.Subscript) and id(node) not in inside]
        return any(not parse_reference(node).system for node in named)


@lru_cache(maxsize=_CACHED)
def parse(text: str) -> Expression:
    """Parse and check an expression. Raises ExpressionError with a sentence for the author of the claim."""
    tree = _tree(text, "an expression like rate.received[H] / rate.received[G] > 1.2")
    _check_boolean(tree.body)
    return Expression(text, tree)


def parse_measure(text: str) -> Reference:
    """Return the reference of `metric[scenario, ...]` alone. Raises ExpressionError."""
    body = _tree(text, "a measure like rate.received[A]").body
    if not isinstance(body, ast.Subscript):
        raise ExpressionError(f"'{text}' is not a measure like rate.received[A]")
    return parse_reference(body)


def _tree(text: str, expected: str) -> ast.Expression:
    if len(text) > _MAX_CHARS:
        raise ExpressionError(f"an expression has at most {_MAX_CHARS} characters, this one {len(text)}")
    try:
        tree = ast.parse(_BRACKETS.sub(_as_python, _FRACTION.sub(r"\1_\2", text.strip())), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not {expected}") from None
    if _depth(tree) > _MAX_DEPTH:
        raise ExpressionError(f"'{text}' is nested more than {_MAX_DEPTH} levels deep")
    return tree


@lru_cache(maxsize=_CACHED)
def references(node: ast.AST) -> tuple[Reference, ...]:
    """Return all measures that a part of an expression names."""
    return tuple(parse_reference(part) for part in ast.walk(node) if isinstance(part, ast.Subscript))


@lru_cache(maxsize=_CACHED)
def parse_reference(node: ast.Subscript) -> Reference:
    """Return the reference of `metric[scenario, ...] of "system"`."""
    metric = _metric(node.value)
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    pairs = [pair for item in index if (pair := _pair(item))]
    names = [_name(item) for item in index if not _pair(item)]
    if not 1 <= len(names) <= 2 or None in names or (len(names) == 2 and isinstance(index[1], ast.Name)):
        forms = f'{metric}[scenario], {metric}[scenario, size=1KiB] or {metric}[scenario, "point"]'
        raise ExpressionError(f"{text_of(node)}: write {forms}")
    where = tuple((key, value) for key, value in pairs if key)
    if where and len(names) == 2:
        raise ExpressionError(f"{text_of(node)}: write the name of the point or its parameters, not both")
    system = next((value for key, value in pairs if not key), "")
    scenario, point = [*(name for name in names if name is not None), ""][:2]
    return Reference(metric, scenario, point, where, system)


def function_name(node: ast.Call) -> str:
    name = node.func.id if isinstance(node.func, ast.Name) else text_of(node.func)
    if name not in FUNCTIONS:
        raise ExpressionError(f"there is no function {name}; accepted: {', '.join(FUNCTIONS)}")
    return name


def text_of(node: ast.expr) -> str:
    """Return a part of an expression in the syntax of claims."""
    text = re.sub(r"(\.p\d+)_(\d+)", r"\1.\2", ast.unparse(node)).replace("'", '"')
    text = re.sub(r',?\s*"":\s*"([^"]*)"\]', r'] of "\1"', text)
    return re.sub(r'"([^"]*)":\s*"([^"]*)"', r"\1=\2", text)


def _as_python(brackets: re.Match[str]) -> str:
    items = _ITEMS.findall(brackets[1])
    if brackets[1] and "".join(items).replace(",", "") != brackets[1].replace(",", ""):
        return brackets[0]
    rewritten = [_item_as_python(item) for item in items]
    if brackets[2]:
        rewritten.append(f'"":{brackets[2]}')
    return f"[{', '.join(rewritten)}]"


def _item_as_python(item: str) -> str:
    match = _PARAMETER.fullmatch(item)
    if match is None:
        return item
    value = match[2] if match[2][:1] in ("'", '"') else f'"{match[2]}"'
    return f'"{match[1]}":{value}'


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level, depth = [part for node in level for part in ast.iter_child_nodes(node)], depth + 1
    return depth


def _metric(node: ast.expr) -> str:
    name = text_of(node)
    if name not in METRICS:
        raise ExpressionError(f"there is no metric {name}; accepted: {', '.join(METRICS)}")
    return name


def _pair(node: ast.expr) -> tuple[str, str] | None:
    match node:
        case ast.Slice(lower=ast.Constant(value=str(key)), upper=ast.Constant(value=str(value)), step=None):
            return key, value
    return None


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value)
    return None


def _check_boolean(node: ast.expr) -> None:
    """Check a part whose value is true or false."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _check_boolean(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _check_boolean(part)
        case ast.Compare():
            _check_comparison(node)
        case ast.Call() if function_name(node) == "about":
            _check_about(node)
        case _:
            raise ExpressionError(f"{text_of(node)} is neither true nor false; compare it, for instance with > 1.2")


def _check_about(node: ast.Call) -> None:
    if len(node.args) != 2 or node.keywords or not about_range(node):
        raise ExpressionError(f"{text_of(node)}: about() takes a value and a number that is not 0, like about(x, 20)")
    _check_number(node.args[0])


def about_range(node: ast.Call) -> tuple[float, float] | None:
    """Return the least and the greatest value that `about(x, number)` accepts; None if it has no such number."""
    match node.args[1]:
        case ast.Constant(value=int() | float() as value) if value > 0 and not isinstance(value, bool):
            return value / ABOUT_FACTOR, value * ABOUT_FACTOR
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if value > 0:
            return -value * ABOUT_FACTOR, -value / ABOUT_FACTOR
    return None


def _check_comparison(node: ast.Compare) -> None:
    sides = (node.left, *node.comparators)
    if all(isinstance(operator, _ORDER) for operator in node.ops):
        for side in sides:
            _check_number(side)
        return
    if len(sides) == 2 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        first, second = sides
        if _is_first_call(first) and isinstance(second, ast.Constant) and isinstance(second.value, str):
            return
    raise ExpressionError(
        f'{text_of(node)}: compare values with <, <=, > or >=, and first(...) with == or != and a "system"'
    )


def _is_first_call(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and function_name(node) == "first"):
        return False
    _check_single_measure(node)
    return True


def _check_single_measure(node: ast.Call) -> Reference:
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Subscript):
        raise ExpressionError(f"{text_of(node)}: {function_name(node)}() takes one measure, like rate.received[A]")
    reference = parse_reference(node.args[0])
    if reference.system and function_name(node) in OVER_SYSTEMS:
        raise ExpressionError(f"{text_of(node)}: {function_name(node)}() is over all systems; leave out of")
    return reference


def _check_number(node: ast.expr, over_points: bool = False) -> None:
    """Check a part whose value is a number; `over_points`: inside min, max or mean over points."""
    match node:
        case ast.Constant(value=bool() | str()):
            raise ExpressionError(f"{text_of(node)} is not a number")
        case ast.Constant(value=int() | float()):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=part):
            _check_number(part, over_points)
        case ast.BinOp(op=operator) if isinstance(operator, _ARITHMETIC):
            _check_number(node.left, over_points)
            _check_number(node.right, over_points)
        case ast.Subscript():
            _check_measure(node, parse_reference(node), over_points)
        case ast.Call():
            _check_call(node, over_points)
        case _:
            raise ExpressionError(f"{text_of(node)} is not accepted; name a measure like rate.received[A] or a number")


def _check_measure(node: ast.expr, reference: Reference, over_points: bool) -> None:
    if reference.open and not over_points:
        raise ExpressionError(f"{text_of(node)} matches several points; take the min(), max() or mean() of it")


def _check_call(node: ast.Call, over_points: bool) -> None:
    name = function_name(node)
    if name == "first":
        raise ExpressionError(f"{text_of(node)} is a name; compare it with == or != and a system in quotes")
    if name == "about":
        raise ExpressionError(f"{text_of(node)} is true or false, and not a number")
    if name in OVER_SYSTEMS or name == "impact":
        _check_measure(node, _check_single_measure(node), over_points)
        return
    count = len(node.args)
    if node.keywords or (count != 1 if name in ("abs", "mean") else count < 1):
        raise ExpressionError(f"{text_of(node)}: {name}() takes {'one value' if name in ('abs', 'mean') else 'values'}")
    if count == 1 and name in OVER_POINTS:
        _check_over_points(node, over_points)
        return
    for argument in node.args:
        _check_number(argument, over_points)


def _check_over_points(node: ast.Call, nested: bool) -> None:
    if nested or not any(reference.open for reference in references(node.args[0])):
        raise ExpressionError(
            f"{text_of(node)}: with one value {function_name(node)}() takes two values or more,"
            " or a measure of several points like rate.received[A, size=*]"
        )
    _check_number(node.args[0], over_points=True)


def open_references(node: ast.AST) -> Iterator[Reference]:
    """Return the references to several points; min, max or mean over points bind all of them to the same point."""
    return (reference for reference in references(node) if reference.open)
